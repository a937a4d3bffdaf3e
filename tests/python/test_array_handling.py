"""Which arrays the functions take, and that where numbers lie in memory never changes a result."""

import ml_dtypes
import numpy as np
import pytest

import libmsda


def same_bits(left, right):
    return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


def spread(array):
    """The numbers of an array, every second element of memory unused."""
    return np.repeat(array, 2, axis=-1)[..., ::2]


def backwards(array):
    """The numbers of an array, its first axis with a negative stride."""
    return array[::-1].copy()[::-1]


def unaligned(array):
    memory = np.zeros(array.nbytes + 1, np.uint8)
    view = memory[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    assert not view.flags.aligned
    return view


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


LAYOUTS = {
    "transposed": lambda a: np.asfortranarray(a),
    "spread": spread,
    "backwards": backwards,
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "unaligned": unaligned,
    "read-only": read_only,
    "a list": lambda a: a.astype(np.float64).tolist(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["value", "coord", "weight"])
def test_inputs_of_any_layout(small, layout, name):
    small = {n: a.astype(np.float64) if n != "level_hw" else a for n, a in small.items()}
    expected = libmsda.forward(**small)
    before = small[name].copy()
    small[name] = LAYOUTS[layout](small[name])
    assert same_bits(libmsda.forward(**small), expected)
    assert np.array_equal(np.asarray(small[name]), before)


@pytest.mark.parametrize("name", ["value", "coord", "weight"])
def test_strides_are_not_copied(small, monkeypatch, name):
    """An array with spare room between its rows is handed over as it is."""
    array = small[name]
    room = np.full((array.shape[0] + 1, array.shape[1], 5, *array.shape[3:]), np.nan, np.float32)
    view = room[:-1, :, :3]
    view[...] = array
    expected = libmsda.forward(**small)
    monkeypatch.setattr(np, "ascontiguousarray", lambda *_: pytest.fail("copied"))
    assert same_bits(libmsda.forward(**small | {name: view}), expected)


def test_levels_and_points_in_two_axes(small):
    expected = libmsda.forward(**small)
    split = {
        "coord": small["coord"].reshape(2, 7, 3, 2, 2, 2),
        "weight": small["weight"].reshape(2, 7, 3, 2, 2),
    }
    assert same_bits(libmsda.forward(**small | split), expected)
    flat = libmsda.backward(**small, grad_output=expected)
    both = libmsda.backward(**small | split, grad_output=expected)
    assert both.coord.shape == split["coord"].shape and both.weight.shape == split["weight"].shape
    assert both.coord.tobytes() == flat.coord.tobytes()
    assert both.weight.tobytes() == flat.weight.tobytes()


def test_out(small):
    expected = libmsda.forward(**small)
    out = np.full((2, 7, 3, 8), np.nan, np.float32)
    assert libmsda.forward(**small, out=out) is out and same_bits(out, expected)
    room = np.full((2, 9, 3, 11), np.nan, np.float32)
    assert same_bits(libmsda.forward(**small, out=room[:, :7, :, :8]), expected)
    assert np.isnan(room[:, 7:]).all() and np.isnan(room[..., 8:]).all()


def test_out_dtype(small):
    for dtype in (np.float64, "float32", np.float16, "bfloat16", ml_dtypes.bfloat16):
        output = libmsda.forward(**small, out_dtype=dtype)
        assert output.dtype == (ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        assert np.allclose(output.astype(np.float64), libmsda.forward(**small), atol=0.02)
    small["value"] = small["value"].astype(ml_dtypes.float8_e4m3fn)
    assert libmsda.forward(**small).dtype == np.float32


def test_point_counts(small):
    expected = libmsda.forward(**small)
    assert same_bits(libmsda.forward(**small, points=2), expected)
    assert same_bits(libmsda.forward(**small, points=np.array([2, 2])), expected)
    assert not np.array_equal(libmsda.forward(**small, points=[1, 3]), expected)


def test_gradients_wanted(small):
    grad_output = libmsda.forward(**small)
    every = libmsda.backward(**small, grad_output=grad_output)
    some = libmsda.backward(**small, grad_output=grad_output, wanted=("weight",))
    assert some.value is None and some.coord is None and same_bits(some.weight, every.weight)
    assert libmsda.backward(**small, grad_output=grad_output, wanted=()) == (None, None, None)
    half = libmsda.backward(**small, grad_output=grad_output, grad_value_dtype="float16")
    assert half.value.dtype == np.float16


def test_hints_change_nothing(small):
    small["coord"], small["weight"] = small["coord"][:, :6], small["weight"][:, :6]
    expected = libmsda.forward(**small)
    assert same_bits(libmsda.forward(**small, query_hw=[(2, 3)]), expected)
    assert same_bits(libmsda.forward(**small, query_hw=[(1, 2), (2, 2)]), expected)
    # "fast" is about 16-bit values: others are never less exact by it.
    assert same_bits(libmsda.forward(**small, math_mode="fast"), expected)


def test_empty():
    level_hw = np.zeros((0, 2), int)
    output = libmsda.forward(
        np.zeros((1, 0, 2, 3)), level_hw, np.zeros((1, 4, 2, 0, 2)), np.zeros((1, 4, 2, 0))
    )
    assert output.shape == (1, 4, 2, 3) and not output.any()
    gradients = libmsda.backward(
        np.ones((1, 6, 2, 3)),
        [(2, 3)],
        np.zeros((1, 0, 2, 1, 2)),
        np.zeros((1, 0, 2, 1)),
        np.zeros((1, 0, 2, 3)),
    )
    assert gradients.value.shape == (1, 6, 2, 3) and not gradients.value.any()
