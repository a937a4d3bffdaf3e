"""Level shapes as projects give them: as integers, or in a tensor."""

import weakref
from collections.abc import Sequence
from typing import Any

import torch

Known = tuple["weakref.ref[torch.Tensor]", int, list[Any]]

_read_back: dict[int, Known] = {}


def level_shapes(shapes: Any) -> tuple[tuple[int, int], ...]:
    """(H, W) of each level, of a sequence of pairs or of a tensor [L,2]."""
    return tuple([(int(height), int(width)) for height, width in elements(shapes)])


def elements(given: Any) -> Sequence[Any]:
    """A sequence as it is, or what is in a tensor.

    A tensor on a GPU has to be read back, which waits for the GPU: once for each tensor, not once for
    each layer."""
    if not isinstance(given, torch.Tensor):
        return given
    known = _read_back.get(id(given))
    if known is None or known[0]() is not given or known[1] != given._version:
        key = id(given)
        forget = lambda reference: _forget(key, reference)
        known = weakref.ref(given, forget), given._version, given.tolist()
        _read_back[key] = known
    return known[2]


def _forget(key: int, reference: "weakref.ref[torch.Tensor]") -> None:
    known = _read_back.get(key)
    if known is not None and known[0] is reference:
        del _read_back[key]
