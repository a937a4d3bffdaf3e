"""The operators msda::attend, attend_with_weights and attend_backward: the fused operator on what a module's products give.

    value      [B, S, M*D]      the projected value, the heads side by side
    reference  [B, Q, L, R]     R is 2 or 4; [B, Q, 1, R] counts for every level
    offset     [B, Q, M*K*2]    [M, K, 2] of a query; K = L * P
    logit      [B, Q, M*K]
    points     [B, Q, M*K*3]    a query's offsets, then its logits: parts() has both as views

All but the reference may be matrices, [B*S, M*D] and so on: what is returned for them are matrices, too.

attend() returns [B, Q, M*D] of value's type; attend_with_weights() that and the softmax of the logits, [B, Q, M, K]
in float32 at least; attend_backward() the gradients of value, points and reference, that of points of value's type;
attend_backward_() those of value and reference: it takes points and writes their gradient over them.
Locations and softmax are computed in float32, or float64 where an input has it.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from .._functions import run_call
from . import _calls
from ._calls import FUSED, KIND, Levels, Settings
from ._eager import is_watched

_library = torch.library.Library("msda", "FRAGMENT")
for _name, _results in (("attend", "Tensor"), ("attend_with_weights", "(Tensor, Tensor)")):
    _library.define(
        f"{_name}(Tensor value, Tensor reference, Tensor offset, Tensor logit, int[] level_hw, int head_count) "
        f"-> {_results}",
        tags=(torch.Tag.pt2_compliant_tag,),
    )
for _name, _points, _results in (
    ("attend_backward", "Tensor offset, Tensor logit", "(Tensor, Tensor, Tensor)"),
    ("attend_backward_", "Tensor(a!) points", "(Tensor, Tensor)"),
):
    _library.define(
        f"{_name}(Tensor grad_output, Tensor value, Tensor reference, {_points}, "
        f"int[] level_hw, int head_count, bool reference_wanted) -> {_results}",
        tags=(torch.Tag.pt2_compliant_tag,),
    )
attend = torch.ops.msda.attend.default
attend_with_weights = torch.ops.msda.attend_with_weights.default
attend_backward = torch.ops.msda.attend_backward.default
attend_backward_ = torch.ops.msda.attend_backward_.default

_SETTINGS = Settings()
_BACKWARD = *FUSED, "grad_output"
_are_deterministic = torch.are_deterministic_algorithms_enabled


class _Shapes(NamedTuple):
    """The shapes in which the library takes tensors."""

    levels: Levels
    value: tuple[int, ...]  # [B,S,M,D]
    output: tuple[int, ...]  # [B,Q,M,D]
    offset: tuple[int, ...]  # [B,Q,M,L,P,2]
    logit: tuple[int, ...]  # [B,Q,M,L,P]


@functools.lru_cache(1024)
def _shapes_of(
    level_hw: tuple[int, ...], head_count: int, queries: tuple[int, int], channels: int, points: int
) -> _Shapes:
    """Shapes for `queries` [B,Q], and so many channels and points of all heads."""
    levels = tuple(zip(level_hw[::2], level_hw[1::2]))
    tokens, heads = sum(height * width for height, width in levels), (head_count, channels // head_count)
    logit = *queries, head_count, len(levels), points // (head_count * len(levels))
    return _Shapes(levels, (queries[0], tokens, *heads), (*queries, *heads), (*logit, 2), logit)


class _Inputs(NamedTuple):
    """The operator's inputs as views of a module's tensors, each of its own type."""

    shapes: _Shapes
    tensors: tuple[torch.Tensor, ...]  # value, reference, offset, logit

    @staticmethod
    def of(
        value: torch.Tensor,
        reference: torch.Tensor,
        offset: torch.Tensor,
        logit: torch.Tensor,
        level_hw: Sequence[int],
        head_count: int,
    ) -> "_Inputs":
        shapes = _shapes_of(tuple(level_hw), head_count, reference.shape[:2], value.shape[-1], logit.shape[-1])
        views = value.view(shapes.value), reference, offset.view(shapes.offset), logit.view(shapes.logit)
        return _Inputs(shapes, views)


def parts(points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Offsets and logits of points."""
    offset, logit = points.tensor_split((points.shape[-1] // 3 * 2,), -1)
    return offset, logit


def _attend(
    value: torch.Tensor,
    reference: torch.Tensor,
    offset: torch.Tensor,
    logit: torch.Tensor,
    *rest: Any,
) -> torch.Tensor:
    tensors = value, reference, offset, logit
    call, (result,) = _calls.call_of(FUSED, tensors, _key(*rest), _SETTINGS, None, (), lambda: _views(tensors, *rest))
    output = torch.empty_like(result)
    run_call(call, KIND, tensors, None, (output.data_ptr(),))
    return output


def _key(level_hw: Sequence[int], head_count: int) -> tuple[int, ...]:
    return *level_hw, head_count


def _views(tensors: Sequence[torch.Tensor], level_hw: Sequence[int], head_count: int) -> _calls.Views:
    """What attend() computes of its tensors."""
    given = _Inputs.of(*tensors, level_hw, head_count)
    value, _, _, logit = tensors
    return _calls.Views(given.tensors, given.shapes.levels, (), [(*logit.shape[:-1], value.shape[-1])])


def _backward_views(
    tensors: Sequence[torch.Tensor], level_hw: Sequence[int], head_count: int, _reference_wanted: bool
) -> _calls.Views:
    """What attend_backward() computes of its tensors, the gradients of offset and logit being one of points."""
    *inputs, grad_output = tensors
    shapes, views = _Inputs.of(*inputs, level_hw, head_count)
    value, _, _, logit = inputs
    points = *logit.shape[:-1], 3 * logit.shape[-1]
    grad_offset, grad_logit = parts(logit.new_empty(points))
    into = grad_offset.view(shapes.offset), grad_logit.view(shapes.logit)
    results = value.shape, (0,), points, (0,)
    return _calls.Views((*views, grad_output.view(shapes.output)), shapes.levels, into, results)


def _attend_with_weights(
    value: torch.Tensor,
    reference: torch.Tensor,
    offset: torch.Tensor,
    logit: torch.Tensor,
    *rest: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    logit = logit.to(weights_dtype(logit))
    given = _Inputs.of(value, reference, offset, logit, *rest)
    weights = _calls.new_attention(given.tensors[3])
    output = _calls.forward(FUSED, given.tensors, given.shapes.levels, _SETTINGS, None, None, weights)
    return output.view(*logit.shape[:-1], value.shape[-1]), weights.flatten(3)


def weights_dtype(logit: torch.Tensor) -> torch.dtype:
    return torch.promote_types(logit.dtype, torch.float32)


def _attend_backward(
    grad_output: torch.Tensor,
    value: torch.Tensor,
    reference: torch.Tensor,
    offset: torch.Tensor,
    logit: torch.Tensor,
    *rest: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if _is_simple(value, reference, offset, logit, *rest):
        tensors = value, reference, offset, logit, grad_output
        choice, views = _are_deterministic(), lambda: _backward_views(tensors, *rest)
        call, results = _calls.call_of(_BACKWARD, tensors, _key(*rest[:2]), _SETTINGS, choice, (), views)
        grad_value, grad_reference, grad_points, _ = map(torch.empty_like, results)
        grad_offset = grad_points.data_ptr()
        grad_logit = grad_offset + 2 * logit.shape[-1] * logit.itemsize
        run_call(call, KIND, tensors, None, (grad_value.data_ptr(), 0, grad_offset, grad_logit))
        return grad_value, grad_points, grad_reference
    if {offset.dtype, logit.dtype} == {value.dtype}:
        grad_points = value.new_empty(*logit.shape[:-1], 3 * logit.shape[-1])
        into = parts(grad_points)
        found = _differentiate(into, grad_output, value, reference, offset, logit, *rest)
    else:
        # Gradients of other types than the product's are joined behind the call, when its workspace is free again.
        into = torch.empty_like(offset), torch.empty_like(logit)
        found = _differentiate(into, grad_output, value, reference, offset, logit, *rest)
        grad_points = value.new_empty(*logit.shape[:-1], 3 * logit.shape[-1])
        for part, grad in zip(parts(grad_points), into):
            part.copy_(grad)
    return found[0], grad_points, found[1]


def _is_simple(
    value: torch.Tensor,
    reference: torch.Tensor,
    offset: torch.Tensor,
    logit: torch.Tensor,
    _level_hw: Any,
    _head_count: int,
    reference_wanted: bool,
) -> bool:
    """Whether the gradients are those of one call, as it gives them."""
    dtype = value.dtype
    return (
        not reference_wanted
        and reference.dtype == torch.float32
        and dtype.itemsize == 2
        and offset.dtype == logit.dtype == dtype
        and (value.is_cuda or len(reference) == 1)
        and logit.numel() > 0
    )


def _attend_backward_(
    grad_output: torch.Tensor,
    value: torch.Tensor,
    reference: torch.Tensor,
    points: torch.Tensor,
    *rest: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    given = parts(points)
    return _differentiate(given, grad_output, value, reference, *given, *rest)


def _differentiate(
    into: tuple[torch.Tensor, torch.Tensor],
    grad_output: torch.Tensor,
    value: torch.Tensor,
    reference: torch.Tensor,
    offset: torch.Tensor,
    logit: torch.Tensor,
    level_hw: Sequence[int],
    head_count: int,
    reference_wanted: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Writes the gradients of offset and logit `into` two tensors, which may be these themselves; returns the gradients
    of value and reference.

    The CPU takes one item of the batch after another, so that what it needs beside its inputs and
    results is of one item: packed gradients, the kernel's workspace."""
    grad_value = torch.empty_like(value)
    items = 1 if value.device.type == "cuda" else max(len(reference), 1)
    tensors = *into, grad_value, grad_output, value, reference, offset, logit
    grad_references = []
    for item in [tensors] if items == 1 else zip(*[tensor.tensor_split(items) for tensor in tensors]):
        *places, grad_value_of_item, grad_output_of_item = item[:4]
        given = _Inputs.of(*item[4:], level_hw, head_count)
        shapes = given.shapes
        grad_reference = _backward_of_item(
            given,
            grad_output_of_item.view(shapes.output),
            grad_value_of_item.view(shapes.value),
            (places[0].view(shapes.offset), places[1].view(shapes.logit)),
            into[0] is not offset,
            reference_wanted,
        )
        grad_references.append(grad_reference.to(reference.dtype))
    return grad_value, grad_references[0] if items == 1 else torch.cat(grad_references)


def _backward_of_item(
    given: _Inputs,
    grad_output: torch.Tensor,
    grad_value: torch.Tensor,
    into: tuple[torch.Tensor, torch.Tensor],
    is_new: bool,
    reference_wanted: bool,
) -> torch.Tensor:
    """Writes grad_value and the gradients of offset and logit; returns that of reference."""
    value, reference, *points = given.tensors
    # CUDA's fast kernels read references of float32.
    least = torch.float32 if value.is_cuda else points[0].dtype
    reference = reference.to(torch.promote_types(reference.dtype, torch.promote_types(points[0].dtype, least)))
    _, grad_reference, *grads = _calls.backward(
        FUSED,
        grad_output,
        (value, reference, *points),
        given.shapes.levels,
        _SETTINGS,
        None,
        (True, reference_wanted, True, True),
        grad_value,
        into if is_new else (),
    )
    if not is_new:
        for part, grad in zip(into, grads):
            part.copy_(grad.view(part.shape))
    return grad_reference


def attend_eagerly(*given: Any) -> torch.Tensor:
    """attend() of a call that is not compiled: past the dispatcher where nothing else is to see it."""
    return attend(*given) if is_watched(given[:4]) else _attend(*given)


def attend_backward_eagerly(*given: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """attend_backward(), as attend_eagerly() is attend()."""
    return attend_backward(*given) if is_watched(given[:5]) else _attend_backward(*given)


for _device in ("CPU", "CUDA"):
    _library.impl("attend", _attend, _device)
    _library.impl("attend_with_weights", _attend_with_weights, _device)
    _library.impl("attend_backward", _attend_backward, _device)
    _library.impl("attend_backward_", _attend_backward_, _device)


@torch.library.register_fake("msda::attend", lib=_library)
def _fake_attend(
    value: torch.Tensor, _reference: Any, _offset: Any, logit: torch.Tensor, *_rest: Any
) -> torch.Tensor:
    return value.new_empty(*logit.shape[:-1], value.shape[-1])


@torch.library.register_fake("msda::attend_with_weights", lib=_library)
def _fake_attend_with_weights(
    value: torch.Tensor,
    reference: torch.Tensor,
    offset: torch.Tensor,
    logit: torch.Tensor,
    _level_hw: Any,
    head_count: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    shape = *reference.shape[:2], head_count, logit.shape[-1] // head_count
    weights = logit.new_empty(shape, dtype=weights_dtype(logit))
    return _fake_attend(value, reference, offset, logit), weights


@torch.library.register_fake("msda::attend_backward", lib=_library)
def _fake_attend_backward(
    _grad_output: torch.Tensor,
    value: torch.Tensor,
    reference: torch.Tensor,
    _offset: Any,
    logit: torch.Tensor,
    _level_hw: Any,
    _head_count: int,
    reference_wanted: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    grad_reference = reference.new_empty(reference.shape if reference_wanted else (0,))
    grad_points = value.new_empty(*logit.shape[:-1], 3 * logit.shape[-1])
    return value.new_empty(value.shape), grad_points, grad_reference
