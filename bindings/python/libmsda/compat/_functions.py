"""Python functions and autograd Functions of other projects that are the operator, found by name in imported modules.

| name | projects |
|---|---|
| multi_scale_deformable_attn_pytorch | mmcv and onedl-mmcv, Ultralytics RT-DETR, GroundingDINO, detrex |
| ms_deform_attn_core_pytorch | Deformable-DETR, DINO, Mask2Former, rf-detr |
| deformable_attention_core_func | RT-DETR |
| deformable_attention_core_func_v2 | RT-DETR v2, D-FINE, DEIM |
| multi_scale_deformable_attention | transformers: mask2former, oneformer |
| multi_scale_deformable_attention_v2 | transformers: rt_detr_v2, d_fine, deimv2 |
| MSDeformAttnFunction | Deformable-DETR, DINO, Mask2Former |
| MultiScaleDeformableAttnFunction | mmcv and onedl-mmcv, GroundingDINO, detrex |
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from . import _operator
from ._patch import Found, Reader, Site, Target, replacement

_BOUND = "ms_deformable_attn_core"  # where RT-DETR, D-FINE and DEIM keep the function in each instance


# sampling_mode by the method of RT-DETR v2.
_METHODS = {"default": "bilinear", "discrete": "nearest"}


def find(modules: Iterable[Any], found: Found) -> None:
    """Adds the references of the modules to the operator."""
    for module in modules:
        names = getattr(module, "__dict__", {})
        functions = [
            name for name, readers in _FUNCTIONS.items() if name in names and found.add(module, name, names[name], readers)
        ]
        if functions:
            found.targets += [
                Target(layer, _BOUND, _bound(module, functions)) for layer in names.values() if _binds(layer, module)
            ]
        for name in _AUTOGRAD_FUNCTIONS:
            function = names.get(name)
            if isinstance(function, type) and issubclass(function, torch.autograd.Function):
                found.add(function, "apply", function.forward, (_read_as_compiled,), _applied, ("ctx",))


def _read(value: Any, value_spatial_shapes: Any, sampling_locations: Any, attention_weights: Any) -> _operator.Call | str:
    return _operator.call_of(value, value_spatial_shapes, sampling_locations, attention_weights)


def _read_with_pairs(  # rf-detr gives the shapes as integers too
    value: Any,
    value_spatial_shapes: Any,
    sampling_locations: Any,
    attention_weights: Any,
    value_spatial_shapes_hw: Any = None,
) -> _operator.Call | str:
    shapes = value_spatial_shapes if value_spatial_shapes_hw is None else value_spatial_shapes_hw
    return _operator.call_of(value, shapes, sampling_locations, attention_weights)


def _read_ragged(
    value: Any,
    value_spatial_shapes: Any,
    sampling_locations: Any,
    attention_weights: Any,
    num_points_list: Any,
    method: str = "default",
) -> _operator.Call | str:
    mode = _METHODS.get(method)
    if mode is None:
        return f"method={method!r}; libmsda knows {', '.join(map(repr, _METHODS))}"
    if mode == "nearest" and sampling_locations.dtype.itemsize < 4:
        dtype = str(sampling_locations.dtype).removeprefix("torch.")
        return f"method={method!r} rounds {dtype} positions to {dtype}, libmsda to float32"
    return _operator.call_of(
        value, value_spatial_shapes, sampling_locations, attention_weights, num_points_list, sampling_mode=mode
    )


def _read_ragged_of_layout(  # DEIM says how value is laid out, which call_of() sees
    value: Any,
    value_spatial_shapes: Any,
    sampling_locations: Any,
    attention_weights: Any,
    num_points_list: Any,
    method: str = "default",
    value_shape: str = "default",
) -> _operator.Call | str:
    return _read_ragged(value, value_spatial_shapes, sampling_locations, attention_weights, num_points_list, method)


def _read_as_compiled(
    value: Any,
    value_spatial_shapes: Any,
    value_level_start_index: Any,
    sampling_locations: Any,
    attention_weights: Any,
    im2col_step: Any,
) -> _operator.Call | str:
    return _operator.call_of(
        value, value_spatial_shapes, sampling_locations, attention_weights, level_start=value_level_start_index
    )


# The readers of a function, by its name: it is taken where its parameters are those of one of them.
_FUNCTIONS: dict[str, tuple[Reader, ...]] = {
    "multi_scale_deformable_attn_pytorch": (_read,),
    "ms_deform_attn_core_pytorch": (_read, _read_with_pairs),
    "deformable_attention_core_func": (_read,),
    "deformable_attention_core_func_v2": (_read_ragged, _read_ragged_of_layout),
    "multi_scale_deformable_attention": (_read,),
    "multi_scale_deformable_attention_v2": (_read_ragged,),
}
_AUTOGRAD_FUNCTIONS = ("MSDeformAttnFunction", "MultiScaleDeformableAttnFunction")


def _applied(read: Reader) -> Callable[[Site, Any], Any]:
    """A Target's make() for `apply` of an autograd Function; Functions derived from it keep theirs."""

    def make(site: Site, _stock: Any) -> Any:
        owner = site.target.owner
        ours = replacement(read)(site, owner.apply)

        def apply(function: Any, *args: Any) -> Any:
            return ours(*args) if function is owner else super(owner, function).apply(*args)

        return classmethod(apply)

    return make


def _binds(layer: Any, module: Any) -> bool:
    """Whether `layer` is a class of the module whose __init__ keeps a function in its instances."""
    if not isinstance(layer, type) or layer.__module__ != module.__name__:
        return False
    code = getattr(vars(layer).get("__init__"), "__code__", None)
    return code is not None and _BOUND in code.co_names


def _bound(module: Any, functions: list[str]) -> Callable[[Site, Any], Any]:
    """A property that answers with the module's functions, ours while patched, for instances that keep stock's.

    It comes before the instance's own attribute, so instances made before the patch run ours, and those made during
    the patch keep stock's: no instance has to be found or mended.
    """

    def make(_site: Site, _stock: Any) -> property:
        pairs = [(vars(module)[name].__wrapped__, vars(module)[name]) for name in functions]

        def get(layer: Any) -> Any:
            if _BOUND not in vars(layer):
                raise AttributeError(_BOUND)
            kept = vars(layer)[_BOUND]
            for stock, ours in pairs:
                kept = _exchanged(kept, stock, ours)
            return kept

        def set_(layer: Any, function: Any) -> None:
            for stock, ours in pairs:
                function = _exchanged(function, ours, stock)
            vars(layer)[_BOUND] = function

        return property(get, set_)

    return make


def _exchanged(function: Any, old: Any, new: Any) -> Any:
    """`new` in the place of `old`, also in a functools.partial of it."""
    if function is old:
        return new
    if isinstance(function, functools.partial) and function.func is old:
        return functools.partial(new, *function.args, **function.keywords)
    return function
