"""Hugging Face transformers: three call shapes, each a copy in every modeling file that has it.

| shape | target | models (transformers 5.24) |
|---|---|---|
| V1 | class MultiScaleDeformableAttention | deformable_detr, grounding_dino, mm_grounding_dino, rt_detr, rf_detr, lw_detr, omdet_turbo, pp_doclayout_v2/v3/v4 |
| FN | function multi_scale_deformable_attention | mask2former, oneformer |
| V2 | function multi_scale_deformable_attention_v2 | rt_detr_v2, d_fine, deimv2 |
"""  # noqa: E501

import sys
from typing import Any

from . import _operator
from ._patch import Site, Target, constant, replacement

_PREFIX = "transformers.models."
_BOUND = "ms_deformable_attn_core"  # where d_fine and deimv2 keep the function in each instance


def targets() -> list[Target]:
    """Targets in the modeling files of transformers that are imported."""
    found: list[Target] = []
    for name, module in list(sys.modules.items()):
        if not name.startswith(_PREFIX) or ".modeling_" not in name:
            continue
        names = vars(module)
        if isinstance(layer := names.get("MultiScaleDeformableAttention"), type):
            found.append(Target(layer, "forward", replacement(_read_v1)))
            if "kernel_layer_name" in vars(layer):  # else kernelize() puts a kernel of the hub in the place of ours
                found.append(Target(layer, "kernel_layer_name", constant(None)))
        if "multi_scale_deformable_attention" in names:
            found.append(Target(module, "multi_scale_deformable_attention", replacement(_read_fn)))
        if stock := names.get("multi_scale_deformable_attention_v2"):
            found.append(Target(module, "multi_scale_deformable_attention_v2", replacement(_read_v2)))
            found += [Target(layer, _BOUND, _bound(module)) for layer in names.values() if _binds(layer, stock)]
    return found


def _read_v1(
    _layer: Any,
    value: Any,
    value_spatial_shapes: Any,
    value_spatial_shapes_list: Any,
    level_start_index: Any,
    sampling_locations: Any,
    attention_weights: Any,
    im2col_step: Any,
) -> _operator.Call:
    return _operator.call_of_levels(value, value_spatial_shapes_list, sampling_locations, attention_weights)


def _read_fn(value: Any, value_spatial_shapes: Any, sampling_locations: Any, attention_weights: Any) -> _operator.Call:
    return _operator.call_of_levels(value, value_spatial_shapes, sampling_locations, attention_weights)


def _read_v2(
    value: Any,
    value_spatial_shapes: Any,
    sampling_locations: Any,
    attention_weights: Any,
    num_points_list: Any,
    method: str = "default",
) -> _operator.Call | str:
    if method != "default":
        return f"method={method!r}; libmsda samples bilinearly"
    return _operator.call_of_ragged_levels(value, value_spatial_shapes, sampling_locations, attention_weights, num_points_list)


def _binds(layer: Any, stock: Any) -> bool:
    """Whether `layer` is a class whose __init__ keeps the function in its instances."""
    if not isinstance(layer, type) or layer.__module__ != stock.__module__:
        return False
    init = vars(layer).get("__init__")
    return init is not None and _BOUND in getattr(init, "__code__", _binds.__code__).co_names


def _bound(module: Any) -> Any:
    """A property that answers with the module's function, ours while patched, for instances that keep stock's.

    It comes before the instance's own attribute, so instances made before the patch run ours, and those made during
    the patch keep stock's: no instance has to be found or mended.
    """

    def make(_site: Site, _stock: Any) -> property:
        ours = module.multi_scale_deformable_attention_v2
        stock = ours.__wrapped__

        def get(layer: Any) -> Any:
            kept = vars(layer)[_BOUND]
            return ours if kept is stock else kept

        def set_(layer: Any, function: Any) -> None:
            vars(layer)[_BOUND] = stock if function is ours else function

        return property(get, set_)

    return make
