"""A call of somebody's operator in libmsda's terms."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

import libmsda
import libmsda.torch
from libmsda.torch._levels import elements, level_shapes

_DTYPES = {
    torch.float64: "float64",
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
}


class Shape(NamedTuple):
    """What decides which kernel libmsda takes."""

    value: tuple[int, ...]
    coord: tuple[int, ...]
    level_hw: tuple[tuple[int, int], ...]
    points: tuple[int, ...]
    dtypes: tuple[torch.dtype, torch.dtype, torch.dtype]
    device: torch.device


@dataclass
class Call:
    """value [B,S,M,D], coord [B,Q,M,L,P,2] or [B,Q,M,K,2], weight [B,Q,M,L,P] or [B,Q,M,K]."""

    value: torch.Tensor
    level_hw: tuple[tuple[int, int], ...]
    coord: torch.Tensor
    weight: torch.Tensor
    points: tuple[int, ...]
    level_start: tuple[int, ...] | None = None  # None: each level begins where the one before ends

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
        return dict(points=self.points, level_start_index=self.level_start)

    def shape(self) -> Shape:
        tensors = (self.value, self.coord, self.weight)
        dtypes = tuple(tensor.dtype for tensor in tensors)
        return Shape(tuple(self.value.shape), tuple(self.coord.shape), self.level_hw, self.points, dtypes, self.value.device)


def kernel_of(shape: Shape) -> str:
    """The kernel that is predicted to be the fastest, which is the one that libmsda.torch runs."""
    problem = libmsda.Problem(
        level_hw=shape.level_hw,
        points=shape.points,
        batch=shape.value[0],
        query_count=shape.coord[1],
        head_count=shape.value[2],
        head_dim=shape.value[3],
        **dict(zip(("value_dtype", "coord_dtype", "weight_dtype"), map(_DTYPES.get, shape.dtypes))),
    )
    return libmsda.Plan(problem, handle=_handle(shape.device.index if shape.device.type == "cuda" else None)).info.kernel_id


@functools.lru_cache
def _handle(device: int | None) -> libmsda.Handle:
    return libmsda.default_handle() if device is None else libmsda.Handle(device=device)


def call_of(
    value: Any,
    shapes: Any,
    coord: torch.Tensor,
    weight: torch.Tensor,
    points: Sequence[int] | None = None,
    level_start: Any = None,
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
    return Call(value, levels, coord, weight.reshape(coord.shape[:-1]), tuple(map(int, points)), starts)


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
