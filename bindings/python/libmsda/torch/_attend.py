"""The operators msda::attend, attend_with_weights and attend_backward: the fused operator on what a module's products give.

    value      [B, S, M*D]      the projected value, the heads side by side
    reference  [B, Q, L, R]     R is 2 or 4; [B, Q, 1, R] counts for every level
    points     [B, Q, M*K*3]    offsets [M, K, 2] of a query, then its logits [M, K]; K = L * P

attend() returns [B, Q, M*D] of value's type; attend_with_weights() that and the softmax of the logits, [B, Q, M, K]
in float32 at least; attend_backward() the gradients of value, points and
reference, and attend_backward_() those of value and reference: it writes that of points over points.
Locations and softmax are computed in float32, or float64 where an input has it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from . import _calls
from ._calls import FUSED, Levels, Settings

_library = torch.library.Library("msda", "FRAGMENT")
for _name, _results in (("attend", "Tensor"), ("attend_with_weights", "(Tensor, Tensor)")):
    _library.define(
        f"{_name}(Tensor value, Tensor reference, Tensor points, int[] level_hw, int head_count) -> {_results}",
        tags=(torch.Tag.pt2_compliant_tag,),
    )
for _name, _points, _results in (
    ("attend_backward", "Tensor", "(Tensor, Tensor, Tensor)"),
    ("attend_backward_", "Tensor(a!)", "(Tensor, Tensor)"),
):
    _library.define(
        f"{_name}(Tensor grad_output, Tensor value, Tensor reference, {_points} points, "
        f"int[] level_hw, int head_count, bool reference_wanted) -> {_results}",
        tags=(torch.Tag.pt2_compliant_tag,),
    )
attend = torch.ops.msda.attend.default
attend_with_weights = torch.ops.msda.attend_with_weights.default
attend_backward = torch.ops.msda.attend_backward.default
attend_backward_ = torch.ops.msda.attend_backward_.default

_SETTINGS = Settings()


class _Inputs(NamedTuple):
    """The operator's inputs as views of a module's tensors."""

    levels: Levels
    value: torch.Tensor  # [B,S,M,D]
    reference: torch.Tensor
    offset: torch.Tensor  # [B,Q,M,L,P,2]
    logit: torch.Tensor  # [B,Q,M,L,P]

    @staticmethod
    def of(
        value: torch.Tensor,
        reference: torch.Tensor,
        points: torch.Tensor,
        level_hw: Sequence[int],
        head_count: int,
    ) -> "_Inputs":
        levels = tuple(zip(level_hw[::2], level_hw[1::2]))
        offset, logit = heads_of(points, head_count, len(levels))
        heads = head_count, value.shape[2] // head_count
        return _Inputs(levels, value.view(*value.shape[:2], *heads), reference, offset, logit)

    def dtype(self) -> torch.dtype:
        """float32 or float64: which kernels read fastest and locations need."""
        dtype = torch.promote_types(self.offset.dtype, self.reference.dtype)
        return torch.promote_types(dtype, torch.float32)

    def fused(self) -> tuple[torch.Tensor, ...]:
        """As the fused operator takes them: as they are, each of its own type. On CUDA its fast kernels
        read packed rows of one type alone."""
        if not self.value.is_cuda:
            return self.value, self.reference, self.offset, self.logit
        dtype = self.dtype()
        points = [one.to(dtype).contiguous() for one in (self.offset, self.logit)]
        return self.value, self.reference.to(dtype), *points


def heads_of(points: torch.Tensor, head_count: int, level_count: int) -> tuple[torch.Tensor, ...]:
    """Views of points: offsets [B,Q,M,L,P,2] and logits [B,Q,M,L,P]."""
    offset, logit = parts(points)
    shape = *points.shape[:2], head_count, level_count, points.shape[2] // (3 * head_count * level_count)
    return offset.view(*shape, 2), logit.view(shape)


def parts(points: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Offsets and logits of points."""
    return points.tensor_split((points.shape[2] // 3 * 2,), 2)


def _attend(
    value: torch.Tensor,
    reference: torch.Tensor,
    points: torch.Tensor,
    level_hw: Sequence[int],
    head_count: int,
) -> torch.Tensor:
    given = _Inputs.of(value, reference, points, level_hw, head_count)
    output = _calls.forward(FUSED, given.fused(), given.levels, _SETTINGS, None, None)
    return output.view(*points.shape[:2], value.shape[2])


def _attend_with_weights(
    value: torch.Tensor,
    reference: torch.Tensor,
    points: torch.Tensor,
    level_hw: Sequence[int],
    head_count: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    given, dtype = _Inputs.of(value, reference, points, level_hw, head_count), weights_dtype(points)
    *rest, logit = given.fused()
    logit = logit.to(torch.promote_types(logit.dtype, dtype))
    weights = _calls.new_attention(logit)
    output = _calls.forward(FUSED, (*rest, logit), given.levels, _SETTINGS, None, None, weights)
    return output.view(*points.shape[:2], value.shape[2]), weights.flatten(3).to(dtype)


def weights_dtype(points: torch.Tensor) -> torch.dtype:
    return torch.promote_types(points.dtype, torch.float32)


def _attend_backward(
    grad_output: torch.Tensor,
    value: torch.Tensor,
    reference: torch.Tensor,
    points: torch.Tensor,
    *rest: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    grad_points = torch.empty_like(points)
    found = _differentiate(grad_points, grad_output, value, reference, points, *rest)
    return found[0], grad_points, found[1]


def _attend_backward_(
    grad_output: torch.Tensor,
    value: torch.Tensor,
    reference: torch.Tensor,
    points: torch.Tensor,
    *rest: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    return _differentiate(points, grad_output, value, reference, points, *rest)


def _differentiate(
    grad_points: torch.Tensor,
    grad_output: torch.Tensor,
    value: torch.Tensor,
    reference: torch.Tensor,
    points: torch.Tensor,
    level_hw: Sequence[int],
    head_count: int,
    reference_wanted: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Writes grad_points, which may be points itself; returns the gradients of value and reference.

    The CPU takes one item of the batch after another, so that what it needs beside its inputs and
    results is of one item: packed gradients, the kernel's workspace."""
    grad_value = torch.empty_like(value)
    items = 1 if value.device.type == "cuda" else max(len(reference), 1)
    tensors = grad_points, grad_value, grad_output, value, reference, points
    grad_references = []
    for item in zip(*[tensor.tensor_split(items) for tensor in tensors]):
        into, grad_value_of_item, grad_output_of_item, *inputs = item
        given = _Inputs.of(*inputs, level_hw, head_count)
        grad_reference = _backward_of_item(
            given,
            grad_output_of_item.view(*inputs[1].shape[:2], *given.value.shape[2:]),
            grad_value_of_item.view(given.value.shape),
            heads_of(into, head_count, len(given.levels)),
            reference_wanted,
        )
        grad_references.append(grad_reference.to(reference.dtype))
    return grad_value, torch.cat(grad_references)


def _backward_of_item(
    given: _Inputs,
    grad_output: torch.Tensor,
    grad_value: torch.Tensor,
    into: tuple[torch.Tensor, ...],
    reference_wanted: bool,
) -> torch.Tensor:
    """Writes grad_value and the gradients of offset and logit; returns that of reference."""
    wanted = True, reference_wanted, True, True
    _, grad_reference, *grads = _calls.backward(
        FUSED, grad_output, given.fused(), given.levels, _SETTINGS, None, wanted, grad_value
    )
    for part, grad in zip(into, grads):
        part.copy_(grad.view(part.shape))
    return grad_reference


for _device in ("CPU", "CUDA"):
    _library.impl("attend", _attend, _device)
    _library.impl("attend_with_weights", _attend_with_weights, _device)
    _library.impl("attend_backward", _attend_backward, _device)
    _library.impl("attend_backward_", _attend_backward_, _device)


@torch.library.register_fake("msda::attend", lib=_library)
def _fake_attend(
    value: torch.Tensor, reference: torch.Tensor, points: torch.Tensor, *_rest: Any
) -> torch.Tensor:
    return value.new_empty(*points.shape[:2], value.shape[2])


@torch.library.register_fake("msda::attend_with_weights", lib=_library)
def _fake_attend_with_weights(
    value: torch.Tensor,
    reference: torch.Tensor,
    points: torch.Tensor,
    level_hw: Sequence[int],
    head_count: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    shape = *points.shape[:2], head_count, points.shape[2] // (3 * head_count)
    weights = points.new_empty(shape, dtype=weights_dtype(points))
    return _fake_attend(value, reference, points), weights


@torch.library.register_fake("msda::attend_backward", lib=_library)
def _fake_attend_backward(
    _grad_output: torch.Tensor,
    value: torch.Tensor,
    reference: torch.Tensor,
    points: torch.Tensor,
    _level_hw: Any,
    _head_count: int,
    reference_wanted: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    grad_reference = reference.new_empty(reference.shape if reference_wanted else (0,))
    return value.new_empty(value.shape), points.new_empty(points.shape), grad_reference
