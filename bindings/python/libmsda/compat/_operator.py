"""A call of somebody's operator in libmsda's terms."""

import functools
import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

import libmsda
import libmsda.torch

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

    def refusal(self) -> str | None:
        """Why libmsda does not take the tensors, or None."""
        if torch.jit.is_tracing():
            return "torch.jit.trace records PyTorch's own operators only"
        for name in ("value", "coord", "weight"):
            tensor = getattr(self, name)
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter):  # a FakeTensor has no memory
                return f"{name} is a {type(tensor).__name__}; libmsda takes plain tensors"
            if tensor.dtype not in _DTYPES:
                return f"{name} has dtype {tensor.dtype}; libmsda takes {', '.join(_DTYPES.values())}"
            if tensor.device.type not in ("cpu", "cuda"):
                return f"{name} is on device {tensor.device.type}; libmsda takes cpu and cuda"
        return None

    def forward(self) -> torch.Tensor:
        inputs = self.value, self.level_hw, self.coord, self.weight
        return libmsda.torch.forward(*inputs, points=self.points).flatten(2)

    def backward(self, grad_output: torch.Tensor) -> libmsda.Gradients:
        return libmsda.backward(
            self.value,
            self.level_hw,
            self.coord,
            self.weight,
            grad_output=grad_output.reshape(*grad_output.shape[:2], *self.value.shape[2:]),
            points=self.points,
            deterministic=torch.are_deterministic_algorithms_enabled(),
            threads=torch.get_num_threads(),
        )

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


def level_shapes(shapes: Any) -> tuple[tuple[int, int], ...]:
    """(H, W) of each level, of a sequence of pairs or of a tensor [L,2].

    A tensor on a GPU has to be read back, which waits for the GPU: once for each tensor, not once for each layer.
    """
    if not isinstance(shapes, torch.Tensor):
        return tuple((int(height), int(width)) for height, width in shapes)
    known = _read_back.get(id(shapes))
    if known is None or known[0]() is not shapes or known[1] != shapes._version:
        levels = tuple((height, width) for height, width in shapes.tolist())
        key = id(shapes)
        known = weakref.ref(shapes, lambda reference: _forget(key, reference)), shapes._version, levels
        _read_back[key] = known
    return known[2]


_read_back: dict[int, tuple[weakref.ref, int, tuple[tuple[int, int], ...]]] = {}


def _forget(key: int, reference: weakref.ref) -> None:
    known = _read_back.get(key)
    if known is not None and known[0] is reference:
        del _read_back[key]


def call_of_levels(value: torch.Tensor, shapes: Any, coord: torch.Tensor, weight: torch.Tensor) -> Call:
    """A Call of locations [B,Q,M,L,P,2] or [B,Q,M,L*P,2], where every level has P points."""
    levels = level_shapes(shapes)
    weight = weight.reshape(coord.shape[:-1])
    points = math.prod(coord.shape[3:-1]) // len(levels)
    return Call(value, levels, coord, weight, (points,) * len(levels))


def call_of_ragged_levels(
    value: torch.Tensor, shapes: Any, coord: torch.Tensor, weight: torch.Tensor, points: Sequence[int]
) -> Call:
    """A Call of locations [B,Q,M,K,2] and weights [B,Q,M,K]: level l has points[l] of the K points."""
    return Call(value, level_shapes(shapes), coord, weight, tuple(int(count) for count in points))
