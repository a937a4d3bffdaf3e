"""Modules in the shape of the projects that libmsda.compat knows: their names, signatures and ways to hold the operator.

Each install function puts modules into sys.modules, for the length of a test, and returns layer() -> a new instance of
the project's attention, without projections: layer(value, coord, weight) is [B,Q,M*D]. The arithmetic is transformers'.
"""

import functools
import sys
import types

import torch
from transformers.models.d_fine.modeling_d_fine import multi_scale_deformable_attention_v2 as stock_ragged
from transformers.models.mask2former.modeling_mask2former import multi_scale_deformable_attention as stock_even

LEVELS = [(6, 5), (3, 4)]
POINTS = 3  # of each level
STARTS = [0, 30]


def stock(value, shapes, coord, weight):
    """The operator in PyTorch's operations: value [B,S,M,D], coord [B,Q,M,L,P,2], weight of as many points."""
    pairs = [(int(height), int(width)) for height, width in shapes]
    return stock_even(value, pairs, coord, weight.reshape(coord.shape[:-1]))


class Compiled(types.ModuleType):
    """A compiled extension that, as the projects' own, has no code for the CPU, unless `on_cpu`."""

    def __init__(self, on_cpu=False, in_place=False):
        super().__init__("compiled")
        self.on_cpu, self.in_place, self.version = on_cpu, in_place, 7

    def ms_deform_attn_forward(self, value, shapes, starts, coord, weight, im2col_step):
        if not self.on_cpu:
            raise RuntimeError("Not implemented on the CPU")
        return stock(value, shapes, coord, weight)

    def ms_deform_attn_backward(self, value, shapes, starts, coord, weight, grad_output, *rest, **named):
        if not self.on_cpu:
            raise RuntimeError("Not implemented on the CPU")
        leaves = [tensor.detach().requires_grad_() for tensor in (value, coord, weight)]
        with torch.enable_grad():
            found = torch.autograd.grad(stock(leaves[0], shapes, *leaves[1:]), leaves, grad_output)
        if not self.in_place:
            return found
        for place, gradient in zip(rest, found):
            place.copy_(gradient)


def module(monkeypatch, name, **attributes):
    """A module of that name in sys.modules, whose functions and classes say that they are from it."""
    made = types.ModuleType(name)
    for attribute, value in attributes.items():
        setattr(made, attribute, value)
        if isinstance(value, (type, types.FunctionType)):
            value.__module__ = name
    monkeypatch.setitem(sys.modules, name, made)
    return made


def autograd_function(name, extension, in_place=False):
    """The autograd Function of that name over extension(), as it is looked up at each call."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx, value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights, im2col_step
        ):
            tensors = value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights
            ctx.save_for_backward(*tensors)
            return extension().ms_deform_attn_forward(*tensors, im2col_step=im2col_step)

        @staticmethod
        def backward(ctx, grad_output):
            value, _shapes, _starts, coord, weight = tensors = ctx.saved_tensors
            if in_place:
                found = [torch.zeros_like(tensor) for tensor in (value, coord, weight)]
                extension().ms_deform_attn_backward(*tensors, grad_output.contiguous(), *found, im2col_step=64)
            else:
                found = extension().ms_deform_attn_backward(*tensors, grad_output, 64)
            return found[0], None, None, found[1], found[2], None

    Function.__name__ = Function.__qualname__ = name
    return Function


def by_level(value):
    """What D-FINE and DEIM give: [B,M,D,H*W] for each level, views of value."""
    return value.permute(0, 2, 3, 1).split([height * width for height, width in LEVELS], dim=-1)


def from_levels(levels):
    return torch.cat(levels, -1).permute(0, 3, 1, 2)


def _with_extension(monkeypatch, name, attribute, in_place, extension):
    """mmcv, GroundingDINO and detrex: a Function on the GPU and a PyTorch function on the CPU."""

    def multi_scale_deformable_attn_pytorch(value, value_spatial_shapes, sampling_locations, attention_weights):
        return stock(value, value_spatial_shapes, sampling_locations, attention_weights)

    made = module(
        monkeypatch,
        name,
        multi_scale_deformable_attn_pytorch=multi_scale_deformable_attn_pytorch,
        MultiScaleDeformableAttnFunction=autograd_function(
            "MultiScaleDeformableAttnFunction", lambda: getattr(made, attribute), in_place
        ),
        **{attribute: extension or Compiled(in_place=in_place)},
    )

    class MultiScaleDeformableAttention(torch.nn.Module):
        def forward(self, value, coord, weight, as_on_gpu=False):
            shapes, starts = torch.tensor(LEVELS), torch.tensor(STARTS)
            if as_on_gpu:
                return made.MultiScaleDeformableAttnFunction.apply(value, shapes, starts, coord, weight, 64)
            return made.multi_scale_deformable_attn_pytorch(value, shapes, coord, weight)

    return MultiScaleDeformableAttention


def mmcv(monkeypatch, extension=None):
    return _with_extension(monkeypatch, "mmcv.ops.multi_scale_deform_attn", "ext_module", True, extension)


def groundingdino(monkeypatch, extension=None):
    return _with_extension(monkeypatch, "groundingdino.models.GroundingDINO.ms_deform_attn", "_C", False, extension)


def detrex(monkeypatch, extension=None):
    return _with_extension(monkeypatch, "detrex.layers.multi_scale_deform_attn", "_C", False, extension)


def deformable_detr(monkeypatch):
    """Deformable-DETR, DINO, Mask2Former: the module MultiScaleDeformableAttention has to be there at import."""
    import MultiScaleDeformableAttention as compiled

    def ms_deform_attn_core_pytorch(value, value_spatial_shapes, sampling_locations, attention_weights):
        return stock(value, value_spatial_shapes, sampling_locations, attention_weights)

    made = module(
        monkeypatch,
        "models.ops.functions.ms_deform_attn_func",
        ms_deform_attn_core_pytorch=ms_deform_attn_core_pytorch,
        MSDeformAttnFunction=autograd_function("MSDeformAttnFunction", lambda: compiled),
    )
    module(monkeypatch, "models.ops.functions").MSDeformAttnFunction = made.MSDeformAttnFunction

    class MSDeformAttn(torch.nn.Module):
        def forward(self, value, coord, weight, as_core=False):
            if as_core:
                return made.ms_deform_attn_core_pytorch(value, torch.tensor(LEVELS), coord, weight)
            tensors = value, torch.tensor(LEVELS), torch.tensor(STARTS), coord, weight
            return sys.modules["models.ops.functions"].MSDeformAttnFunction.apply(*tensors, 64)

    return MSDeformAttn


def ultralytics(monkeypatch):
    """The points of all levels on one axis; the function is in two modules."""

    def multi_scale_deformable_attn_pytorch(value, value_spatial_shapes, sampling_locations, attention_weights):
        coord = sampling_locations.unflatten(3, (len(value_spatial_shapes), -1))
        return stock(value, value_spatial_shapes, coord, attention_weights)

    module(monkeypatch, "ultralytics.nn.modules.utils", multi_scale_deformable_attn_pytorch=multi_scale_deformable_attn_pytorch)
    user = module(monkeypatch, "ultralytics.nn.modules.transformer")
    user.multi_scale_deformable_attn_pytorch = multi_scale_deformable_attn_pytorch

    class MSDeformAttn(torch.nn.Module):
        def forward(self, value, coord, weight):
            return user.multi_scale_deformable_attn_pytorch(value, LEVELS, coord.flatten(3, 4), weight.flatten(3))

    return MSDeformAttn


def rf_detr(monkeypatch):
    """value [B,M,D,S]."""

    def ms_deform_attn_core_pytorch(
        value, value_spatial_shapes, sampling_locations, attention_weights, value_spatial_shapes_hw=None
    ):
        shapes = value_spatial_shapes if value_spatial_shapes_hw is None else value_spatial_shapes_hw
        if sampling_locations.dim() == 5:
            sampling_locations = sampling_locations.unflatten(3, (len(shapes), -1))
        return stock(value.permute(0, 3, 1, 2), shapes, sampling_locations, attention_weights)

    name = "rfdetr.models.ops.functions.ms_deform_attn_func"
    made = module(monkeypatch, name, ms_deform_attn_core_pytorch=ms_deform_attn_core_pytorch)

    class MSDeformAttn(torch.nn.Module):
        def forward(self, value, coord, weight):
            value = value.permute(0, 2, 3, 1).contiguous()
            shapes = torch.tensor(LEVELS)
            return made.ms_deform_attn_core_pytorch(value, shapes, coord, weight.flatten(3), value_spatial_shapes_hw=LEVELS)

    return MSDeformAttn


def rt_detr(monkeypatch):
    """The function is kept in each instance."""

    def deformable_attention_core_func(value, value_spatial_shapes, sampling_locations, attention_weights):
        return stock(value, value_spatial_shapes, sampling_locations, attention_weights)

    class MSDeformableAttention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.ms_deformable_attn_core = sys.modules["src.zoo.rtdetr.rtdetr_decoder"].deformable_attention_core_func

        def forward(self, value, coord, weight):
            return self.ms_deformable_attn_core(value, LEVELS, coord, weight)

    user = module(monkeypatch, "src.zoo.rtdetr.rtdetr_decoder", MSDeformableAttention=MSDeformableAttention)
    user.deformable_attention_core_func = module(
        monkeypatch, "src.zoo.rtdetr.utils", deformable_attention_core_func=deformable_attention_core_func
    ).deformable_attention_core_func
    return MSDeformableAttention


def rt_detr_v2(monkeypatch):
    def deformable_attention_core_func_v2(
        value, value_spatial_shapes, sampling_locations, attention_weights, num_points_list, method="default"
    ):
        assert method == "default"
        return stock_ragged(value, value_spatial_shapes, sampling_locations, attention_weights, num_points_list)

    return _with_partial(monkeypatch, "src.zoo.rtdetr", deformable_attention_core_func_v2, lambda value: value)


def d_fine_repository(monkeypatch):
    """The function is kept in each instance, in a functools.partial; value comes level by level."""

    def deformable_attention_core_func_v2(
        value, value_spatial_shapes, sampling_locations, attention_weights, num_points_list, method="default"
    ):
        rest = value_spatial_shapes, sampling_locations, attention_weights, num_points_list
        return stock_ragged(from_levels(value), *rest)

    return _with_partial(monkeypatch, "src.zoo.dfine", deformable_attention_core_func_v2, by_level)


def deim(monkeypatch, value_shape="default"):
    def deformable_attention_core_func_v2(
        value,
        value_spatial_shapes,
        sampling_locations,
        attention_weights,
        num_points_list,
        method="default",
        value_shape="default",
    ):
        rest = value_spatial_shapes, sampling_locations, attention_weights, num_points_list
        return stock_ragged(from_levels(value) if value_shape == "default" else value, *rest)

    layout = by_level if value_shape == "default" else lambda value: value
    return _with_partial(monkeypatch, "engine.deim", deformable_attention_core_func_v2, layout, value_shape=value_shape)


def _with_partial(monkeypatch, package, function, layout, **options):
    class MSDeformableAttention(torch.nn.Module):
        def __init__(self, method="default"):
            super().__init__()
            kept = sys.modules[f"{package}.decoder"].deformable_attention_core_func_v2
            self.ms_deformable_attn_core = functools.partial(kept, method=method, **options)

        def forward(self, value, coord, weight):
            points = [POINTS] * len(LEVELS)
            return self.ms_deformable_attn_core(layout(value), LEVELS, coord.flatten(3, 4), weight.flatten(3), points)

    user = module(monkeypatch, f"{package}.decoder", MSDeformableAttention=MSDeformableAttention)
    utilities = module(monkeypatch, f"{package}.utils", deformable_attention_core_func_v2=function)
    user.deformable_attention_core_func_v2 = utilities.deformable_attention_core_func_v2
    return MSDeformableAttention
