"""The check of bench/peers sees a wrong output: against the oracle, whose bound it must have."""

import math
import sys

import numpy as np
import pytest

import oracle
from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench" / "peers"))

import peer_check

LEVELS, POINTS = [(6, 9), (3, 5), (1, 4)], 4
ROUNDED = {"f32": np.float32, "f16": np.float16}


class Problem:
    """Inputs as the peers get them, the exact output and what the check needs."""

    def __init__(self, value_type=np.float16):
        rng = np.random.default_rng(3)
        tokens = sum(h * w for h, w in LEVELS)
        self.value = rng.standard_normal((2, tokens, 3, 8)).astype(value_type)
        shape = (2, 11, 3, len(LEVELS) * POINTS)
        self.coord = rng.uniform(0.05, 0.95, (*shape, 2)).astype(np.float32)
        self.weight = rng.dirichlet(np.ones(shape[3]), shape[:3]).astype(np.float32)
        counts = [POINTS] * len(LEVELS)
        arguments = (LEVELS, counts, self.coord, self.weight)
        self.exact = oracle.forward(self.value, *arguments)
        self.products = oracle.forward(abs(self.value.astype(np.float64)), *arguments)
        self.bound = oracle.float32_bound(self.value, *arguments)
        self.steps, self.slopes = self.sum_steps()

    def sum_steps(self):
        steps, slopes, start = 0, 0, 0
        weights = np.split(self.weight.astype(np.float64), len(LEVELS), axis=3)
        for (height, width), weight in zip(LEVELS, weights):
            tokens = self.value[:, start : start + height * width].astype(np.float64)
            image = tokens.transpose(0, 2, 3, 1).reshape(2, 3, 8, height, width)
            part = weight.sum(3)[..., None] * peer_check.largest_steps(image)[:, None]
            steps, slopes = steps + part, slopes + part * max(height, width)
            start += height * width
        return steps, slopes

    def allowed(self, dtype, **options):
        return peer_check.allowed_errors(
            self.exact, self.products, self.slopes, self.steps, len(LEVELS) * POINTS, dtype, **options
        )

    def share(self, output, dtype, **options):
        return peer_check.error_share(output.astype(np.float64), self.exact, self.allowed(dtype, **options))


@pytest.mark.parametrize("dtype", ROUNDED)
def test_it_is_the_bound_of_the_library(dtype):
    """The oracle's, and on top the rounding of the output: no less, and about a unit in the last place at most."""
    problem = Problem()
    rounding = problem.allowed(dtype) - problem.bound
    unit = np.abs(np.spacing(problem.exact.astype(ROUNDED[dtype]))).astype(np.float64)
    assert (rounding >= 0.49 * unit).all()
    assert (rounding <= 1.01 * unit + peer_check.SMALLEST[dtype]).all()
    assert (problem.allowed(dtype, fast=True) > problem.allowed(dtype)).all()


@pytest.mark.parametrize("dtype", ROUNDED)
def test_right_outputs_pass(dtype):
    problem = Problem()
    share = problem.share(problem.exact.astype(ROUNDED[dtype]), dtype)
    assert share <= 1 and peer_check.complaint("a side", share) is None


def spoilt(change):
    problem = Problem()
    output = problem.exact.astype(np.float16)
    change(output)
    return problem.share(output, "f16")


WRONG = {
    "one element by three units": lambda o: o.__setitem__((1, 5, 2, 3), o[1, 5, 2, 3] * np.float16(1.003)),
    "by what was allowed before": lambda o: o.__setitem__((0, 0, 0, 0), o[0, 0, 0, 0] + np.float16(0.019)),
    "the last query": lambda o: o.__setitem__((1, 10), 0),
    "one element not written": lambda o: o.__setitem__((0, 0, 0, 0), np.nan),
    "an infinity": lambda o: o.__setitem__((0, 3, 1, 7), np.inf),
    "two channels swapped": lambda o: o.__setitem__((0, 2, 1), o[0, 2, 1, ::-1]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_outputs_do_not(name):
    share = spoilt(WRONG[name])
    assert share > 1
    assert peer_check.complaint("msda fast", share).startswith("msda fast: the largest error is ")


def test_a_nan_is_infinitely_wrong():
    problem = Problem()
    output = problem.exact.copy()
    output[0, 0, 0, 0] = np.nan
    assert problem.share(output, "f32") == math.inf
    assert peer_check.complaint("a side", math.inf) is not None
    assert peer_check.complaint("a side", math.nan) is not None


def test_peers_have_a_tolerance():
    problem = Problem()
    output = problem.exact + 0.5 * peer_check.PEER_TOLERANCE["f16"]
    assert peer_check.error_share(output, problem.exact, peer_check.PEER_TOLERANCE["f16"]) == pytest.approx(0.5)
    output[1, 1, 1, 1] = np.nan
    assert peer_check.error_share(output, problem.exact, peer_check.PEER_TOLERANCE["f16"]) == math.inf


def some_gradients():
    rng = np.random.default_rng(4)
    return [rng.standard_normal(shape) for shape in ((2, 30, 3, 8), (2, 11, 3, 12, 2), (2, 11, 3, 12))]


def test_gradients_that_are_right():
    exact = some_gradients()
    found = [gradient + 0.5e-4 * abs(gradient).max() for gradient in exact]
    assert 0.4 < peer_check.gradient_share(found, exact, 1e-4) <= 1


@pytest.mark.parametrize("which", range(3))
def test_a_wrong_gradient_is_seen(which):
    exact, found = some_gradients(), some_gradients()
    found[which].flat[:20] += 1e-3 * abs(exact[which]).max()
    assert peer_check.gradient_share(found, exact, 1e-4) > 1
    found[which].flat[:20] = math.nan
    assert peer_check.gradient_share(found, exact, 1e-4) > 1


def test_a_few_points_may_be_on_the_other_side_of_a_line():
    exact, found = some_gradients(), some_gradients()
    found[1].flat[:3] += 1
    assert peer_check.gradient_share(found, exact, 1e-4) <= 1
