"""Attention modules as other projects write them, and what a call of a module calls and allocates."""

import torch
import torch.nn.functional as F
import transformers.models.deformable_detr.modeling_deformable_detr as deformable_detr
from torch import nn
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile
from transformers import DeformableDetrConfig, ResNetConfig

LEVELS = ((6, 5), (3, 2))


def of_transformers(embed_dim=16, heads=2, points=3, levels=2):
    config = DeformableDetrConfig(
        backbone_config=ResNetConfig(out_features=["stage2", "stage3", "stage4"]),
        d_model=embed_dim,
        num_feature_levels=levels,
    )
    return randomized(deformable_detr.DeformableDetrMultiscaleDeformableAttention(config, heads, points))


def randomized(module):
    """The module with random parameters: its own are 0 in places, and offsets that end on a line of
    pixels, where the gradient has a jump, are of the whole pixel."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module


class Attention(nn.Module):
    """The layers that all projects have, and their sum over samples."""

    def __init__(self, embed_dim=16, heads=2, levels=2, points=3):
        super().__init__()
        self.num_heads, self.num_levels, self.num_points = heads, levels, points
        self.sampling_offsets = nn.Linear(embed_dim, heads * levels * points * 2)
        self.attention_weights = nn.Linear(embed_dim, heads * levels * points)
        self.value_proj = nn.Linear(embed_dim, embed_dim)
        self.output_proj = nn.Linear(embed_dim, embed_dim)
        randomized(self)

    def attend(self, query, reference, value, shapes, mask):
        heads = self.num_heads, self.num_levels, self.num_points
        value = self.value_proj(value)
        if mask is not None:
            value = value.masked_fill(mask[..., None], 0.0)
        offsets = self.sampling_offsets(query).view(*query.shape[:2], *heads, 2)
        weights = self.attention_weights(query).view(*query.shape[:2], heads[0], -1).softmax(-1)
        if reference.shape[-1] == 2:
            unit = 1 / shapes.flip(1)[:, None].to(query)
        else:
            unit = reference[:, :, None, :, None, 2:] * (0.5 / self.num_points)
        places = reference[:, :, None, :, None, :2] + offsets * unit
        maps = value.unflatten(2, (self.num_heads, -1)).split([int(h * w) for h, w in shapes], 1)
        samples = [
            F.grid_sample(
                one.permute(0, 2, 3, 1).flatten(0, 1).unflatten(2, tuple(shape.tolist())),
                2 * places[:, :, :, level].transpose(1, 2).flatten(0, 1) - 1,
                align_corners=False,
            )
            for level, (one, shape) in enumerate(zip(maps, shapes))
        ]
        samples = torch.stack(samples, -2).flatten(-2).unflatten(0, (-1, self.num_heads))
        weighted = samples * weights.transpose(1, 2)[:, :, None]
        return self.output_proj(weighted.sum(-1).flatten(1, 2).transpose(1, 2))


class DeformableDetr(Attention):
    def forward(
        self, query, reference_points, input_flatten, input_spatial_shapes, input_level_start_index, input_padding_mask=None
    ):
        return self.attend(query, reference_points, input_flatten, input_spatial_shapes, input_padding_mask)


class Mmcv(Attention):
    def __init__(self, batch_first=False, dropout=0.1):
        super().__init__()
        self.batch_first, self.dropout = batch_first, nn.Dropout(dropout)

    def forward(
        self,
        query,
        key=None,
        value=None,
        identity=None,
        query_pos=None,
        key_padding_mask=None,
        reference_points=None,
        spatial_shapes=None,
        level_start_index=None,
        **kwargs,
    ):
        value = query if value is None else value
        identity = query if identity is None else identity
        query = query if query_pos is None else query + query_pos
        if not self.batch_first:
            query, value = query.transpose(0, 1), value.transpose(0, 1)
        output = self.attend(query, reference_points, value, spatial_shapes, key_padding_mask)
        return self.dropout(output if self.batch_first else output.transpose(0, 1)) + identity


class Ultralytics(Attention):
    def forward(self, query, refer_bbox, value, value_shapes, value_mask=None):
        return self.attend(query, refer_bbox, value, torch.tensor(value_shapes), value_mask)


def calls_of(work):
    """The operators that `work` calls, views among them, without those that they call in turn."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        work()
    is_operator = lambda event: event.name.startswith(("aten::", "msda::"))

    def is_called_by_another(event):
        parent = event.cpu_parent
        return parent is not None and (is_operator(parent) or is_called_by_another(parent))

    return [one.name for one in profiled.events() if is_operator(one) and not is_called_by_another(one)]


def peak_bytes(work):
    """The most bytes of tensors, workspaces among them, that `work` had at a time beyond those before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        work()
    events, allocations = list(profiled.profiler.kineto_results.experimental_event_tree()), []
    while events:
        event = events.pop()
        events += event.children
        if event.tag == _EventType.Allocation:
            allocations.append((event.start_time_ns, event.extra_fields.alloc_size))
    now = most = 0
    for _time, size in sorted(allocations, key=lambda allocation: allocation[0]):
        now += size
        most = max(most, now)
    return most
