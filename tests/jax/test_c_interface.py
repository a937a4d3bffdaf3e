"""Random problems through libmsda.jax and through the C interface itself, on the same device: the same bits."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import libmsda.jax as ours
from libmsda import Problem
from problems import DEVICES, FUSED, SAMPLED, assert_same_bits, by_c, everything, put

VALUES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn")
WIDE = VALUES[:4]
SETTINGS = ("value_border", "math_mode", "point_locality", "sampling_mode")


class Case:
    """A problem, its inputs with grad_output, and value_scale."""

    def __init__(self, seed, device):
        rng = np.random.default_rng([51, seed])
        pick = lambda choices: choices[rng.integers(len(choices))]
        levels = tuple(tuple(map(int, pair)) for pair in rng.integers(1, 9, (rng.integers(1, 4), 2)))
        points = tuple(int(p) for p in rng.integers(0, 5, len(levels)))
        batch, queries, heads = map(int, rng.integers(1, 6, 3))
        if seed % 20 == 0:
            batch, queries = pick([(0, queries), (batch, 0)])
        self.fused, boxes = bool(rng.integers(2)), int(pick([2, 4]))
        border = bool(seed % 5 == 1)
        tokens = [(h + 2 * border) * (w + 2 * border) for h, w in levels]
        start = None
        if seed % 5 == 2:  # in the reverse order, with a gap
            start = tuple(sum(tokens[i + 1 :]) + 3 for i in range(len(tokens)))
        self.problem = Problem(
            level_hw=levels,
            points=points,
            batch=batch,
            query_count=queries,
            head_count=heads,
            head_dim=int(pick([1, 3, 8, 16, 32, 64])),
            value_dtype=pick(VALUES),
            coord_dtype=pick(WIDE),
            weight_dtype=pick(WIDE),
            output_dtype=pick(WIDE),
            input_mode="fused" if self.fused else "sampled",
            reference_dim=boxes if self.fused else 0,
            value_border=border,
            math_mode=pick(["accurate", "fast"]),
            point_locality=pick(["unknown", "scattered"]),
            sampling_mode="nearest" if seed % 4 == 3 else "bilinear",
            query_hw=((queries, 1),) if seed % 3 else None,
            level_start=start,
            token_count=sum(tokens) + 3 if start else 0,
        )
        ranges = {"value": (-1, 1), "coord": (-0.2, 1.2), "weight": (-1, 1), "reference": (0, 1)}
        ranges |= {"offset": (-4, 4), "logit": (-3, 3), "grad_output": (-1, 1)}

        def draw(name):
            """Uniform, a twentieth of it no numbers in one case of 3."""
            array = rng.uniform(*ranges[name], self.problem.shape(name))
            if seed % 3 == 0:
                where = rng.random(array.shape) < 0.05
                array[where] = rng.choice([np.nan, np.inf, -np.inf, 1e30], where.sum())
            return put(array, self.problem.dtype(name), device)

        with np.errstate(over="ignore", invalid="ignore"):
            self.inputs = {name: draw(name) for name in (FUSED if self.fused else SAMPLED)}
            self.grad_output = draw("grad_output")
        self.device, self.value_scale = device, None
        if self.problem.value_dtype == "float8_e4m3fn":
            self.value_scale = put(rng.random(heads) + 0.5, "float32", device)

    def by_c(self):
        """The output and the gradients."""
        backward = {name: getattr(self.problem, name) for name in Problem.__dataclass_fields__}
        backward = Problem(**backward | {"operation": "backward"})
        given = self.inputs | {"grad_output": self.grad_output}
        forward = by_c(self.problem, self.inputs, self.device, value_scale=self.value_scale)
        gradients = by_c(backward, given, self.device, value_scale=self.value_scale)
        return [*forward.values(), *gradients.values()]

    def by_jax(self):
        function = ours.forward_fused if self.fused else ours.forward
        settings = {name: getattr(self.problem, name) for name in SETTINGS}

        def of_inputs(value, *rest):
            return function(
                value,
                self.problem.level_hw,
                *rest,
                points=self.problem.points,
                level_start_index=self.problem.level_start,
                query_hw=self.problem.query_hw,
                out_dtype=self.problem.output_dtype,
                value_scale=self.value_scale,
                **settings,
            )

        compute = jax.jit(lambda *given: everything(given[:-1], given[-1], of_inputs))
        return compute(*self.inputs.values(), self.grad_output)


@pytest.mark.parametrize("device", DEVICES)
def test_random_problems_have_the_bits_of_the_c_interface(device):
    compared, drawn = 0, set()
    for seed in range(40):
        case = Case(seed, device)
        wanted, found = case.by_c(), case.by_jax()
        assert len(found) == len(wanted) == len(case.inputs) + 1
        for one, other in zip(found, wanted):
            if one.dtype.itemsize == 1:  # JAX's gradient of float8 is float8
                with np.errstate(over="ignore", invalid="ignore"):
                    other = np.asarray(jnp.asarray(other).astype(one.dtype))
            assert one.devices() == {jax.local_devices(backend=device)[0]}
            assert_same_bits(one, other, f"seed {seed}")
            compared += math.prod(one.shape)
        drawn |= {(case.problem.value_dtype, case.fused)}
        drawn |= {"not numbers"} & {"not numbers" if np.isnan(t.astype("f4")).any() else "" for t in wanted}
    assert compared > 10**5 and len(drawn) == 11
