"""Every mistake becomes an exception that names the argument, its value and what is allowed.

Outputs stay as they were, and the next call is right."""

import re

import ml_dtypes
import numpy as np
import pytest

import libmsda
from gpu_machine import NO_DEVICE, must_work

WRONG = {  # what is changed in a call that is right: the exception and what its text must say
    "value of 3 axes": (
        dict(value=np.zeros((2, 30, 24), np.float32)),
        libmsda.InvalidArgumentError,
        r"value has shape \(2, 30, 24\): must be \[B, S, M, D\]",
    ),
    "value too short": (
        dict(value=np.zeros((2, 29, 3, 8), np.float32)),
        libmsda.InvalidArgumentError,
        r"value has shape \(2, 29, 3, 8\): must be \(2, 30, 3, 8\)",
    ),
    "value of integers": (
        dict(value=np.zeros((2, 30, 3, 8), np.int32)),
        libmsda.InvalidArgumentError,
        "value.dtype is 'int32': must be one of float64, float32",
    ),
    "value of objects": (dict(value=[[[["x"]]]]), libmsda.InvalidArgumentError, "value.dtype is '<U1'"),
    "a foreign float8": (
        dict(value=np.zeros((2, 30, 3, 8), ml_dtypes.float8_e5m2)),
        libmsda.InvalidArgumentError,
        "value.dtype is 'float8_e5m2': must be one of float64",
    ),
    "float8 weight": (
        dict(weight=np.zeros((2, 7, 3, 4), ml_dtypes.float8_e4m3fn)),
        libmsda.InvalidArgumentError,
        "weight.dtype is 'float8_e4m3fn': must be one of float64, float32, float16, bfloat16$",
    ),
    "coord of another batch": (
        dict(coord=np.zeros((1, 7, 3, 4, 2), np.float32)),
        libmsda.InvalidArgumentError,
        r"coord has shape \(1, 7, 3, 4, 2\): must be \(2,",
    ),
    "coord of three numbers": (
        dict(coord=np.zeros((2, 7, 3, 4, 3), np.float32)),
        libmsda.InvalidArgumentError,
        "coord has shape",
    ),
    "coord of other levels": (
        dict(coord=np.zeros((2, 7, 3, 4, 1, 2), np.float32)),
        libmsda.InvalidArgumentError,
        "axis 3 must be the 2 levels",
    ),
    "weight of other points": (
        dict(weight=np.zeros((2, 7, 3, 6), np.float32)),
        libmsda.InvalidArgumentError,
        r"weight has shape .*\(2, 7, 3, 4\) = \[B, Q, M, K\]",
    ),
    "levels of one number": (dict(level_hw=[4, 6]), libmsda.InvalidArgumentError, "level_hw is"),
    "levels of three numbers": (
        dict(level_hw=[(4, 6, 1), (2, 3, 1)]),
        libmsda.InvalidArgumentError,
        r"level_hw\[0\] is \(4, 6, 1\)",
    ),
    "levels of fractions": (
        dict(level_hw=[(4, 6.5), (2, 3)]),
        libmsda.InvalidArgumentError,
        r"level_hw\[0\]\[1\] is 6.5: must be an integer",
    ),
    "a negative level": (
        dict(level_hw=[(4, 6), (-2, -3)]),
        libmsda.InvalidArgumentError,
        r"level_hw\[1\]\[0\] is -2: must be 0 to 2147483647",
    ),
    "a huge level": (
        dict(level_hw=[(4, 6), (2**31, 3)]),
        libmsda.InvalidArgumentError,
        r"level_hw\[1\]\[0\] is 2147483648: must be 0 to",
    ),
    "levels too many": (
        dict(level_hw=[(2**31 - 1, 2**31 - 1)] * 2),
        libmsda.InvalidArgumentError,
        r"level_hw\[\d\]|value has shape",
    ),
    "points that do not fit": (dict(points=[1, 2]), libmsda.InvalidArgumentError, "coord has shape"),
    "points of three levels": (
        dict(points=[1, 2, 1]),
        libmsda.InvalidArgumentError,
        "points has 3 entries: must have one for each of the 2 levels",
    ),
    "points negative": (dict(points=[5, -1]), libmsda.InvalidArgumentError, r"points\[1\] is -1"),
    "points of two kinds": (
        dict(level_hw=[(3, 6), (2, 3), (2, 3)]),
        libmsda.InvalidArgumentError,
        "points is None: must be given, 4 points are not",
    ),
    "scale of float32": (
        dict(value_scale=np.ones(3, np.float32)),
        libmsda.InvalidArgumentError,
        "value_scale is given: must be None, as value.dtype is float32",
    ),
    "queries of another grid": (
        dict(query_hw=[(2, 2)]),
        libmsda.InvalidArgumentError,
        "query_hw has 4 pixels in all: must be query_count, which is 7",
    ),
    "an unknown mode": (
        dict(math_mode="exact"),
        libmsda.InvalidArgumentError,
        "math_mode is 'exact': must be one of accurate, fast",
    ),
    "an unknown kernel": (
        dict(kernel="warp.sm99@1"),
        libmsda.InvalidArgumentError,
        r"kernel_id is 'warp.sm99@1': must be one of ref.cpu@1",
    ),
    "a kernel without its revision": (
        dict(kernel="ref.cpu"),
        libmsda.InvalidArgumentError,
        r"kernel_id is 'ref.cpu': must be ref.cpu@1$",
    ),
    "a kernel of another revision": (
        dict(kernel="simd.cpu.f16@99"),
        libmsda.InvalidArgumentError,
        r"kernel_id is 'simd.cpu.f16@99': must be simd.cpu.f16@2$",
    ),
    "a kernel of another type": (
        dict(kernel="simd.cpu.f16@2"),
        libmsda.UnsupportedError,
        "simd.cpu.f16@2.*value_dtype",
    ),
    "negative threads": (
        dict(threads=-1),
        libmsda.InvalidArgumentError,
        "threads is -1: must be 0 to 2147483647",
    ),
    "too many threads": (
        dict(threads=10**12),
        libmsda.InvalidArgumentError,
        "threads is 1000000000000",
    ),
    "a border of two": (dict(value_border=2), libmsda.InvalidArgumentError, "value_border is 2"),
    "an unknown out type": (
        dict(out_dtype="float31"),
        libmsda.InvalidArgumentError,
        "out_dtype is 'float31': must be one of",
    ),
    "out a list": (
        dict(out=[0.0]),
        libmsda.InvalidArgumentError,
        "out is list: must be a numpy.ndarray",
    ),
    "out too small": (
        dict(out=np.zeros((2, 6, 3, 8), np.float32)),
        libmsda.InvalidArgumentError,
        r"out has shape \(2, 6, 3, 8\): must be \(2, 7, 3, 8\)",
    ),
    "out flat": (
        dict(out=np.zeros(336, np.float32)),
        libmsda.InvalidArgumentError,
        "out has shape",
    ),
    "out spread": (
        dict(out=np.zeros((2, 7, 3, 16), np.float32)[..., ::2]),
        libmsda.InvalidArgumentError,
        r"out has element strides \(336, 48, 16, 2\): must be packed",
    ),
    "out of integers": (
        dict(out=np.zeros((2, 7, 3, 8), int)),
        libmsda.InvalidArgumentError,
        "out.dtype is 'int64': must be one of float64, float32, float16, bfloat16$",
    ),
    "out repeated": (
        dict(
            out=np.lib.stride_tricks.as_strided(
                np.zeros(2000, np.float32), (2, 7, 3, 8), (0, 96, 32, 4)
            )
        ),
        libmsda.InvalidArgumentError,
        r"output_strides\[0\] is 0: must be at least",
    ),
    "out and out_dtype": (
        dict(out=np.zeros((2, 7, 3, 8), np.float32), out_dtype="float32"),
        libmsda.InvalidArgumentError,
        "out_dtype is 'float32': must be None",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_forward_refuses(small, mistake):
    change, kind, words = WRONG[mistake]
    expected = libmsda.forward(**small)
    out = np.full((2, 7, 3, 8), 7, np.float32)
    given = small | ({} if "out_dtype" in change else {"out": out}) | change
    with pytest.raises(kind) as caught:
        libmsda.forward(**given)
    assert re.search(words, str(caught.value)), str(caught.value)
    assert caught.value.status == kind.status
    assert (out == 7).all()
    assert np.array_equal(libmsda.forward(**small), expected)


def test_read_only_out(small):
    out = np.full((2, 7, 3, 8), 7, np.float32)
    out.flags.writeable = False
    with pytest.raises(libmsda.InvalidArgumentError, match="out is read-only: must be writable"):
        libmsda.forward(**small, out=out)
    assert (out == 7).all()


def test_out_may_not_be_an_input(small):
    small["value"] = np.ones((2, 30, 3, 8), np.float32)
    with pytest.raises(
        libmsda.InvalidArgumentError, match="tensors.value .* and tensors.output .* overlap"
    ):
        libmsda.forward(**small, out=small["value"][:, :7])
    assert (small["value"] == 1).all()


def test_unknown_arguments(small):
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        libmsda.forward(**small, weights=1)
    with pytest.raises(
        libmsda.InvalidArgumentError, match="wanted has 'grad_value': must be of value, coord"
    ):
        libmsda.backward(**small, grad_output=libmsda.forward(**small), wanted=("grad_value",))
    with pytest.raises(libmsda.InvalidArgumentError, match="threads is 2: must be None when handle"):
        libmsda.forward(**small, threads=2, handle=libmsda.Handle())


@pytest.mark.parametrize(
    "name, shape",
    [
        ("reference", (2, 7, 2, 3)),
        ("reference", (2, 7, 3, 2)),
        ("offset", (2, 7, 3, 4)),
        ("logit", (2, 7, 1, 4)),
    ],
)
def test_fused_refuses(small, name, shape):
    fused = {
        "reference": np.zeros((2, 7, 2, 2), np.float32),
        "offset": small["coord"],
        "logit": small["weight"],
        "value": small["value"],
        "level_hw": small["level_hw"],
    }
    libmsda.forward_fused(**fused)
    with pytest.raises(libmsda.InvalidArgumentError, match=name):
        libmsda.forward_fused(**fused | {name: np.zeros(shape, np.float32)})
    with pytest.raises(libmsda.InvalidArgumentError, match="reference.dtype is 'int32': must be one of"):
        libmsda.forward_fused(**fused | {"reference": np.zeros((2, 7, 2, 2), np.int32)})


def test_grad_output_refused(small):
    with pytest.raises(libmsda.InvalidArgumentError, match="grad_output has shape"):
        libmsda.backward(**small, grad_output=np.zeros((2, 7, 3, 9), np.float32))


@pytest.mark.parametrize(
    "field, given, words",
    [
        ("batch", -1, "batch is -1: must be 0 to 9223372036854775807"),
        ("batch", 2**63, "batch is 9223372036854775808"),
        ("query_count", 1.5, "query_count is 1.5: must be an integer"),
        ("head_count", None, "head_count is None"),
        ("head_dim", 2**62, "value of 2 x 24 x 3 x 4611686018427387904 elements exceeds"),
        ("operation", "sideways", "operation is 'sideways': must be one of forward, backward"),
        ("input_mode", "raw", "input_mode is 'raw': must be one of sampled, fused"),
        ("reference_dim", 2, "reference_dim is 2: must be 0 when input_mode is MSDA_INPUT_SAMPLED"),
        ("value_dtype", "int8", "value_dtype is 'int8': must be one of float64"),
        ("value_strides", (1, 2), r"value_strides is \(1, 2\): must be three numbers"),
        ("value_strides", (1, -2, 3), r"value_strides\[1\] is -2"),
        ("output_strides", (1, 1, 1), r"output_strides\[\d\] is 1: must be at least"),
    ],
)
def test_problem_refuses(field, given, words):
    right = dict(level_hw=[(4, 6)], points=4, batch=2, query_count=5, head_count=3, head_dim=8)
    libmsda.Plan(libmsda.Problem(**right))
    with pytest.raises(libmsda.InvalidArgumentError, match=words):
        libmsda.Plan(libmsda.Problem(**right | {field: given}))


def test_exceptions_are_the_usual_ones_too():
    assert issubclass(libmsda.InvalidArgumentError, ValueError)
    assert issubclass(libmsda.UnsupportedError, NotImplementedError)
    assert issubclass(libmsda.OutOfMemoryError, MemoryError)
    assert {kind.status for kind in libmsda.Error.__subclasses__()} == set(range(1, 9))


def test_a_device_that_is_not_there():
    """Without a driver or without CUDA in the library no device can be opened; else this one is out of range."""
    expected = libmsda.InvalidArgumentError if must_work(libmsda.build_info()) else libmsda.CudaError
    with pytest.raises(expected, match=f"handle_options.device is {NO_DEVICE}: ") as caught:
        libmsda.Handle(device=NO_DEVICE)
    assert type(caught.value) is expected and caught.value.status == expected.status


@pytest.mark.skipif(must_work(libmsda.build_info()), reason="there is a GPU")
def test_no_device_without_a_gpu():
    with pytest.raises(libmsda.CudaError, match="device is 0: .*MSDA_DEVICE_CPU") as caught:
        libmsda.Handle(device=0)
    assert isinstance(caught.value, RuntimeError) and caught.value.status == 7


@pytest.mark.skipif(not must_work(libmsda.build_info()), reason="there is no GPU, or no CUDA in the library")
def test_device_0_of_a_gpu():
    """Every kernel is for the CPU or for a GPU: a handle of the GPU refuses the former by name."""
    problem = libmsda.Problem(
        level_hw=[(4, 6)], points=4, batch=2, query_count=5, head_count=3, head_dim=8
    )
    handle = libmsda.Handle(device=0)
    assert ".sm" in handle.plan(problem).info.kernel_id
    with pytest.raises(libmsda.UnsupportedError, match="ref.cpu@1.*runs on the CPU"):
        handle.plan(problem, kernel="ref.cpu@1")
