"""The oracle and the generator of the golden vectors, so that they cannot be wrong together."""

import math

import numpy as np
import pytest

import generate
import oracle


def direct(value, level_hw, points, coord, weight, b, q, m, d):
    """One output element, written out number by number."""
    total, start, k = 0.0, 0, 0
    for (height, width), count in zip(level_hw, points):
        for _ in range(count):
            x, y = coord[b, q, m, k]
            px, py = x * width - 0.5, y * height - 0.5
            for row in (math.floor(py), math.floor(py) + 1):
                for column in (math.floor(px), math.floor(px) + 1):
                    if 0 <= row < height and 0 <= column < width:
                        share = (1 - abs(px - column)) * (1 - abs(py - row))
                        token = start + row * width + column
                        total += weight[b, q, m, k] * share * value[b, token, m, d]
            k += 1
        start += height * width
    return total


def draw(seed, level_hw=((3, 5), (2, 1)), points=(2, 3), shape=(2, 4, 3), channels=2):
    rng = np.random.default_rng(seed)
    batch, _, heads = shape
    tokens, total = sum(h * w for h, w in level_hw), sum(points)
    return (
        rng.standard_normal((batch, tokens, heads, channels)),
        level_hw,
        points,
        rng.uniform(-0.3, 1.3, (*shape, total, 2)),
        rng.standard_normal((*shape, total)),
    )


def test_forward_number_by_number():
    arrays = draw(1)
    output = oracle.forward(*arrays)
    for index in np.ndindex(output.shape):
        assert output[index] == pytest.approx(direct(*arrays, *index), abs=1e-13)


@pytest.mark.parametrize("which", [0, 3, 4])
def test_backward_by_differences(which):
    """Which: value, coord, weight."""
    arrays = list(draw(2))
    rng = np.random.default_rng(3)
    grad_output = rng.standard_normal((*arrays[4].shape[:3], arrays[0].shape[3]))
    gradient = oracle.backward(*arrays, grad_output)[{0: 0, 3: 1, 4: 2}[which]]
    step = 1e-6
    for index in rng.permutation(list(np.ndindex(gradient.shape)))[:60]:
        index, sums = tuple(index), []
        for sign in (1, -1):
            moved = [a.copy() if isinstance(a, np.ndarray) else a for a in arrays]
            moved[which][index] += sign * step
            sums.append((oracle.forward(*moved) * grad_output).sum())
        assert gradient[index] == pytest.approx((sums[0] - sums[1]) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("dim", [2, 4])
def test_fused_backward_by_differences(dim):
    value, level_hw, points, offset, logit = draw(4)
    rng = np.random.default_rng(5)
    reference = rng.uniform(0.2, 0.8, (2, 4, 2, dim))
    grad_output = rng.standard_normal((2, 4, 3, 2))
    inputs = [reference, offset, logit]
    gradients = oracle.backward_fused(value, level_hw, points, *inputs, grad_output)[1:]
    step = 1e-6
    for which, gradient in enumerate(gradients):
        for index in rng.permutation(list(np.ndindex(gradient.shape)))[:40]:
            index, sums = tuple(index), []
            for sign in (1, -1):
                moved = [a.copy() for a in inputs]
                moved[which][index] += sign * step
                output = oracle.forward_fused(value, level_hw, points, *moved)
                sums.append((output * grad_output).sum())
            assert gradient[index] == pytest.approx((sums[0] - sums[1]) / (2 * step), abs=1e-6)


def test_border_is_the_same_map():
    value, level_hw, points, coord, weight = draw(6)
    parts, start = [], 0
    for height, width in level_hw:
        level = value[:, start : start + height * width].reshape(2, height, width, 3, 2)
        level = np.pad(level, ((0, 0), (1, 1), (1, 1), (0, 0), (0, 0)), constant_values=99)
        parts.append(level.reshape(2, -1, 3, 2))
        start += height * width
    bordered = np.concatenate(parts, 1)
    arguments = (level_hw, points, coord, weight)
    expected = oracle.forward(value, *arguments)
    assert np.array_equal(oracle.forward(bordered, *arguments, value_border=1), expected)
    grad_output = np.ones_like(expected)
    grad_value = oracle.backward(bordered, *arguments, grad_output, value_border=1)[0]
    assert np.count_nonzero(grad_value[bordered == 99]) == 0
    unbordered = oracle.backward(value, *arguments, grad_output)[0]
    assert grad_value.sum() == pytest.approx(unbordered.sum())


def test_what_is_not_finite():
    value, level_hw, points = np.ones((1, 4, 1, 1)), [(2, 2)], [1]
    run = lambda x, w: oracle.forward(value, level_hw, points, [[[[[x, 0.5]]]]], [[[[w]]]]).item()
    assert run(0.5, 3.0) == 3.0
    for x in (np.nan, np.inf, -np.inf):
        assert run(x, 3.0) == 0 and run(x, np.nan) == 0
    assert run(1e300, 3.0) == 0 and np.isnan(run(1e300, np.nan))
    value[0, 3] = np.nan  # a corner of bilinear weight zero still counts
    assert np.isnan(run(0.25, 1.0))


def test_a_changed_number_is_found():
    """differences() sees a flipped bit of an input and a small error of a result."""
    _, inputs, computed = next(generate.make("golden"))
    stored = {n: a.copy() for n, a in (inputs | computed).items()}
    assert list(generate.differences(inputs, computed, stored)) == []
    stored["value"].view(np.uint64)[0, 0, 0, 0] ^= np.uint64(1)
    stored["grad_weight"][0, 0, 0, 0] += 1e-10
    stored["grad_value"][0, 0, 0, 0] = np.nan
    del stored["output"]
    found = "\n".join(generate.differences(inputs, computed, stored))
    assert found.count("\n") == 3
    for line in (
        "value: not the same bits",
        "grad_weight: largest",
        "grad_value: largest",
        "output: missing",
    ):
        assert line in found
