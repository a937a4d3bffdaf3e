"""Hugging Face transformers: three call shapes, each a copy in every modeling file that has it.

| shape | target | models (transformers 5.24) |
|---|---|---|
| V1 | class MultiScaleDeformableAttention | deformable_detr, grounding_dino, mm_grounding_dino, rt_detr, rf_detr, lw_detr, omdet_turbo, pp_doclayout_v2/v3/v4 |
| FN | function multi_scale_deformable_attention | mask2former, oneformer |
| V2 | function multi_scale_deformable_attention_v2 | rt_detr_v2, d_fine, deimv2 |

_functions has the last two.
"""  # noqa: E501

import sys
from typing import Any

from . import _functions, _operator
from ._patch import Found, Target, constant


def modules() -> dict[str, Any]:
    """The modeling files that are imported."""
    return {
        name: module
        for name, module in list(sys.modules.items())
        if name.startswith("transformers.models.") and ".modeling_" in name
    }


def find(found: Found) -> None:
    """Adds the targets in the modeling files."""
    for module in modules().values():
        layer = vars(module).get("MultiScaleDeformableAttention")
        if isinstance(layer, type) and found.add(layer, "forward", vars(layer).get("forward"), (_read_v1,)):
            if "kernel_layer_name" in vars(layer):  # else kernelize() puts a kernel of the hub in the place of ours
                found.targets.append(Target(layer, "kernel_layer_name", constant(None)))
    _functions.find(modules().values(), found)


def _read_v1(
    self: Any,
    value: Any,
    value_spatial_shapes: Any,
    value_spatial_shapes_list: Any,
    level_start_index: Any,
    sampling_locations: Any,
    attention_weights: Any,
    im2col_step: Any,
) -> _operator.Call | str:
    return _operator.call_of(value, value_spatial_shapes_list, sampling_locations, attention_weights)
