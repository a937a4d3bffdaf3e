"""The short way of a plain eager call: past the dispatcher, with gradients of its own."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from . import _calls
from ._calls import Levels, Settings
from ._operators import operators

_plain_types = (torch.Tensor, torch.nn.Parameter)
_device_types = ("cpu", "cuda")
_compiling = torch.compiler.is_compiling
_tracing = torch._C._is_tracing
_functorch = torch._C._functorch.peek_interpreter_stack
_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_profiled = torch._C._autograd._profiler_enabled
_autocast = torch._C._is_any_autocast_enabled
_grad_enabled = torch.is_grad_enabled
_query_hw = Settings._fields.index("query_hw")


def is_plain(tensors: Sequence[Any]) -> bool:
    """Whether nothing but the computation is to happen, so that the dispatcher is not needed. What
    cannot be computed on counts as plain: _calls refuses it."""
    if (
        _compiling()
        or _tracing()
        or _functorch() is not None
        or _modes()
        or _function_modes()
        or _autocast()
        or forward_ad._current_level >= 0
    ):
        return False
    for t in tensors:
        if type(t) not in _plain_types or t.is_neg():
            return False
    return True


def is_watched(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether a profile, a mode or a tensor of another kind is to see each operator on these."""
    if _profiled() or _modes() or _function_modes() or _tracing():
        return True
    for t in tensors:
        if type(t) not in _plain_types or t.is_neg():
            return True
    return False


class _Direct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Any, *tensors: torch.Tensor) -> torch.Tensor:
        names, levels, settings, scale, out_dtype = call
        ctx.save_for_backward(*(tensors if scale is None else (*tensors, scale)))
        ctx.call = names, levels, settings
        return _calls.forward(names, tensors, levels, settings, scale, out_dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[Any, ...]:
        names, levels, settings = ctx.call
        tensors, scale, wanted = ctx.saved_tensors, None, ctx.needs_input_grad[1:]
        if len(tensors) > len(names):
            *tensors, scale = tensors
        if _grad_enabled() or not is_plain((grad_output, *tensors)):
            found = operators[names].backward(
                grad_output, *tensors, flat(levels), wanted, scale, *flat_settings(settings)
            )
        else:
            found = _calls.backward(names, grad_output, tensors, levels, settings, scale, wanted)
        if all(wanted):
            return None, *found
        return None, *[one if want else None for one, want in zip(found, wanted)]


# _apply leaves out what Function.apply() of torch 2.11 does in Python for torch.func (2 us): is_plain() excludes that.
_apply = super(torch.autograd.Function, _Direct).apply


def flat(pairs: Levels) -> list[int]:
    return [number for pair in pairs for number in pair]


def flat_settings(settings: Settings) -> tuple[Any, ...]:
    """The settings as the operators take them."""
    fields = list(settings)  # torch 2.6 does not compile _replace()
    if settings.query_hw is not None:
        fields[_query_hw] = flat(settings.query_hw)
    return tuple(fields)


def forward(
    names: tuple[str, ...],
    tensors: tuple[torch.Tensor, ...],
    levels: Levels,
    settings: Settings,
    scale: torch.Tensor | None,
    out_dtype: torch.dtype | None,
) -> torch.Tensor:
    if _grad_enabled():
        for t in tensors:
            if t.requires_grad:
                return _apply((names, levels, settings, scale, out_dtype), *tensors)
    return _calls.forward(names, tensors, levels, settings, scale, out_dtype)


def is_unusable(tensor: torch.Tensor) -> bool:
    """Whether it has no memory to compute on, outside of tracing, where that is of no account."""
    if _compiling() or _modes() or type(tensor) not in _plain_types:
        return False
    return tensor.device.type not in _device_types or tensor.layout is not torch.strided


def in_functorch() -> bool:
    """Whether derivatives are taken by torch.func or in forward mode, for which an operator's
    autograd is of no use."""
    return not _compiling() and (_functorch() is not None or forward_ad._current_level >= 0)
