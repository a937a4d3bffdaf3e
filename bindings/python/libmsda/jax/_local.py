"""The custom call of one device, the primitive `msda_local`, and what a call is."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from .._core.handle import CPU, default_handle
from .._core.library import lib
from .._core.plan import Plan, cached_plan
from .._core.problem import MATH_MODES, POINT_LOCALITIES, SAMPLING_MODES, Problem
from . import _library

ALIGNMENT = 64  # at least, of XLA's buffers


class Call(NamedTuple):
    """What a call computes, beside its arrays."""

    problem: Problem
    kernel: str | None
    threads: int
    deterministic: bool  # the gradients
    wanted: tuple[bool, ...] = ()  # of each input its gradient, where the problem is a backward one

    def backward(self, wanted: Sequence[bool]) -> "Call":
        problem = dataclasses.replace(
            self.problem, operation="backward", deterministic=self.deterministic
        )
        return self._replace(problem=problem, wanted=tuple(wanted))

    def sized(self, **sizes: Any) -> "Call":
        """The same on arrays of other sizes."""
        return self._replace(problem=dataclasses.replace(self.problem, **sizes))

    @property
    def results(self) -> tuple[str, ...]:
        """The names of what is computed."""
        names = self.problem.outputs
        if self.problem.operation == "forward":
            return names
        return tuple(name for name, wanted in zip(names, self.wanted) if wanted)

    @property
    def target(self) -> str:
        suffix = "_fused" if self.problem.input_mode == "fused" else ""
        return self.problem.operation + suffix


def _results(*operands: Any, call: Call, **_: Any) -> list[Any]:
    """Each result is like the operand whose axes it has, in its sharding and the axes it varies along."""
    inputs = dict(zip(call.problem.inputs, operands))
    weight = inputs["logit" if "logit" in inputs else "weight"]
    found = []
    for name in call.results:
        like = inputs.get(name.removeprefix("grad_"), weight)
        dtype = jnp.dtype(call.problem.dtype(name))
        found.append(like.update(shape=call.problem.shape(name), dtype=dtype, weak_type=False))
    return found


def primitive(name: str) -> Primitive:
    made = Primitive(name)
    made.multiple_results = True
    made.def_abstract_eval(_results)
    return made


_local = primitive("msda_local")


def local(call: Call, *operands: jax.Array) -> tuple[jax.Array, ...]:
    """The call's results on one device."""
    return tuple(_local.bind(*operands, call=call))


def _custom_call(platform: str, *operands: jax.Array, call: Call) -> list[jax.Array]:
    problem = call.problem
    like = lambda name: jax.ShapeDtypeStruct(problem.shape(name), jnp.dtype(problem.dtype(name)))
    workspace = jax.ShapeDtypeStruct((_workspace_bytes(platform, call),), jnp.uint8)
    target = _library.target_name(platform, call.target)
    results = [*map(like, call.results), workspace]
    return _library.ffi_call(target, results)(*operands, **_attributes(call))[:-1]


def _workspace_bytes(platform: str, call: Call) -> int:
    """What the plan asks for on this machine's device, with room to align it."""
    if platform == "cpu":
        handle = default_handle(call.threads, CPU)
    else:
        handle = default_handle(0, jax.local_devices(backend=platform)[0].local_hardware_id)
    info = cached_plan(Plan, call.problem, call.kernel, handle).info
    return info.workspace_bytes + max(info.workspace_alignment - ALIGNMENT, 0)


def _attributes(call: Call) -> dict[str, Any]:
    """As plugins/jax/handlers.cpp reads them."""
    problem = call.problem
    flat = lambda given: np.array(given or (), np.int32).reshape(-1)
    numbers = {
        "value_border": problem.value_border,
        "math_mode": MATH_MODES[problem.math_mode],
        "point_locality": POINT_LOCALITIES[problem.point_locality],
        "sampling_mode": SAMPLING_MODES[problem.sampling_mode],
        "determinism": lib.MSDA_DETERMINISTIC if problem.deterministic else lib.MSDA_NONDETERMINISTIC,
        "threads": call.threads,
    }
    if problem.operation == "backward":
        numbers["wanted"] = sum(1 << bit for bit, wanted in enumerate(call.wanted) if wanted)
    return {
        "level_hw": flat(problem.level_hw),
        "point_counts": flat(problem.points),
        "query_hw": flat(problem.query_hw),
        "level_start": np.array(problem.level_start or (), np.int64),
        "kernel_id": call.kernel or "",
        **{name: np.int32(number) for name, number in numbers.items()},
    }


for _platform in _library.PLATFORMS:
    _rule = mlir.lower_fun(functools.partial(_custom_call, _platform), multiple_results=True)
    mlir.register_lowering(_local, _rule, platform=_platform)
