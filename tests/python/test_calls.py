"""The functions as the world calls them: options, level starts, broadcasts, hints, explain, caches."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import libmsda
from hang import HANG_SECONDS
from libmsda._arrays.dlpack import cuda_interface
from libmsda._arrays.view import View
from libmsda._core.cache import Cache


@pytest.mark.parametrize("level_hw", [None, 2, [4, 6, 2, 3], "ab", [(4, 6), 2], 1.5])
def test_levels_of_any_kind_are_refused_by_name(small, level_hw):
    with pytest.raises(libmsda.InvalidArgumentError, match="level_hw"):
        libmsda.forward(**small | {"level_hw": level_hw})


def test_levels_from_a_generator(small):
    expected = libmsda.forward(**small)
    pairs = (pair for pair in [(4, 6), (2, 3)])
    assert np.array_equal(libmsda.forward(**small | {"level_hw": pairs}), expected)


@pytest.mark.parametrize("name", ["value", "coord", "weight"])
def test_masked_arrays_are_refused(small, name):
    masked = np.ma.array(small[name], mask=np.ones(small[name].shape, bool))
    with pytest.raises(libmsda.InvalidArgumentError, match=f"{name} is a masked array"):
        libmsda.forward(**small | {name: masked})


@pytest.mark.parametrize("name", ["coord", "weight"])
def test_no_float8_is_offered_for_points(small, name):
    with pytest.raises(libmsda.InvalidArgumentError, match=rf"{name}\.dtype is 'int64'.*float32") as e:
        libmsda.forward(**small | {name: small[name].astype(np.int64)})
    assert "float8" not in str(e.value)


def test_usual_mistakes_are_guessed(small):
    for change, words in [
        ({"value": small["value"].swapaxes(1, 2).copy()}, r"if it is \[B, M, S, D\]"),
        ({"value": small["value"].reshape(2, 30, 24)}, "all heads together"),
        ({"level_hw": [4, 6, 2, 3]}, r"\[\(4, 6\), \(2, 3\)\] is meant"),
        ({"value": small["value"][:, :29]}, r"4 x 6 \+ 2 x 3 pixels, not 29"),
    ]:
        with pytest.raises(libmsda.InvalidArgumentError, match=words):
            libmsda.forward(**small | change)


def test_level_start_index(small):
    expected = libmsda.forward(**small)
    for starts in ([0, 24], np.array([0, 24])):
        assert np.array_equal(libmsda.forward(**small, level_start_index=starts), expected)
    for starts in ([0, 25], [0], 3, [0, -1]):
        with pytest.raises(libmsda.InvalidArgumentError, match="level_start_index"):
            libmsda.forward(**small, level_start_index=starts)


def test_levels_in_another_order_and_with_gaps(small):
    expected = libmsda.forward(**small)
    gradients = libmsda.backward(**small, grad_output=expected)
    value = small["value"]
    gap = np.full_like(value[:, :3], np.nan)
    moved = small | {"value": np.concatenate([value[:, 24:], gap, value[:, :24]], axis=1)}
    starts = [9, 0]
    assert np.array_equal(libmsda.forward(**moved, level_start_index=starts), expected)
    found = libmsda.backward(**moved, level_start_index=starts, grad_output=expected)
    assert np.array_equal(found.coord, gradients.coord)
    assert np.array_equal(found.value[:, 9:], gradients.value[:, :24])
    assert np.array_equal(found.value[:, :6], gradients.value[:, 24:])
    assert not found.value[:, 6:9].any()


def test_levels_with_a_gap_at_the_end(small):
    """They start as if there were none."""
    expected = libmsda.forward(**small)
    gap = np.full_like(small["value"][:, :3], np.nan)
    longer = small | {"value": np.concatenate([small["value"], gap], axis=1)}
    assert np.array_equal(libmsda.forward(**longer, level_start_index=[0, 24]), expected)
    with pytest.raises(libmsda.InvalidArgumentError, match=r"4 x 6 \+ 2 x 3 pixels, not 33"):
        libmsda.forward(**longer)
    none = {"level_hw": [], "coord": small["coord"][..., :0, :], "weight": small["weight"][..., :0]}
    assert not libmsda.forward(**small | none, level_start_index=[]).any()


def test_a_reference_of_one_level_is_broadcast(small):
    reference = np.full((2, 7, 1, 2), 0.4, np.float32)
    fused = (small["value"], small["level_hw"])
    rest = (small["coord"], small["weight"])
    whole = np.repeat(reference, 2, axis=2)
    expected = libmsda.forward_fused(*fused, whole, *rest)
    assert np.array_equal(libmsda.forward_fused(*fused, reference, *rest), expected)
    one = libmsda.backward_fused(*fused, reference, *rest, expected)
    both = libmsda.backward_fused(*fused, whole, *rest, expected)
    assert one.reference.shape == (2, 7, 1, 2)
    assert np.allclose(one.reference, both.reference.sum(2, keepdims=True))
    assert np.array_equal(one.offset, both.offset)


@pytest.mark.parametrize("dim", [2, 4])
@pytest.mark.parametrize("kernel", ["ref.cpu@1", "simd.cpu.f32@2"])
def test_references_beside_offsets_of_16_bits(small, kernel, dim):
    """The numbers that they are together: those of offsets that are as wide, which hold the same."""
    reference = np.random.default_rng(7).uniform(0.2, 0.8, (2, 7, 2, dim)).astype(np.float32)
    offset = small["coord"].astype(np.float16)
    given = (small["value"], small["level_hw"], reference)
    wide = libmsda.forward_fused(*given, offset.astype(np.float32), small["weight"], kernel=kernel)
    found = libmsda.forward_fused(*given, offset, small["weight"], kernel=kernel)
    assert found.dtype == np.float32 and np.array_equal(found, wide)
    expected = libmsda.backward_fused(*given, offset.astype(np.float32), small["weight"], wide, kernel=kernel)
    gradients = libmsda.backward_fused(*given, offset, small["weight"], wide, kernel=kernel)
    assert gradients.reference.dtype == np.float32 and gradients.offset.dtype == np.float16
    assert np.array_equal(gradients.reference, expected.reference) and expected.reference.any()
    assert np.array_equal(gradients.offset, expected.offset.astype(np.float16))
    assert np.array_equal(gradients.logit, expected.logit)
    # 16 bits of a reference are another position.
    half = libmsda.forward_fused(
        *given[:2], reference.astype(np.float16), offset.astype(np.float32), small["weight"], kernel=kernel
    )
    assert not np.array_equal(half, wide) and np.allclose(half, wide, atol=0.05)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("dtype, within", [("float64", 2e-7), ("float32", 2e-7), ("float16", 1e-3), ("bfloat16", 8e-3)])
def test_attention_weights(small, dtype, within, apart):
    """The softmax of the logits in their shape and type; the output's bits are those of a call without."""
    reference = np.full((2, 7, 1, 2), 0.4, np.float32)
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    logit = (4 * small["weight"]).astype(dtype)
    offset = small["coord"]
    if apart:
        logit, offset = logit.reshape(2, 7, 3, 2, 2), offset.reshape(2, 7, 3, 2, 2, 2)
    given = (small["value"], small["level_hw"], reference, offset, logit)
    output = libmsda.forward_fused(*given)
    found, attention = libmsda.forward_fused(*given, attention=True)
    assert np.array_equal(found, output)
    power = np.exp(logit.astype(np.float64))
    axes = (3, 4) if apart else 3
    assert attention.shape == logit.shape and attention.dtype == logit.dtype
    exact = power / power.sum(axes, keepdims=True)
    assert np.allclose(attention.astype(np.float64), exact, rtol=within, atol=0)
    own = np.empty_like(output)
    assert libmsda.forward_fused(*given, out=own, attention=True)[0] is own
    assert libmsda.explain(libmsda.forward_fused, *given, attention=True).startswith("1  simd")
    with pytest.raises(libmsda.InvalidArgumentError, match="attention is 'yes': must be True or False"):
        libmsda.forward_fused(*given, attention="yes")
    with pytest.raises(TypeError, match="attention"):
        libmsda.forward(**small, attention=True)


def test_wanted_is_one_name_or_several(small):
    grad = libmsda.forward(**small)
    one = libmsda.backward(**small, grad_output=grad, wanted="value")
    every = libmsda.backward(**small, grad_output=grad)
    assert one.coord is None and one.weight is None and np.array_equal(one.value, every.value)
    with pytest.raises(libmsda.InvalidArgumentError, match="wanted"):
        libmsda.backward(**small, grad_output=grad, wanted=3)


def test_options_are_keywords(small):
    options = libmsda.Options(kernel="ref.cpu@1", threads=1)
    expected = libmsda.forward(**small, kernel="ref.cpu@1", threads=1)
    assert np.array_equal(libmsda.forward(**small, options=options), expected)
    simd = libmsda.forward(**small, options=options, kernel="simd.cpu.f32@2")
    assert np.array_equal(simd, libmsda.forward(**small, kernel="simd.cpu.f32@2"))
    with pytest.raises(libmsda.InvalidArgumentError, match="options is 3"):
        libmsda.forward(**small, options=3)
    with pytest.raises(libmsda.InvalidArgumentError, match="kernel is 3"):
        libmsda.forward(**small, kernel=3)
    with pytest.raises(libmsda.InvalidArgumentError, match="handle is 3"):
        libmsda.forward(**small, handle=3)


def test_new_arrays_are_at_multiples_of_64_bytes(small):
    for _ in range(20):
        output = libmsda.forward(**small)
        gradients = libmsda.backward(**small, grad_output=output)
        assert all(array.ctypes.data % 64 == 0 for array in (output, *gradients))


def test_explain_of_a_call(small):
    text = libmsda.explain(libmsda.forward, **small)
    kernel = libmsda.explain(libmsda.forward, *small.values()).split()[1]
    assert text.startswith(f"1  {kernel}") and "rejected: " in text
    forced = libmsda.explain(libmsda.backward, **small, grad_output=libmsda.forward(**small))
    assert len(forced.splitlines()) == len(libmsda.kernels())
    asked = libmsda.explain(libmsda.forward, **small, kernel="ref.cpu@1")
    assert asked == f"ref.cpu@1 is asked for; without that:\n{text}"
    with pytest.raises(libmsda.UnsupportedError, match="value_dtype"):
        libmsda.explain(libmsda.forward, **small, kernel="simd.cpu.f16@2")
    reference = np.full((2, 7, 1, 2), 0.4, np.float32)
    fused = [small["value"], small["level_hw"], reference, small["coord"], small["weight"]]
    assert libmsda.explain(libmsda.forward_fused, *fused).startswith("1  simd")
    grad_output = libmsda.forward(**small)
    assert libmsda.explain(libmsda.backward_fused, *fused, grad_output).startswith("1  simd")
    arrays = {name: Declared(small[name]) for name in ("value", "coord", "weight")}
    assert libmsda.explain(libmsda.forward, **small | arrays) == text
    for call, words in [
        (dict(wanted="output"), "wanted has 'output'"),
        (dict(value_scale=np.ones(3, np.float32)), "value_scale is given: must be None"),
        (dict(coord=small["coord"][:1]), "coord has shape"),
    ]:
        with pytest.raises(libmsda.InvalidArgumentError, match=words):
            libmsda.explain(libmsda.backward, **small | dict(grad_output=grad_output) | call)
    with pytest.raises(libmsda.InvalidArgumentError, match="missing a required argument"):
        libmsda.explain(libmsda.forward, small["value"])
    with pytest.raises(libmsda.InvalidArgumentError, match="what is"):
        libmsda.explain(print)


def test_the_cache_is_bounded_and_keeps_what_is_used():
    cache = Cache(8)
    cache.add("used", 1)
    for i in range(100):
        cache.add(i, i)
        assert cache.get("used") == 1 and len(cache) <= 8
    assert cache.get(0) is None and cache.add(99, "other") == 99


def test_a_call_after_another_layout_is_checked_anew(small):
    """The cache tells apart arrays that differ in alignment alone."""
    expected = libmsda.forward(**small)
    memory = np.zeros(small["coord"].nbytes + 1, np.uint8)
    view = memory[1:].view(np.float32).reshape(small["coord"].shape)
    view[...] = small["coord"]
    assert np.array_equal(libmsda.forward(**small | {"coord": view}), expected)


def test_handles_and_plans_are_not_pickled(small):
    handle = libmsda.Handle(threads=2)
    problem = libmsda.Problem(
        level_hw=[(4, 6)], points=2, batch=1, query_count=7, head_count=3, head_dim=8
    )
    for thing, words in [(handle, "same arguments"), (handle.plan(problem), "serialize")]:
        with pytest.raises(TypeError, match=words):
            pickle.dumps(thing)
    assert pickle.loads(pickle.dumps(problem)) == problem
    assert repr(handle) == "<libmsda.Handle of the CPU, 2 threads>"


class Declared:
    """An array that only DLPack describes."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_arrays_through_dlpack(small):
    expected = libmsda.forward(**small)
    out = np.full_like(expected, np.nan)
    arrays = {name: Declared(small[name]) for name in ("value", "coord", "weight")}
    libmsda.forward(**arrays, level_hw=small["level_hw"], out=Declared(out), kernel="simd.cpu.f32@2")
    assert np.array_equal(out, expected)
    with pytest.raises(libmsda.InvalidArgumentError, match="a new array of shape"):
        libmsda.forward(**arrays, level_hw=small["level_hw"])
    with pytest.raises(libmsda.InvalidArgumentError, match="coord is test_calls.Declared: must be"):
        libmsda.forward(**small | {"coord": arrays["coord"]})


class OfCuda:
    """An array with `__cuda_array_interface__` alone; no device has its memory."""

    def __init__(self, array, **changes):
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "version": 3,
        } | changes


def test_interfaces_of_cuda_are_read():
    array = np.zeros((2, 3, 4), np.float32)
    for dtype, name in [("<f8", "float64"), ("<f2", "float16"), ("|u1", "uint8"), (">f4", ">f4")]:
        interface = OfCuda(np.zeros((2, 3, 4), dtype), data=(0, False)).__cuda_array_interface__
        assert cuda_interface("value", interface) == View(0, (2, 3, 4), (12, 4, 1), name, 0)
    interface = OfCuda(array, strides=(96, 32, 8), data=(None, False)).__cuda_array_interface__
    assert cuda_interface("value", interface) == View(0, (2, 3, 4), (24, 8, 2), "float32", 0)
    uneven = interface | {"strides": (96, 32, 7)}
    assert cuda_interface("value", uneven).strides is None
    with pytest.raises(libmsda.InvalidArgumentError, match="value is masked"):
        cuda_interface("value", interface | {"mask": object()})


def test_interfaces_without_their_device_are_refused(small):
    """There is no driver here, or it does not know the address."""
    given = small | {name: OfCuda(small[name]) for name in ("value", "coord", "weight")}
    out = OfCuda(np.zeros((2, 7, 3, 8), np.float32))
    with pytest.raises(libmsda.InvalidArgumentError, match="value has .*__cuda_array_interface__.* driver"):
        libmsda.forward(**given, out=out)
    read_only = OfCuda(np.zeros((2, 7, 3, 8), np.float32), data=(0, True))
    with pytest.raises(libmsda.InvalidArgumentError, match="out is read-only"):
        libmsda.forward(**{n: OfCuda(small[n], data=(0, False)) if n != "level_hw" else small[n] for n in small}, out=read_only)
    with pytest.raises(libmsda.InvalidArgumentError, match="coord is test_calls.OfCuda: must be a numpy"):
        libmsda.forward(**small | {"coord": given["coord"]})


def test_what_is_installed():
    result = subprocess.run(
        [sys.executable, "-m", "libmsda"], capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert result.returncode == 0, result.stderr
    assert libmsda.build_info() in result.stdout and "ref.cpu@1" in result.stdout
