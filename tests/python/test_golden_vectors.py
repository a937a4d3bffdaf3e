"""The golden vectors through every kernel, forward and backward, in every element type."""

import numpy as np
import pytest

import generate
import libmsda
from conftest import CPU_KERNELS, GOLDEN_NAMES, golden
from numeric_cases import (
    F8,
    INPUTS,
    VALUE_DTYPES,
    NumericCase,
    check_backward,
    check_forward,
    kernels_of,
)


def load(name, value_dtype):
    """A file as a case, its inputs rounded to the types; float8 values come with a scale a head."""
    arrays = golden(name)
    mode = "sampled" if "coord" in arrays else "fused"
    sampling = np.float64 if value_dtype == np.float64 else np.float32
    output = np.float32 if value_dtype == F8 else value_dtype
    options = {}
    if value_dtype == F8:
        options["value_scale"] = np.linspace(0.5, 2, arrays["value"].shape[2], dtype=np.float32)
    return NumericCase(
        arrays["level_hw"].tolist(),
        arrays["points"].tolist(),
        arrays["value"].astype(value_dtype),
        tuple(arrays[n].astype(sampling) for n in INPUTS[mode]),
        arrays["grad_output"].astype(output),
        options,
    )


@pytest.mark.parametrize("dtype", VALUE_DTYPES, ids=str)
@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_forward(name, dtype):
    case = load(name, dtype)
    for kernel in kernels_of(case):
        check_forward(case, kernel)


@pytest.mark.parametrize("dtype", VALUE_DTYPES, ids=str)
@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_backward(name, dtype):
    check_backward(load(name, dtype), "ref.cpu@1")


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_stored_results(name):
    """The numbers in the files themselves, which another program computed."""
    arrays = golden(name)
    case = load(name, np.dtype(np.float64))
    gradients = case.backward()
    computed = {"output": case.forward()}
    computed |= {f"grad_{n}": g for n, g in zip(gradients._fields, gradients)}
    inputs = {n: a for n, a in arrays.items() if n not in computed}
    assert list(generate.differences(inputs, computed, arrays)) == []


@pytest.mark.parametrize("kernel", CPU_KERNELS)
def test_kernels_refuse_by_name(kernel):
    """Every kernel takes the types it says, and refuses the others with a reason."""
    for dtype in VALUE_DTYPES:
        case = load("ddetr_test", dtype)
        if kernel in kernels_of(case):
            assert case.forward(kernel=kernel).shape == (1, 2, 2, 2)
        else:
            with pytest.raises(libmsda.UnsupportedError, match=f"{kernel}.*value_dtype"):
                case.forward(kernel=kernel)
