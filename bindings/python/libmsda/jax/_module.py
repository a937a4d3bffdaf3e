"""MSDeformAttn: multi-scale deformable attention with its four linear layers, for flax.nnx."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

try:
    from flax import nnx
except ImportError as error:
    raise ImportError(f"libmsda.jax.MSDeformAttn needs flax, which is not there: {error}") from None

from .._core.errors import InvalidArgumentError
from .._core.problem import level_pairs
from . import forward_fused


class MSDeformAttn(nnx.Module):
    """The attention module of Deformable DETR on the fused operator.

        attention = MSDeformAttn(256, head_count=8, level_count=4, point_count=4, rngs=nnx.Rngs(0))
        output = attention(query, reference, level_hw, value, position=position)

    Its layers value_proj, sampling_offsets, attention_weights and output_proj are those of
    Deformable-DETR's module; a kernel is the transposed weight there.

    embed_dim    channels of query, value and output
    head_count   heads; embed_dim is a multiple of it
    level_count  feature levels
    point_count  sampling points of a head on each level
    rngs         of the layers' first parameters, as flax.nnx.Linear takes it
    dtype        of the products and of the output; None: that of inputs and parameters together
    param_dtype  of the layers' parameters

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
        rngs: nnx.Rngs,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
    ):
        if min(embed_dim, head_count, level_count, point_count) < 1 or embed_dim % head_count:
            raise InvalidArgumentError(
                f"embed_dim, head_count, level_count, point_count are {embed_dim}, {head_count}, "
                f"{level_count}, {point_count}: must be positive, embed_dim a multiple of head_count"
            )
        self.sizes = head_count, level_count, point_count
        points = math.prod(self.sizes)

        def linear(columns: int, kernel: Any, bias: Any = nnx.initializers.zeros) -> nnx.Linear:
            return nnx.Linear(
                embed_dim,
                columns,
                rngs=rngs,
                dtype=dtype,
                param_dtype=param_dtype,
                kernel_init=kernel,
                bias_init=bias,
            )

        random, zeros = nnx.initializers.xavier_uniform(), nnx.initializers.zeros
        self.value_proj = linear(embed_dim, random)
        self.sampling_offsets = linear(points * 2, zeros, self._first_offsets)
        self.attention_weights = linear(points, zeros)
        self.output_proj = linear(embed_dim, random)

    def _first_offsets(self, _key: Any, shape: tuple[int, ...], dtype: Any) -> jax.Array:
        """Head m looks in direction m of a circle, its point p at p + 1 pixels, on all levels alike."""
        heads, levels, points = self.sizes
        turn = jnp.arange(heads) * (2 * math.pi / heads)
        direction = jnp.stack([jnp.cos(turn), jnp.sin(turn)], -1)
        direction /= jnp.abs(direction).max(-1, keepdims=True)
        offsets = direction[:, None, None] * jnp.arange(1, points + 1)[:, None]
        return jnp.broadcast_to(offsets, (heads, levels, points, 2)).reshape(shape).astype(dtype)

    def __call__(
        self,
        query: jax.Array,
        reference: jax.Array,
        level_hw: Sequence[Sequence[int]],
        value: jax.Array | None = None,
        *,
        position: jax.Array | None = None,
        padding_mask: jax.Array | None = None,
    ) -> jax.Array:
        """Returns the output [B,Q,C].

        query         [B,Q,C]
        reference     [B,Q,L,2] points or [B,Q,L,4] boxes (cx, cy, w, h), 0 to 1 over the picture;
                      [B,Q,1,...] counts for every level
        level_hw      (H, W) of each level, as Python integers
        value         [B,S,C], the levels one after another; None: query
        position      [B,Q,C], added to query for offsets and weights, not for value
        padding_mask  [B,S], True where a token of value counts as zero

        Locations and softmax are computed in float32, or in float64 where an input has it. Raises
        libmsda.InvalidArgumentError (a ValueError) that names the argument, its shape and what is allowed.
        """
        levels = level_pairs(level_hw)
        heads, level_count, point_count = self.sizes
        if len(levels) != level_count:
            raise InvalidArgumentError(f"level_hw has {len(levels)} levels: must have {level_count}")
        source = query if value is None else value
        channels = self.value_proj.in_features
        for name, array in (("query", query), ("value", source)):
            if array.ndim != 3 or array.shape[2] != channels:
                raise InvalidArgumentError(
                    f"{name} has shape {array.shape}: must be [any, any, {channels}]"
                )
        values = self.value_proj(source)
        if padding_mask is not None:
            values = jnp.where(padding_mask[..., None], 0, values)
        asked = query if position is None else query + position
        offset, logit = self.sampling_offsets(asked), self.attention_weights(asked)
        dtype = jnp.promote_types(jnp.promote_types(offset.dtype, reference.dtype), jnp.float32)
        points = (*query.shape[:2], heads, level_count, point_count)
        output = forward_fused(
            values.reshape(*values.shape[:2], heads, -1),
            levels,
            reference.astype(dtype),
            offset.astype(dtype).reshape(*points, 2),
            logit.astype(dtype).reshape(points),
        )
        return self.output_proj(output.reshape(*query.shape[:2], -1))
