"""The short way of a plain eager call: past the dispatcher, with gradients of its own."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from . import _calls, _known
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
_are_deterministic = torch.are_deterministic_algorithms_enabled
_get_num_threads = torch.get_num_threads
_query_hw = Settings._fields.index("query_hw")


def _is_seen() -> bool:
    """Whether what no dispatch key tells of is to see a call, so that the dispatcher is needed."""
    return _compiling() or _modes() or _function_modes() or forward_ad._current_level >= 0


def _are_plain(tensors: Sequence[Any]) -> bool:
    """Whether a call that is not seen needs the dispatcher neither for the dispatch keys of the thread, nor for those of
    the tensors. What cannot be computed on counts as plain: _calls refuses it."""
    if _autocast() or _tracing() or _functorch() is not None:
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
        names, levels, settings, scale, out_dtype, known = call
        ctx.call = names, levels, settings, known
        if known is not None:
            ctx.save_for_backward(*tensors)
            return known.compute(tensors)[0]
        ctx.save_for_backward(*(tensors if scale is None else (*tensors, scale)))
        return _calls.forward(names, tensors, levels, settings, scale, out_dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[Any, ...]:
        names, levels, settings, known = ctx.call
        tensors, key = ctx.saved_tensors, None
        inputs, is_direct = (*tensors, grad_output), not (_grad_enabled() or _is_seen())
        if is_direct and known is not None and known.is_wanted:
            key = known, _are_deterministic(), _get_num_threads()
            again = _known.find(key, inputs)
            if again is not None:
                return None, *again.compute(inputs)
        scale, wanted = None, ctx.needs_input_grad[1:]
        if len(tensors) > len(names):
            *tensors, scale = tensors
        if not (is_direct and _are_plain((grad_output, *tensors))):
            found = operators[names].backward(
                grad_output, *tensors, flat(levels), wanted, scale, *flat_settings(settings)
            )
        else:
            found = _calls.backward(names, grad_output, tensors, levels, settings, scale, wanted)
            if key is not None:
                _known.add(key, (*names, "grad_output"), inputs, levels, settings, key[1])
        if all(wanted):
            return None, *found
        return None, *[one if want else None for one, want in zip(found, wanted)]


# _apply leaves out what Function.apply() of torch 2.11 does in Python for torch.func (2 us), which never gets here.
_apply = super(torch.autograd.Function, _Direct).apply
# The engine calls apply() of a node, which looks for this function (1 us).
_Direct._backward_cls.apply = _Direct.backward


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
) -> torch.Tensor | None:
    """The output of a plain call, None where a call is not plain."""
    if _is_seen():
        return None
    key = None
    if scale is None:
        key = names, levels, settings, out_dtype, _get_num_threads()
        known = _known.find(key, tensors)
        if known is not None:
            if known.is_recorded and _grad_enabled():
                return _apply((names, levels, settings, None, out_dtype, known), *tensors)
            return known.compute(tensors)[0]
    if not _are_plain(tensors):
        return None
    if _grad_enabled() and any([t.requires_grad for t in tensors]):
        output = _apply((names, levels, settings, scale, out_dtype, None), *tensors)
    else:
        output = _calls.forward(names, tensors, levels, settings, scale, out_dtype)
    if key is not None:
        _known.add(key, names, tensors, levels, settings, out_dtype)
    return output


def is_unusable(tensor: torch.Tensor) -> bool:
    """Whether it has no memory to compute on, outside of tracing, where that is of no account."""
    if _compiling() or _modes() or type(tensor) not in _plain_types:
        return False
    return tensor.device.type not in _device_types or tensor.layout is not torch.strided


def in_functorch() -> bool:
    """Whether derivatives are taken by torch.func or in forward mode, for which an operator's
    autograd is of no use."""
    return not _compiling() and (_functorch() is not None or forward_ad._current_level >= 0)
