"""Calls of the library on plain tensors of the CPU or a CUDA device, each planned once."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from .._arrays import kind_of
from .._core.cache import Cache
from .._core.errors import InvalidArgumentError
from .._core.plan import cached_plan
from .._functions import Call, describe, run_call
from .._options import Options
from .._plan import Plan

SAMPLED = ("value", "coord", "weight")
FUSED = ("value", "reference", "offset", "logit")
KIND = kind_of(torch.empty(0))

Levels = tuple[tuple[int, int], ...]


class _Planned(NamedTuple):
    """A call and the tensors that it computes: what torch.empty() takes for each."""

    call: Call
    results: dict[str, tuple[tuple[int, ...], torch.dtype, torch.device]]

    def empty(self, name: str) -> torch.Tensor:
        shape, dtype, device = self.results[name]
        return torch.empty(shape, dtype=dtype, device=device)


# The calls by the number of threads that they work with. It is small: each number has a handle, and a handle its threads.
_calls = Cache(16)
_get_num_threads = torch.get_num_threads


class Settings(NamedTuple):
    """The fields of Options that an operator takes, as values that can be hashed."""

    points: tuple[int, ...] | None = None
    level_start_index: tuple[int, ...] | None = None
    value_border: bool = False
    query_hw: Levels | None = None
    point_locality: str = "unknown"
    math_mode: str = "accurate"
    kernel: str | None = None
    threads: int | None = None

    def options(self) -> Options:
        return Options(**self._asdict())


def _call_of(
    names: tuple[str, ...],
    tensors: Sequence[torch.Tensor],
    levels: Levels,
    settings: Settings,
    choice: Any,
) -> _Planned:
    """The call of this signature; `choice` is out_dtype, or whether gradients are deterministic."""
    threads = settings.threads
    if threads is None:
        threads = _get_num_threads()
    key = [names, levels, settings, choice]
    for t in tensors:
        key += t.shape, t.stride(), t.dtype, t.device
    key = tuple(key)
    try:
        calls = _calls.get(threads)
        if calls is None:
            calls = _calls.add(threads, Cache(1024))
        planned = calls.get(key)
    except TypeError:  # a setting that cannot be hashed is none that there is
        settings.options()
        raise
    if planned is None:
        with torch.no_grad():
            arrays = {name: KIND.prepare(name, t) for name, t in zip(names, tensors)}
        if tensors[0].device.type == "cpu":
            settings = settings._replace(threads=threads)
        options, field = settings.options(), "out_dtype"
        if "grad_output" in names:
            field = "deterministic"
        call = describe(KIND, arrays, levels, options, **{field: choice})
        plan = cached_plan(Plan, call.problem, options.kernel, call.handle)
        problem, device = call.problem, tensors[0].device
        results = {
            name: (problem.shape(name), getattr(torch, problem.dtype(name)), device)
            for name in problem.outputs
        }
        planned = calls.add(key, _Planned(call._replace(plan=plan), results))
    return planned


def forward(
    names: tuple[str, ...],
    tensors: Sequence[torch.Tensor],
    levels: Levels,
    settings: Settings,
    value_scale: torch.Tensor | None,
    out_dtype: torch.dtype | None,
) -> torch.Tensor:
    planned = _call_of(names, tensors, levels, settings, out_dtype)
    output = planned.empty("output")
    outputs = [("output", output.data_ptr())]
    run_call(planned.call, KIND, dict(zip(names, tensors)), value_scale, outputs)
    return output


def backward(
    names: tuple[str, ...],
    grad_output: torch.Tensor,
    tensors: Sequence[torch.Tensor],
    levels: Levels,
    settings: Settings,
    value_scale: torch.Tensor | None,
    wanted: Sequence[bool],
) -> list[torch.Tensor]:
    """The gradients that are wanted, and a tensor without elements for each of the others."""
    planned = _call_of(
        (*names, "grad_output"),
        (*tensors, grad_output),
        levels,
        settings,
        torch.are_deterministic_algorithms_enabled(),
    )
    call, arrays = planned.call, dict(zip(names, tensors))
    gradients, outputs = {}, []
    for name, one in zip(names, wanted):
        if one:
            tensor = "grad_" + name
            gradients[name] = new = planned.empty(tensor)
            outputs.append((tensor, new.data_ptr()))
    if outputs:
        arrays["grad_output"] = grad_output
        run_call(call, KIND, arrays, value_scale, outputs)
    if call.repeated and "reference" in gradients:
        gradients["reference"] = gradients["reference"].sum(2, keepdim=True)
    return [
        gradients[name].view(given.shape) if one else given.new_empty(0)
        for name, given, one in zip(names, tensors, wanted)
    ]


def check_place(name: str, tensor: torch.Tensor, device: torch.device) -> None:
    """Refuses a tensor of a traced call that the library could not read where it runs: on `device`,
    which is meta where the call is traced for any."""
    if tensor.layout is not torch.strided or tensor.device.type not in ("cpu", "cuda", "meta"):
        raise unusable(name, tensor)
    if tensor.device != device:
        raise InvalidArgumentError(
            f"{name} is on {tensor.device}: must be on {device}, where value is"
        )


def unusable(name: str, tensor: torch.Tensor) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{name} is a {tensor.layout} tensor on {tensor.device}: "
        "must be a strided one on the CPU or a CUDA device"
    )


def check_wanted(wanted: Sequence[bool], names: tuple[str, ...]) -> None:
    if len(wanted) != len(names):
        raise InvalidArgumentError(
            f"wanted has {len(wanted)} entries: must have one for each of {', '.join(names)}"
        )
