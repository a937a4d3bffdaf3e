"""The same bits from Python and from the msda command, which calls the library from C++."""

import subprocess

import ml_dtypes
import numpy as np
import pytest

from conftest import GOLDEN, GOLDEN_NAMES
from hang import HANG_SECONDS
from numeric_cases import kernels_of
from test_golden_vectors import load

TYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8_e4m3": ml_dtypes.float8_e4m3fn,
}


def command_results(command, name, folder, kernel, dtype, *options):
    output = folder / "result.npz"
    subprocess.run(
        [
            command,
            "run",
            "--npz",
            GOLDEN / f"{name}.npz",
            "--dtype",
            dtype,
            "--kernel",
            kernel,
            "--iterations",
            "1",
            "--warmup",
            "0",
            "--output",
            output,
            *options,
        ],
        check=True,
        capture_output=True,
        timeout=HANG_SECONDS,
    )
    with np.load(output) as arrays:
        return dict(arrays)


def assert_same_bits(found, expected, name):
    assert found.shape == expected.shape, name
    assert found.dtype.itemsize == expected.dtype.itemsize, name
    assert found.tobytes() == expected.tobytes(), name


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_forward(command, tmp_path, name, dtype):
    case = load(name, np.dtype(TYPES[dtype]))
    case.options.clear()  # the command has no value_scale
    for kernel in kernels_of(case):
        found = command_results(command, name, tmp_path, kernel, dtype)
        assert_same_bits(found["output"], case.forward(kernel=kernel), f"output by {kernel}")


@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16"])
@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_backward(command, tmp_path, name, dtype):
    case = load(name, np.dtype(TYPES[dtype]))
    found = command_results(command, name, tmp_path, "ref.cpu@1", dtype, "--backward")
    gradients = case.backward(kernel="ref.cpu@1")
    assert set(found) == {f"grad_{field}" for field in gradients._fields}
    for field, gradient in zip(gradients._fields, gradients):
        assert_same_bits(found[f"grad_{field}"], gradient, f"grad_{field}")
