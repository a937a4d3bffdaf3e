"""View: one array as an address, shape, element strides, dtype name and device."""

import math
from typing import NamedTuple

from .._core.problem import PACKED, Strides, packed_strides


class View(NamedTuple):
    """Where an array lies and how."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in elements; None: not a whole number of them
    dtype: str  # as its package names it
    device: int  # CUDA ordinal, or _core.handle.CPU


def element_strides(steps: tuple[int, ...], item_bytes: int) -> tuple[int, ...] | None:
    """Byte strides in elements."""
    if any(step % item_bytes for step in steps):
        return None
    return tuple(step // item_bytes for step in steps)


def addressable(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> Strides | None:
    """Element strides of the first three axes, PACKED where they are so, None where the library
    cannot address the array: inner axes not packed, or a negative stride.

    An axis of length 1 has no stride worth the name; it gets that of a packed array."""
    if 0 in shape:
        return PACKED
    if strides is None:
        return None
    expected = 1
    for length, step in zip(shape[:2:-1], strides[:2:-1]):
        if length > 1 and step != expected:
            return None
        expected *= length
    packed = packed_strides(shape)
    outer = tuple(step if n > 1 else usual for n, step, usual in zip(shape, strides, packed))
    if outer == packed:
        return PACKED
    if min(outer) < 0 or not any(outer):
        return None  # repeated along all three, but 0 0 0 means packed
    return outer


def same_strides(view: View, wanted: Strides) -> bool:
    """Whether an array lies as a plan wants it."""
    return addressable(view.shape, view.strides) == wanted


def extent(shape: tuple[int, ...], strides: Strides) -> int:
    """Elements between the first of an array with these outer strides and the end of its last."""
    return 1 + sum((n - 1) * s for n, s in zip(shape, (*strides, 1))) if math.prod(shape) else 0
