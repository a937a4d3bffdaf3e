"""Models of transformers with random weights, and the sides that the benchmarks of models measure."""

import contextlib
from unittest import mock

import torch
import transformers
from transformers.models.deformable_detr import modeling_deformable_detr
from transformers.models.rt_detr import modeling_rt_detr

import libmsda.compat
import libmsda.torch

LEVELS = [(100, 167), (50, 84), (25, 42), (13, 21)]  # ResNet-50's maps of an image of 800 x 1333
CHANNELS, QUERIES = 256, 300


def deformable_detr(layers, **options):
    """The configuration of a Deformable-DETR on ResNet-50, without dropout."""
    backbone = transformers.ResNetConfig(out_features=["stage2", "stage3", "stage4"])
    return transformers.DeformableDetrConfig(
        backbone_config=backbone, encoder_layers=layers, decoder_layers=layers, dropout=0.0, **options
    )


def level_arguments(levels, features):
    """What encoder and decoder are told of the levels whose tokens features [B, S, C] has."""
    sizes = torch.tensor([height * width for height, width in levels])
    return dict(
        spatial_shapes=torch.tensor(levels, device=features.device),
        spatial_shapes_list=levels,
        level_start_index=(sizes.cumsum(0) - sizes).to(features.device),
        valid_ratios=features.new_ones(len(features), len(levels), 2),
    )


class Transformer(torch.nn.Module):
    """Deformable-DETR's encoder and decoder, without the backbone."""

    def __init__(self, config, levels=LEVELS):
        super().__init__()
        self.encoder = modeling_deformable_detr.DeformableDetrEncoder(config)
        self.decoder = modeling_deformable_detr.DeformableDetrDecoder(config)
        self.levels = levels

    def forward(self, features, positions, queries):
        levels = level_arguments(self.levels, features)
        memory = self.encoder(inputs_embeds=features, spatial_position_embeddings=positions, **levels)
        return self.decoder(
            inputs_embeds=queries,
            object_queries_position_embeddings=queries,
            encoder_hidden_states=memory.last_hidden_state,
            reference_points=queries[..., :2].sigmoid(),
            **levels,
        ).last_hidden_state

    def inputs(self, batch, device="cpu"):
        tokens = sum(height * width for height, width in self.levels)
        counts = dict(features=tokens, positions=tokens, queries=QUERIES)
        return {name: torch.randn(batch, count, CHANNELS, device=device) for name, count in counts.items()}


class Constant(torch.autograd.Function):
    """In the place of the operator: ones, with gradients of zero."""

    @staticmethod
    def forward(ctx, value, coord, weight):
        ctx.save_for_backward(value, coord, weight)
        return value.new_ones(*coord.shape[:2], value.shape[2] * value.shape[3])

    @staticmethod
    def backward(ctx, _grad_output):
        return tuple(torch.zeros_like(tensor) for tensor in ctx.saved_tensors)


def constant(_layer, value, _shapes, _shapes_list, _starts, coord, weight, _step):
    return Constant.apply(value, coord, weight)


@contextlib.contextmanager
def no_operator():
    """A model whose operator returns a constant: what any replacement of the operator can save at most."""
    with contextlib.ExitStack() as stack:
        for modeling in (modeling_deformable_detr, modeling_rt_detr):
            stack.enter_context(mock.patch.object(modeling.MultiScaleDeformableAttention, "forward", constant))
        yield


def sides(model):
    """Contexts in which the model runs, by name."""
    return {
        "stock": contextlib.nullcontext,
        "compat": libmsda.compat.transformers,
        "module": lambda: libmsda.torch.from_module(model),
        "no operator": no_operator,
    }


def outputs_of(output):
    """The floating-point tensors of a model's output."""
    if isinstance(output, torch.Tensor):
        return [output] if output.is_floating_point() else []
    items = output.values() if isinstance(output, dict) else output if isinstance(output, (list, tuple)) else ()
    return [tensor for item in items for tensor in outputs_of(item)]


def forward(model, inputs):
    with torch.no_grad():
        return outputs_of(model(**inputs))


def training_step(model, inputs):
    """Forward and backward of a sum over all outputs; returns these and the gradients."""
    model.zero_grad(set_to_none=True)
    outputs = [tensor for tensor in outputs_of(model(**inputs)) if tensor.requires_grad]
    sum(tensor.square().clamp(max=1e3).mean() for tensor in outputs).backward()
    return [*outputs, *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]


WORKS = {work.__name__: work for work in (forward, training_step)}
