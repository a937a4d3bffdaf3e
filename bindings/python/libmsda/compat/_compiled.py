"""Compiled extensions of other projects: modules with ms_deform_attn_forward and ms_deform_attn_backward.

| where a project looks for it | projects |
|---|---|
| module MultiScaleDeformableAttention | Deformable-DETR, DINO, Mask2Former, OneFormer |
| _C of groundingdino.models.GroundingDINO.ms_deform_attn | GroundingDINO |
| _C of detrex.layers.multi_scale_deform_attn | detrex |
| ext_module of mmcv.ops.multi_scale_deform_attn, which fills gradients that it is given | mmcv, onedl-mmcv |
"""

import sys
from types import ModuleType
from typing import Any

import libmsda

from . import _operator
from ._patch import Found, Site, Target, answer

NAME = "MultiScaleDeformableAttention"
_PLACES = {
    "groundingdino.models.GroundingDINO.ms_deform_attn": "_C",
    "detrex.layers.multi_scale_deform_attn": "_C",
    "mmcv.ops.multi_scale_deform_attn": "ext_module",
}


def find(found: Found) -> None:
    """Adds the targets in projects that are imported."""
    for name, attribute in _PLACES.items():
        if module := sys.modules.get(name):
            found.targets.append(Target(module, attribute, _Extension))


def module_target() -> Target:
    """The module MultiScaleDeformableAttention itself, which need not be installed."""
    present = sys.modules.get(NAME)
    if present is not None and not isinstance(present, _Extension):
        raise ImportError(
            f"{NAME} is imported already, from {getattr(present, '__file__', None) or 'no file'}; libmsda does not "
            "replace it. Remove that package, or start libmsda.compat.compiled_module() before the model is imported"
        )
    return Target(_modules, NAME, _Extension)


class _Modules:
    """sys.modules, with modules as attributes."""

    __name__ = "sys.modules"


_modules = _Modules()
_modules.__dict__ = sys.modules


class _Extension(ModuleType):
    """What the compiled extensions export, by libmsda; everything else by the extension itself, where there is one."""

    def __init__(self, site: Site, stock: Any):
        super().__init__(NAME, __doc__)
        self._site, self._stock = site, stock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stock, name)

    def ms_deform_attn_forward(
        self, value: Any, shapes: Any, level_start: Any, coord: Any, weight: Any, *rest: Any, **named: Any
    ) -> Any:
        given = (value, shapes, level_start, coord, weight)
        return answer(
            self._site,
            lambda: _call_of(*given),
            lambda reason: self._stock_function("ms_deform_attn_forward", reason)(*given, *rest, **named),
        )

    def ms_deform_attn_backward(
        self,
        value: Any,
        shapes: Any,
        level_start: Any,
        coord: Any,
        weight: Any,
        grad_output: Any,
        *rest: Any,
        **named: Any,
    ) -> Any:
        given = (value, shapes, level_start, coord, weight)
        call = _call_of(*given)
        if isinstance(call, _operator.Call):
            try:
                gradients = call.backward(grad_output)
            except (libmsda.InvalidArgumentError, libmsda.UnsupportedError) as error:
                call = str(error)
        if isinstance(call, str):
            return self._stock_function("ms_deform_attn_backward", call)(*given, grad_output, *rest, **named)
        if len(rest) < len(gradients):  # rest is im2col_step
            return gradients
        for place, gradient in zip(rest, gradients):
            place.copy_(gradient.view_as(place))
        return None

    def _stock_function(self, name: str, reason: str) -> Any:
        if self._stock is None:
            raise RuntimeError(f"{NAME}.{name}: {reason}, and no compiled extension is there to take the call")
        return getattr(self._stock, name)


def _call_of(value: Any, shapes: Any, level_start: Any, coord: Any, weight: Any) -> _operator.Call | str:
    return _operator.call_of(value, shapes, coord, weight, level_start=level_start)
