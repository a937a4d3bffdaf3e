"""Eager calls like an earlier one. They are recognised by torch.compile's check of tensors, one call of C for all, where
_calls.call_of() makes a key of what each tensor is. Where torch has no such check, no call is known."""

import functools
from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

import torch

from .._core.cache import Cache
from .._core.handle import CPU
from .._functions import run_call
from . import _calls

_MOST = 8  # kinds of tensors for one key, which are tried in turn

_guards = torch._C._dynamo.guards
_guards_of = getattr(_guards, "TensorGuards", None)
# These take sizes, strides and a type, and a third of the time of torch.empty(); the device is the current one.
_empty_on_cpu = getattr(_guards, "_empty_strided_cpu", None)
_empty_on_cuda = getattr(_guards, "_empty_strided_cuda", None)
_current_device = getattr(torch._C, "_cuda_getDevice", lambda: None)
_stream = getattr(torch._C, "_cuda_getCurrentRawStream", _calls.KIND.stream)
_address, _empty_like = torch.Tensor.data_ptr, torch.empty_like
_known = Cache(1024)
_kept_of = _known.get


def _check_of(tensors: Sequence[torch.Tensor]) -> Callable[..., bool]:
    """What says whether tensors have the types, dispatch keys, element types, devices, sizes, strides and requires_grad of
    these, and none is given twice."""
    sizes, strides = [[*t.shape] for t in tensors], [[*t.stride()] for t in tensors]
    return _guards_of(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check


@functools.cache
def has_check() -> bool:
    """Whether torch has the check and it tells tensors apart; it is no public function."""
    with torch.inference_mode(False):
        one, two = (torch.empty(2, 3, dtype=torch.float32, device="cpu") for _ in range(2))
        required, negated = one.detach().requires_grad_(), torch._neg_view(one)
        others = one[:1], one.view(3, 2).t(), one.double(), required, one.to("meta"), negated
        try:
            check = _check_of([one, two])
            with torch.inference_mode():  # which the keys of the thread have
                fails = not check(one, two)
            return fails and check(one, two) and not any(check(other, two) or check(one, other) for other in others)
        except (AttributeError, RuntimeError, SystemError, TypeError, ValueError):
            return False


class Known:
    """The call of tensors that pass `check`, without value_scale."""

    __slots__ = ("_alignment", "_device", "_layouts", "_patterns", "_plan", "call", "check", "is_recorded", "is_wanted")

    def __init__(self, planned: _calls.Planned, tensors: Sequence[torch.Tensor]) -> None:
        call, plan = planned.call, planned.call.plan
        assert plan is not None
        self.check, self.call, self._plan, self._device = _check_of(tensors), call, plan, plan.device
        required = [t.requires_grad for t in tensors]
        self.is_recorded, self.is_wanted = any(required), all(required)
        self._patterns, self._alignment = planned.results, 0
        if plan.workspace_bytes and not call.changes:  # run_call() has one of its own
            self._alignment = plan.info.workspace_alignment
            size = plan.workspace_bytes + self._alignment
            self._patterns = *planned.results, _calls.without_memory((size,), torch.uint8, tensors[0].device)
        self._layouts = [(tuple(one.shape), one.stride(), one.dtype) for one in self._patterns]

    def compute(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """All results."""
        plan, device, stream, make = self._plan, self._device, 0, _empty_on_cpu
        if device != CPU:
            stream = _stream(device)
            make = _empty_on_cuda if _current_device() == device else None
        results = [*map(_empty_like, self._patterns)] if make is None else [*starmap(make, self._layouts)]
        if self.call.changes:
            run_call(self.call, _calls.KIND, tensors, None, map(_address, results))
        else:
            words = [*map(_address, tensors), *map(_address, results)]
            if self._alignment:
                words[-1] += -words[-1] % self._alignment
                words.append(plan.workspace_bytes)
                _workspace = results.pop()  # until the call returns
            plan.run_few(words, stream)
        if self.call.repeated and len(results) > 1:
            results[1] = results[1].sum(2, keepdim=True)
        return results


def find(key: Any, tensors: Sequence[Any]) -> Known | None:
    """What add() kept for such tensors."""
    try:
        kept = _kept_of(key)
    except TypeError:  # a setting that cannot be hashed: _calls refuses it
        return None
    for known in kept or ():
        if known.check(*tensors):
            return known
    return None


def add(key: Any, *signature: Any) -> None:
    """Keeps the call of _calls.call_of()'s arguments, which was made before, under a key of all but the tensors."""
    kept = _known.find(key, list)
    if len(kept) < _MOST and has_check():
        kept.append(Known(_calls.call_of(*signature), signature[1]))
