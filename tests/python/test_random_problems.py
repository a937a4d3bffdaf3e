"""Random problems against the oracle: every type, mode and kernel, forward and backward, with
strides, borders, empty sizes, and coordinates and weights that are huge or not numbers.

MSDA_TEST_PROBLEMS sets how many; a failure names its seed.
"""

import os

import numpy as np
import pytest

from numeric_cases import (
    F8,
    VALUE_DTYPES,
    WIDE_DTYPES,
    NumericCase,
    check_backward,
    check_forward,
    kernels_of,
)

COUNT = int(os.environ.get("MSDA_TEST_PROBLEMS", 200))
ODD_COORDS = [np.nan, np.inf, -np.inf, 1e38, -1e38, 1e-40, -1e-40, 65504.0, 0.0, 1.0, -0.5]


def pick(rng, choices):
    return choices[rng.integers(len(choices))]


def draw_sizes(rng):
    levels = int(rng.integers(1, 5))
    sizes = {
        "level_hw": rng.integers(1, 12, (levels, 2)).tolist(),
        "points": rng.integers(0, 7, levels).tolist(),
        "B": int(rng.integers(1, 4)),
        "Q": int(rng.integers(1, 12)),
        "M": int(rng.integers(1, 5)),
        "D": int(rng.integers(1, 72)),
    }
    if rng.random() < 0.1:  # an empty size
        sizes[pick(rng, "BQMD")] = 0
    if rng.random() < 0.05:
        sizes["level_hw"][0][rng.integers(2)] = 0
    return sizes


def strided(rng, array):
    """The same numbers in an array whose outer axes have spare room between their rows, or come in
    another order, or are repeated."""
    kind = rng.integers(5)
    if kind == 0:
        room = [n + int(rng.integers(3)) for n in array.shape[:3]]
        larger = np.full((*room, *array.shape[3:]), 7, array.dtype)
        view = larger[tuple(slice(n) for n in array.shape[:3])]
    elif kind == 1:  # [B][M][S] in memory
        view = np.empty(np.array(array.shape)[[0, 2, 1, *range(3, array.ndim)]], array.dtype)
        view = view.swapaxes(1, 2)
    elif kind == 2 and array.size:
        return np.broadcast_to(array[:1], array.shape)
    else:
        return array
    view[...] = array
    return view


def sampling(rng, shape, dtype, odd):
    coord = rng.uniform(-0.4, 1.4, (*shape, 2))
    if odd:
        where = rng.random(coord.shape) < 0.2
        coord[where] = rng.choice(ODD_COORDS, where.sum())
    weight = rng.standard_normal(shape)
    if odd:
        weight[rng.random(shape) < 0.03] = np.nan
    with np.errstate(over="ignore"):
        return coord.astype(dtype[0]), weight.astype(dtype[1])


def draw(seed):
    rng = np.random.default_rng([20260, seed])
    sizes = draw_sizes(rng)
    level_hw, points = sizes["level_hw"], sizes["points"]
    B, Q, M, D = (sizes[letter] for letter in "BQMD")
    border = int(rng.random() < 0.3)
    S = sum((h + 2 * border) * (w + 2 * border) for h, w in level_hw)
    K, L = sum(points), len(points)
    dtype = pick(rng, VALUE_DTYPES)
    point_dtypes = (
        [np.dtype(np.float64)] * 2
        if dtype == np.float64
        else [
            pick(rng, WIDE_DTYPES[1:]) if rng.random() < 0.4 else np.dtype(np.float32) for _ in "xw"
        ]
    )
    odd = rng.random() < 0.3

    value = rng.standard_normal((B, S, M, D))
    if border:
        clear_borders(value, level_hw)
    if odd:
        value[rng.random(value.shape) < 0.002] = np.nan
        if border:
            clear_borders(value, level_hw)
    coord, weight = sampling(rng, (B, Q, M, K), point_dtypes, odd)
    inputs = (coord, weight)
    if rng.random() < 0.4:
        dim = int(pick(rng, [2, 4]))
        own_type = dtype != np.float64 and rng.random() < 0.5
        reference = rng.uniform(0.05, 0.95, (B, Q, L, dim))
        reference = reference.astype(pick(rng, WIDE_DTYPES) if own_type else coord.dtype)
        offset = (3 * rng.standard_normal((B, Q, M, K, 2))).astype(coord.dtype)
        if odd:
            offset[rng.random(offset.shape) < 0.1] = pick(rng, [np.nan, np.inf, -np.inf])
        inputs = (reference, strided(rng, offset), strided(rng, (2 * weight).astype(weight.dtype)))
    else:
        inputs = (strided(rng, coord), strided(rng, weight))

    options = {"value_border": border}
    if dtype == F8:
        options["value_scale"] = rng.uniform(0.5, 4, M).astype(np.float32)
    output = np.dtype(np.float32) if dtype == F8 else dtype
    grad_output = rng.standard_normal((B, Q, M, D)).astype(output)
    return NumericCase(
        level_hw,
        points,
        strided(rng, value.astype(dtype)),
        inputs,
        strided(rng, grad_output),
        options,
    )


def clear_borders(value, level_hw):
    start = 0
    for height, width in level_hw:
        level = value[:, start : start + (height + 2) * (width + 2)]
        level = level.reshape(value.shape[0], height + 2, width + 2, *value.shape[2:])
        level[:, [0, -1]] = 0
        level[:, :, [0, -1]] = 0
        start += (height + 2) * (width + 2)


@pytest.mark.parametrize("seed", range(COUNT))
def test_against_the_oracle(seed):
    case = draw(seed)
    for kernel in kernels_of(case):
        check_forward(case, kernel)
    check_backward(case, "ref.cpu@1")


def test_what_was_drawn():
    """The draw covers what it is meant to: else the test above would say less than it seems to."""
    cases = [draw(seed) for seed in range(min(COUNT, 200))]
    assert {case.value.dtype for case in cases} == set(VALUE_DTYPES)
    assert {case.mode for case in cases} == {"sampled", "fused"}
    assert {case.inputs[0].shape[-1] for case in cases if case.mode == "fused"} == {2, 4}
    assert any(case.grad_output.size == 0 for case in cases)
    assert any(np.isnan(case.exact_forward()).any() for case in cases)
    assert any(0 in case.points for case in cases)
    assert any(not case.value.flags.c_contiguous for case in cases)
    assert any(0 in case.inputs[0].strides for case in cases)
    assert {case.options["value_border"] for case in cases} == {0, 1}
