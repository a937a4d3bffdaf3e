"""Nearest sampling of arrays: the pixels of the formula, forward and backward, by every kernel of the CPU."""

import numpy as np
import pytest

import libmsda
import oracle
from conftest import CPU_KERNELS, GOLDEN

LEVELS, POINTS = [(4, 6), (2, 3)], [3, 3]


def assert_same(found, wanted):
    """To rounding: another pixel would be off by 1 at least."""
    for one, exact in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", [None, "ref.cpu@1"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_points_on_lines_and_outside(dtype, kernel):
    rng = np.random.default_rng(5)
    value = np.arange(30, dtype=np.float32).reshape(1, 30, 1, 1) * np.ones((2, 1, 2, 3), np.float32)
    sizes = np.repeat([[6, 4], [3, 2]], 3, axis=0)
    coord = (rng.integers(-9, 20, (2, 50, 2, 6, 2)) + rng.choice([0, 0.5, 0.5], (2, 50, 2, 6, 2))) / sizes
    coord[0, :8, 0, 0, 0] = [np.nan, np.inf, -np.inf, 1e38, -1e38, 6e4, -0.0, 1e-40]
    with np.errstate(over="ignore"):
        coord = coord.astype(dtype)
    weight = rng.uniform(-1, 1, coord.shape[:-1]).astype(np.float32)
    grad_output = rng.standard_normal((2, 50, 2, 3)).astype(np.float32)
    given = value, LEVELS, coord, weight
    settings = dict(points=POINTS, kernel=kernel, sampling_mode="nearest")
    exact = value, LEVELS, POINTS, coord, weight
    assert_same([libmsda.forward(*given, **settings)], [oracle.forward(*exact, nearest=True)])
    gradients = libmsda.backward(*given, grad_output, **settings)
    assert_same(gradients, oracle.backward(*exact, grad_output, nearest=True))
    assert gradients.value.any() and gradients.weight.any() and not gradients.coord.any()


@pytest.mark.parametrize("kernel", [kernel for kernel in CPU_KERNELS if "ref." in kernel or ".f32@" in kernel])
@pytest.mark.parametrize("name", ["edges", "ragged_points", "fused_ref2", "fused_ref4"])
def test_golden_vectors(name, kernel):
    arrays = dict(np.load(GOLDEN / "nearest" / f"{name}.npz"))
    fused = "reference" in arrays
    names = ("reference", "offset", "logit") if fused else ("coord", "weight")
    dtype = np.float64 if kernel.startswith("ref") else np.float32
    value, grad_output = (arrays[name].astype(dtype) for name in ("value", "grad_output"))
    inputs = [arrays[name] for name in names]  # of float64: the pixels are those of the file
    settings = dict(points=arrays["points"], kernel=kernel, sampling_mode="nearest")
    forward, backward = libmsda.forward, libmsda.backward
    if fused:
        forward, backward = libmsda.forward_fused, libmsda.backward_fused
    given = value, arrays["level_hw"], *inputs
    assert_same([forward(*given, **settings)], [arrays["output"]])
    assert_same(backward(*given, grad_output, **settings), [arrays[f"grad_{name}"] for name in ("value", *names)])


def test_a_mode_that_is_refused():
    given = np.zeros((1, 30, 1, 1)), LEVELS, np.zeros((1, 1, 1, 6, 2)), np.zeros((1, 1, 1, 6))
    with pytest.raises(libmsda.InvalidArgumentError, match="sampling_mode is 'bicubic': must be one of bilinear, nearest"):
        libmsda.forward(*given, sampling_mode="bicubic")
