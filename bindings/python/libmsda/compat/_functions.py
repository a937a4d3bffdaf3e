"""Python functions of other projects that are the operator in PyTorch, found by name in every imported module.

| function | projects |
|---|---|
| multi_scale_deformable_attn_pytorch | mmcv and onedl-mmcv, Ultralytics RT-DETR, GroundingDINO, detrex |
| ms_deform_attn_core_pytorch | rf-detr |
"""

import inspect
import sys
from types import FunctionType
from typing import Any

from . import _operator
from ._patch import Target, replacement


def targets() -> list[Target]:
    """Every imported module's reference to one of the functions."""
    found = []
    for module in list(sys.modules.values()):
        for name, read in _KNOWN.items():
            function = getattr(module, "__dict__", {}).get(name)
            if isinstance(function, FunctionType) and _parameters(function) == _parameters(read):
                found.append(Target(module, name, replacement(read)))
    return found


def _parameters(function: FunctionType) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def _read_by_token(value: Any, value_spatial_shapes: Any, sampling_locations: Any, attention_weights: Any) -> _operator.Call:
    """value [B,S,M,D]"""
    return _operator.call_of_levels(value, value_spatial_shapes, sampling_locations, attention_weights)


def _read_by_channel(
    value: Any,
    value_spatial_shapes: Any,
    sampling_locations: Any,
    attention_weights: Any,
    value_spatial_shapes_hw: Any = None,
) -> _operator.Call:
    """value [B,M,D,S]"""
    shapes = value_spatial_shapes if value_spatial_shapes_hw is None else value_spatial_shapes_hw
    return _operator.call_of_levels(value.permute(0, 3, 1, 2), shapes, sampling_locations, attention_weights)


# The reader of a function, by its name. A function counts as known where its parameters are the reader's.
_KNOWN = {
    "multi_scale_deformable_attn_pytorch": _read_by_token,
    "ms_deform_attn_core_pytorch": _read_by_channel,
}
