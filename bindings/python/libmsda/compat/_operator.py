"""A call of somebody's operator in libmsda's terms."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import libmsda
import libmsda.torch
from libmsda.torch import _calls, _operators
from libmsda.torch._levels import elements, level_shapes

_DTYPES = {
    torch.float64: "float64",
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
}


@dataclass
class Call:
    """value [B,S,M,D], coord [B,Q,M,L,P,2] or [B,Q,M,K,2], weight [B,Q,M,L,P] or [B,Q,M,K]."""

    value: torch.Tensor
    level_hw: tuple[tuple[int, int], ...]
    coord: torch.Tensor
    weight: torch.Tensor
    points: tuple[int, ...]
    level_start: tuple[int, ...] | None = None  # None: each level begins where the one before ends
    sampling_mode: str = "bilinear"

    def forward(self) -> torch.Tensor:
        return libmsda.torch.forward(*self._inputs(), **self._settings()).flatten(2)

    def backward(self, grad_output: torch.Tensor) -> libmsda.Gradients:
        gradients = torch.ops.msda.backward(
            grad_output.reshape(*grad_output.shape[:2], *self.value.shape[2:]),
            self.value,
            self.coord,
            self.weight,
            [size for pair in self.level_hw for size in pair],
            [True] * 3,
            **self._settings(),
        )
        return libmsda.Gradients(*gradients)

    def _inputs(self) -> tuple[Any, ...]:
        return self.value, self.level_hw, self.coord, self.weight

    def _settings(self) -> dict[str, Any]:
        return dict(
            points=self.points, level_start_index=self.level_start, sampling_mode=self.sampling_mode
        )

    def signature(self) -> Hashable:
        """What decides which kernel libmsda takes."""
        tensors = [(t.shape, t.stride(), t.dtype, t.device) for t in (self.value, self.coord, self.weight)]
        rest = self.level_hw, self.points, self.level_start, self.sampling_mode, torch.get_num_threads()
        return *tensors, *rest, torch.is_autocast_enabled(self.value.device.type)

    def kernel(self) -> str | None:
        """The kernel of forward(), by the plan that it has made; None within torch.func, which hides the tensors' memory."""
        if torch._C._functorch.peek_interpreter_stack() is not None:
            return None
        value = _operators.in_autocast(self.value, self.value.device.type)
        settings = _calls.Settings(**self._settings())
        call = _calls.planned(_calls.SAMPLED, (value, self.coord, self.weight), self.level_hw, settings, None)
        return call.plan.info.kernel_id


def call_of(
    value: Any,
    shapes: Any,
    coord: torch.Tensor,
    weight: torch.Tensor,
    points: Sequence[int] | None = None,
    level_start: Any = None,
    sampling_mode: str = "bilinear",
) -> Call | str:
    """The Call of these arguments, or the reason why libmsda does not take them.

    value        [B,S,M,D], [B,M,D,S], or a list with [B,M,D,H*W] for each level
    shapes       (H, W) of each level, as a sequence or a tensor [L,2]
    coord        [B,Q,M,L,P,2] or [B,Q,M,K,2]; weight has as many elements as coord has points
    points       of each level; None: the same for all
    level_start  the token that each level begins with, as a sequence or a tensor [L]
    """
    levels_of_value = value if isinstance(value, (list, tuple)) else [value]
    reason = _refusal([*(("value", level) for level in levels_of_value), ("coord", coord), ("weight", weight)])
    if reason is not None:
        return reason
    levels = level_shapes(shapes)
    if value is levels_of_value:
        value = _joined(value).permute(0, 3, 1, 2)
    else:
        tokens, heads = sum(height * width for height, width in levels), coord.shape[2]
        if value.shape[1] == heads and value.shape[3] == tokens:
            if value.shape[1:3] == (tokens, heads):
                return f"value of shape {tuple(value.shape)} may have its tokens on axis 1 or 3"
            value = value.permute(0, 3, 1, 2)
    if points is None:
        points = [math.prod(coord.shape[3:-1]) // len(levels)] * len(levels)
    starts = None if level_start is None else tuple(elements(level_start))
    if sampling_mode == "nearest":
        coord = coord.detach()  # of no gradient in stock code, where zeros would be subject to weight decay
    weight = weight.reshape(coord.shape[:-1])
    return Call(value, levels, coord, weight, tuple(map(int, points)), starts, sampling_mode)


def _refusal(tensors: list[tuple[str, Any]]) -> str | None:
    """Why libmsda does not take the named tensors, or None."""
    if torch.jit.is_tracing():
        return "torch.jit.trace records PyTorch's own operators only"
    for name, tensor in tensors:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):  # a FakeTensor has no memory
            return f"{name} is a {type(tensor).__name__}; libmsda takes plain tensors"
        if tensor.dtype not in _DTYPES:
            return f"{name} has dtype {tensor.dtype}; libmsda takes {', '.join(_DTYPES.values())}"
        if tensor.device.type not in ("cpu", "cuda"):
            return f"{name} is on device {tensor.device.type}; libmsda takes cpu and cuda"
    return None


def _joined(levels: Sequence[torch.Tensor]) -> torch.Tensor:
    """[B,M,D,S] of levels [B,M,D,H*W]: the tensor itself that they were split from, else a copy."""
    first, whole, offset = levels[0], levels[0]._base, levels[0].storage_offset()
    for level in levels:
        if level._base is not whole or level.stride() != first.stride() or level.storage_offset() != offset:
            return torch.cat(list(levels), dim=-1)
        offset += level.shape[-1] * first.stride(-1)
    tokens = sum(level.shape[-1] for level in levels)
    whole = first if whole is None else whole
    return whole.as_strided((*first.shape[:-1], tokens), first.stride(), first.storage_offset())
