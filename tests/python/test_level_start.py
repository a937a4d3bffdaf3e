"""Levels that start at any token, through Problem and Plan."""

import numpy as np
import pytest

import libmsda

SIZES = {"level_hw": [(6, 4), (3, 2)], "points": 2, "batch": 2, "query_count": 5, "head_count": 3, "head_dim": 8}


def test_the_forms_of_one_problem_are_equal():
    problem = libmsda.Problem(**SIZES)
    assert problem.level_start is None and problem.token_count == 30
    assert libmsda.Problem(**SIZES, level_start=[0, 24], token_count=30) == problem
    moved = libmsda.Problem(**SIZES, level_start=np.array([12, 3]))
    assert moved.level_start == (12, 3) and moved.token_count == 36 and moved != problem
    assert libmsda.Problem(**SIZES, level_start=[12, 3], token_count=40).shape("grad_value") == (2, 40, 3, 8)


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"level_start": [0]}, "level_start has 1 entries: must have one for each of the 2 levels"),
        ({"level_start": [0, -1]}, r"level_start\[1\] is -1: must be 0 to"),
        ({"level_start": [0, 1.5]}, r"level_start\[1\] is 1.5: must be an integer"),
        ({"token_count": -1}, "token_count is -1: must be 0 to"),
        ({"token_count": 29}, "token_count is 29: must be 0 or at least 30"),
    ],
)
def test_wrong_starts_are_refused(fields, words):
    with pytest.raises(libmsda.InvalidArgumentError, match=words):
        libmsda.Plan(libmsda.Problem(**SIZES, **fields))


@pytest.mark.parametrize("operation", ["forward", "backward"])
def test_results_are_those_of_levels_one_after_another(operation):
    rng = np.random.default_rng(0)
    problem = libmsda.Problem(**SIZES, operation=operation)
    moved = libmsda.Problem(**SIZES, operation=operation, level_start=[12, 3], token_count=40)
    tensors = {name: rng.random(problem.shape(name), np.float32) for name in problem.inputs}
    value = np.full(moved.shape("value"), np.nan, np.float32)
    value[:, 12:36], value[:, 3:9] = tensors["value"][:, :24], tensors["value"][:, 24:]
    expected = libmsda.Plan(problem).execute(**tensors)
    actual = libmsda.Plan(moved).execute(**{**tensors, "value": value})
    if operation == "backward":
        gradient, of_value = np.zeros_like(value), expected.pop("grad_value")
        gradient[:, 12:36], gradient[:, 3:9] = of_value[:, :24], of_value[:, 24:]
        assert np.array_equal(actual.pop("grad_value"), gradient)
    for name, array in expected.items():
        assert np.array_equal(actual[name], array), name
