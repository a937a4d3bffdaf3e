"""MSDeformAttn: multi-scale deformable attention with its four linear layers, one node of autograd."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from .._core.errors import InvalidArgumentError
from .._core.problem import level_pairs
from ._node import Call, Node
from ._wide import is_wide, run_wide

LAYERS = ("value_proj", "sampling_offsets", "attention_weights", "output_proj")


class Sizes(NamedTuple):
    """Heads, levels and points of a level."""

    head_count: int
    level_count: int
    point_count: int

    @property
    def points(self) -> int:
        """Points of a query in all its heads."""
        return math.prod(self)


class MSDeformAttn(nn.Module):
    """The attention module of Deformable DETR.

        attention = MSDeformAttn(256, head_count=8, level_count=4, point_count=4)
        output = attention(query, reference, level_hw, value, position=position)

    It has the layers of Deformable-DETR's, mmcv's and transformers' modules by the same names
    (value_proj, sampling_offsets, attention_weights, output_proj), and loads their state dicts.

    embed_dim    channels of query, value and output
    head_count   heads; embed_dim is a multiple of it
    level_count  feature levels
    point_count  sampling points of a head on each level
    device       of the layers' parameters, as torch.nn.Linear takes it; None: the default device
    dtype        of the layers' parameters; None: the default dtype

    Raises libmsda.InvalidArgumentError (a ValueError) where a number is below 1 or head_count does not
    divide embed_dim.
    """

    def __init__(
        self,
        embed_dim: int = 256,
        head_count: int = 8,
        level_count: int = 4,
        point_count: int = 4,
        *,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        if min(embed_dim, head_count, level_count, point_count) < 1 or embed_dim % head_count:
            raise InvalidArgumentError(
                f"embed_dim, head_count, level_count, point_count are {embed_dim}, {head_count}, "
                f"{level_count}, {point_count}: must be positive, embed_dim a multiple of head_count"
            )
        self._sizes = Sizes(head_count, level_count, point_count)
        layer = lambda rows: nn.Linear(embed_dim, rows, device=device, dtype=dtype)
        self.value_proj = layer(embed_dim)
        self.sampling_offsets = layer(self._sizes.points * 2)
        self.attention_weights = layer(self._sizes.points)
        self.output_proj = layer(embed_dim)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Head m looks in direction m of a circle, its point p at p + 1 pixels, all alike."""
        for layer in (self.value_proj, self.output_proj):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        for layer in (self.sampling_offsets, self.attention_weights):
            nn.init.zeros_(layer.weight)
        nn.init.zeros_(self.attention_weights.bias)
        heads, levels, points = self._sizes
        bias = self.sampling_offsets.bias
        turn = torch.arange(heads, device=bias.device) * (2 * math.pi / heads)
        direction = torch.stack([turn.cos(), turn.sin()], -1)
        direction /= direction.abs().amax(-1, keepdim=True)
        distance = torch.arange(1, points + 1, device=bias.device)
        offsets = direction[:, None, None] * distance[None, None, :, None]
        bias.copy_(offsets.expand(heads, levels, points, 2).reshape(-1))

    def forward(
        self,
        query: torch.Tensor,
        reference: torch.Tensor,
        level_hw: Sequence[Sequence[int]],
        value: torch.Tensor | None = None,
        *,
        position: torch.Tensor | None = None,
        padding_mask: torch.Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        """Returns the output [B,Q,C], or (output, weights [B,Q,M,L,P]) where return_weights is true.

        query         [B,Q,C]
        reference     [B,Q,L,2] points or [B,Q,L,4] boxes (cx, cy, w, h), 0 to 1 over the picture;
                      [B,Q,1,...] counts for every level
        level_hw      (H, W) of each level, as Python integers
        value         [B,S,C], the levels one after another; None: query
        position      [B,Q,C], added to query for offsets and weights, not for value
        padding_mask  [B,S], True where a token of value counts as zero

        Under autocast the products and the operator have its type, locations and softmax float32.
        Gradients of gradients are refused. Raises libmsda.InvalidArgumentError (a ValueError)
        that names the argument, its shape and what is allowed.
        """
        levels = level_pairs(level_hw)
        heads, level_count, _ = self._sizes
        tokens = sum(height * width for height, width in levels)
        source = query if value is None else value
        layers = self.value_proj, self.sampling_offsets, self.attention_weights, self.output_proj
        if len(levels) != level_count:
            raise InvalidArgumentError(f"level_hw has {len(levels)} levels: must have {level_count}")
        _check("query", query, (None, None, layers[1].in_features))
        batch, queries, _ = query.shape
        name = "query, which is the value," if value is None else "value"
        _check(name, source, (batch, tokens, layers[0].in_features))
        if len(reference.shape) == 4 and reference.shape[0] == 1 != batch:
            reference = reference.expand(batch, -1, -1, -1)
        _check("reference", reference, (batch, queries, (1, level_count), (2, 4)))
        if padding_mask is not None:
            _check("padding_mask", padding_mask, (batch, tokens))
        if position is not None and position.shape != query.shape:
            position = position.expand_as(query)
        parameters = [one for layer in layers for one in (layer.weight, layer.bias)]
        dtype = _product_dtype(query, source, parameters[0])
        flat = [number for pair in levels for number in pair]
        call = Call(heads, flat, dtype, return_weights)
        run = run_wide if is_wide(call, (query, position, value), parameters) else Node.apply
        found = run(call, query, position, value, reference, padding_mask, *parameters)
        if not return_weights:
            return found
        output, weights = found
        return output, weights.view(batch, queries, *self._sizes)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # RT-DETR v2 keeps 1 / P of every point beside its layers; point_count says it here.
        if "n_points_scale" not in self._buffers:
            state_dict.pop(prefix + "n_points_scale", None)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return "head_count={}, level_count={}, point_count={}".format(*self._sizes)


def _check(name: str, tensor: torch.Tensor, wanted: tuple[Any, ...]) -> None:
    """Refuses another shape; None allows any length, a tuple the lengths in it."""
    shape = tensor.shape
    fits = len(shape) == len(wanted)
    for length, one in zip(shape, wanted):
        if one is not None:
            fits = fits and (length in one if isinstance(one, tuple) else length == one)
    if not fits:
        words = ["any" if one is None else str(one).replace(",", " or") for one in wanted]
        raise InvalidArgumentError(
            f"{name} has shape {tuple(shape)}: must be [{', '.join(words)}]"
        )


def _product_dtype(
    query: torch.Tensor, source: torch.Tensor, weight: torch.Tensor
) -> torch.dtype:
    device = "cuda" if query.is_cuda else query.device.type  # which makes an object, and a text
    if torch.is_autocast_enabled(device) and weight.dtype != torch.float64:
        return torch.get_autocast_dtype(device)
    for name, tensor in (("query", query), ("value", source)):
        if tensor.dtype != weight.dtype:
            raise InvalidArgumentError(
                f"{name}.dtype is {tensor.dtype}: must be {weight.dtype}, as the module's weights are"
            )
    return weight.dtype
