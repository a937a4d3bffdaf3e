"""Calls of the library on plain tensors of the CPU or a CUDA device, each planned once."""

from collections.abc import Callable, Sequence
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


class Planned(NamedTuple):
    """A call, and a tensor without memory like each that it computes: torch.empty_like() of one takes
    half the time of torch.empty()."""

    call: Call
    results: tuple[torch.Tensor, ...]


# The calls by the number of threads that they work with. It is small: each number has a handle, and a handle its threads.
_calls = Cache(16)
_get_num_threads = torch.get_num_threads
_are_deterministic = torch.are_deterministic_algorithms_enabled
_empty_like = torch.empty_like


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
    sampling_mode: str = "bilinear"

    def options(self) -> Options:
        return Options(**self._asdict())


class Views(NamedTuple):
    """Tensors of other shapes as the library takes them, and the shapes in which the caller wants results."""

    tensors: Sequence[torch.Tensor]
    levels: Levels
    into: Sequence[torch.Tensor]
    results: Sequence[tuple[int, ...]]


def call_of(
    names: tuple[str, ...],
    tensors: Sequence[torch.Tensor],
    levels: Any,
    settings: Settings,
    choice: Any,
    into: Sequence[torch.Tensor] = (),
    views: Callable[[], Views] | None = None,
) -> Planned:
    """The call of this signature; `choice` is out_dtype, or whether gradients are deterministic. The gradients of
    coordinates and weights are laid out as the tensors of `into`, packed without them. views() is asked the first
    time, so that other calls make no views; what it does depends on the signature, `levels` in it, alone."""
    threads = settings.threads
    if threads is None:
        threads = _get_num_threads()
    signature: list[Any] = [names, levels, settings, choice]
    for t in tensors:
        place = t.get_device() if t.is_cuda else -1 if t.is_cpu else t.device  # a number is quicker to hash
        signature += t.shape, t.is_contiguous() or t.stride(), t.dtype, place
    for t in into:
        signature.append(t.stride())
    key = tuple(signature)
    try:
        calls = _calls.get(threads)
        if calls is None:
            calls = _calls.add(threads, Cache(1024))
        planned = calls.get(key)
    except TypeError:  # a setting that cannot be hashed is none that there is
        settings.options()
        raise
    if planned is None:
        shapes: Sequence[tuple[int, ...]] | None = None
        if views is not None:
            tensors, levels, into, shapes = views()
        with torch.no_grad():
            arrays = {name: KIND.prepare(name, t) for name, t in zip(names, tensors)}
        if tensors[0].device.type == "cpu":
            settings = settings._replace(threads=threads)
        options, field = settings.options(), "out_dtype"
        if "grad_output" in names:
            field = "deterministic"
        call = describe(KIND, arrays, levels, options, into=[KIND.view(t) for t in into], **{field: choice})
        plan = cached_plan(Plan, call.problem, options.kernel, call.handle)
        device = tensors[0].device
        results = tuple(
            without_memory(shape, getattr(torch, dtype), device)
            for (_, _, dtype), shape in zip(call.outputs, shapes or [shape for _, shape, _ in call.outputs])
        )
        planned = calls.add(key, Planned(call._replace(plan=plan), results))
    return planned


def planned(*signature: Any) -> Call:
    """The call that forward() makes of names, tensors, levels, settings and out_dtype."""
    return call_of(*signature).call


def without_memory(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    tensor = torch.empty(shape, dtype=dtype, device=device)
    tensor.untyped_storage().resize_(0)
    return tensor


def forward(
    names: tuple[str, ...],
    tensors: Sequence[torch.Tensor],
    levels: Levels,
    settings: Settings,
    value_scale: torch.Tensor | None,
    out_dtype: torch.dtype | None,
    attention: torch.Tensor | None = None,
) -> torch.Tensor:
    """The output. The softmax of logit is written to `attention` where it is given, which new_attention() makes."""
    call, (result,) = call_of(names, tensors, levels, settings, out_dtype)
    output = _empty_like(result)
    extras = () if attention is None else (attention.data_ptr(),)
    run_call(call, KIND, tensors, value_scale, (output.data_ptr(),), extras)
    return output


def new_attention(logit: torch.Tensor) -> torch.Tensor:
    return logit.new_empty(logit.shape)


def backward(
    names: tuple[str, ...],
    grad_output: torch.Tensor,
    tensors: Sequence[torch.Tensor],
    levels: Levels,
    settings: Settings,
    value_scale: torch.Tensor | None,
    wanted: Sequence[bool],
    grad_value: torch.Tensor | None = None,
    into: Sequence[torch.Tensor] = (),
) -> list[torch.Tensor]:
    """The gradients that are wanted, and a tensor without elements for each of the others.

    Those of value, and of coordinates and weights, are written to `grad_value`, a packed tensor of value's
    shape and type, and to the two of `into`, of the inputs' shapes and types and any strides of rows."""
    inputs, deterministic = (*tensors, grad_output), _are_deterministic()
    call, results = call_of((*names, "grad_output"), inputs, levels, settings, deterministic, into)
    if grad_value is None and not into and all(wanted):
        gradients = [*map(_empty_like, results)]
    else:
        places = (grad_value, *[None] * (len(results) - 3), *(into or (None, None)))
        gradients = [
            (_empty_like(result) if given is None else given) if one else result.new_empty(0)
            for result, one, given in zip(results, wanted, places)
        ]
    if any(wanted):  # a tensor without elements has the address 0
        run_call(call, KIND, inputs, value_scale, map(KIND.address, gradients))
    if call.repeated and wanted[1]:
        gradients[1] = gradients[1].sum(2, keepdim=True)
    return gradients


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
