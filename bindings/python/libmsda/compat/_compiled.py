"""Compiled extensions of other projects: modules with ms_deform_attn_forward and ms_deform_attn_backward.

| where a project looks for it | projects |
|---|---|
| module MultiScaleDeformableAttention | Deformable-DETR, DINO, Mask2Former, OneFormer |
| _C of groundingdino.models.GroundingDINO.ms_deform_attn | GroundingDINO |
| ext_module of mmcv.ops.multi_scale_deform_attn, which fills gradients that it is given | mmcv, onedl-mmcv |
"""

import sys
from types import ModuleType
from typing import Any

from . import _operator
from ._patch import Site, Target, answer

NAME = "MultiScaleDeformableAttention"
_GROUNDINGDINO = "groundingdino.models.GroundingDINO.ms_deform_attn"
_MMCV = "mmcv.ops.multi_scale_deform_attn"


def targets() -> list[Target]:
    """Targets in projects that are imported."""
    found = []
    for name, attribute in ((_GROUNDINGDINO, "_C"), (_MMCV, "ext_module")):
        if module := sys.modules.get(name):
            found.append(Target(module, attribute, _Extension))
    return found


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
    """What the compiled extensions export, by libmsda."""

    def __init__(self, site: Site, stock: Any):
        super().__init__(NAME, __doc__)
        self._site, self._stock = site, stock

    def ms_deform_attn_forward(
        self, value: Any, shapes: Any, level_start: Any, coord: Any, weight: Any, *rest: Any, **named: Any
    ) -> Any:
        call = _operator.call_of_levels(value, shapes, coord, weight)
        given = (value, shapes, level_start, coord, weight, *rest)
        return answer(self._site, call, lambda: self._stock_function("ms_deform_attn_forward", call)(*given, **named))

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
        call = _operator.call_of_levels(value, shapes, coord, weight)
        if call.refusal() is not None:
            given = (value, shapes, level_start, coord, weight, grad_output, *rest)
            return self._stock_function("ms_deform_attn_backward", call)(*given, **named)
        gradients = call.backward(grad_output)
        if len(rest) < len(gradients):  # rest is im2col_step
            return gradients
        for given, gradient in zip(rest, gradients):
            given.copy_(gradient.view_as(given))
        return None

    def _stock_function(self, name: str, call: _operator.Call) -> Any:
        if self._stock is None:
            raise RuntimeError(f"{NAME}.{name}: {call.refusal()}, and no compiled extension is there to take the call")
        return getattr(self._stock, name)
