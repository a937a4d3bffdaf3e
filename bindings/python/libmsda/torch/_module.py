"""MSDeformAttn: multi-scale deformable attention with its four linear layers, one node of autograd."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from .._core.errors import InvalidArgumentError
from .._core.problem import level_pairs
from ._attend import attend, attend_backward, attend_backward_, attend_with_weights, parts, weights_dtype

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
        layers = [self.get_submodule(name) for name in LAYERS]
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
        call = _Call(heads, flat, dtype, return_weights)
        found = _Node.apply(call, query, position, value, reference, padding_mask, *parameters)
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
    device = query.device.type
    if torch.is_autocast_enabled(device) and weight.dtype != torch.float64:
        return torch.get_autocast_dtype(device)
    for name, tensor in (("query", query), ("value", source)):
        if tensor.dtype != weight.dtype:
            raise InvalidArgumentError(
                f"{name}.dtype is {tensor.dtype}: must be {weight.dtype}, as the module's weights are"
            )
    return weight.dtype


class _Call(NamedTuple):
    head_count: int
    level_hw: list[int]  # H and W in turn
    dtype: torch.dtype  # of products
    return_weights: bool


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The tensor in that type, packed: what products read fastest."""
    if tensor.dtype == dtype:
        return tensor.contiguous()
    return tensor.to(dtype, memory_format=torch.contiguous_format)


def _asked(
    query: torch.Tensor, position: torch.Tensor | None, dtype: torch.dtype
) -> torch.Tensor:
    """query + position in that type, rounded once."""
    if position is None or query.dtype == dtype:
        return _cast(query if position is None else query + position, dtype)
    return torch.add(query, position, out=query.new_empty(query.shape, dtype=dtype))


def _softmax(logit: torch.Tensor, head_count: int) -> torch.Tensor:
    """[B,Q,M,K] of attend()'s logits, in float32 at least."""
    return logit.unflatten(2, (head_count, -1)).softmax(-1, dtype=weights_dtype(logit))


def _is_cuda(tensor: torch.Tensor) -> bool:
    """Whether kernels of CUDA take a tensor. The fast ones read packed rows of any type where they sum samples, and rows
    of any strides with float32 offsets where they find gradients."""
    return tensor.is_cuda


def _points_of(
    asked: torch.Tensor, weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The points that attend() takes, as one product gives them; or offsets and logits, each packed, of two."""
    return [linear(asked, *of_part) for of_part in zip(weights, biases)]


def _parts_of(points: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Offsets and logits of what _points_of() returns."""
    return points if len(points) == 2 else parts(*points)


# torch.mm() and addmm() give 16-bit matrices of CUDA a float32 result since torch 2.8.
_HAS_OUT_DTYPE = hasattr(torch.ops.aten.mm, "dtype")


def _is_wide(tensor: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether products of a tensor are written in float32, the type wanted, without a cast behind them."""
    if torch.compiler.is_compiling() or not _HAS_OUT_DTYPE:
        return False
    return _is_cuda(tensor) and tensor.dtype.itemsize == 2 and dtype == torch.float32


def _product(tensor: torch.Tensor, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """tensor @ weight, in that type where _is_wide()."""
    if not _is_wide(tensor, dtype):
        return tensor @ weight
    return torch.mm(tensor.flatten(0, 1), weight, out_dtype=dtype).view(*tensor.shape[:2], weight.shape[1])


def _add_product(total: torch.Tensor, tensor: torch.Tensor, weight: torch.Tensor) -> None:
    """Adds tensor @ weight to what _product() gave."""
    if total.dtype == tensor.dtype:
        torch.baddbmm(total, tensor, weight.expand(len(tensor), -1, -1), out=total)
    else:
        total = total.flatten(0, 1)
        torch.ops.aten.addmm.dtype_out(total, tensor.flatten(0, 1), weight, total.dtype, out=total)


class _Node(torch.autograd.Function):
    """Projections and operator. What products give goes to the operator as it is. Saved are the results of
    products and of the operator; what the operator makes of them (locations, softmax), sums and casts of
    the inputs are made again."""

    @staticmethod
    def forward(
        ctx: Any,
        call: _Call,
        query: torch.Tensor,
        position: torch.Tensor | None,
        value: torch.Tensor | None,
        reference: torch.Tensor,
        padding_mask: torch.Tensor | None,
        *parameters: torch.Tensor,
    ) -> Any:
        dtype = call.dtype
        products = 4 if _is_cuda(query) else 3
        weights, biases = (_of_products(given, dtype, products) for given in (parameters[::2], parameters[1::2]))
        values = linear(_cast(query if value is None else value, dtype), weights[0], biases[0])
        if padding_mask is not None:
            values.masked_fill_(padding_mask[..., None], 0)
        points = _points_of(_asked(query, position, dtype), weights[1:-1], biases[1:-1])
        given = values, reference, *_parts_of(points), call.level_hw, call.head_count
        sampled, attention = attend_with_weights(*given) if call.return_weights else (attend(*given), None)
        output = linear(sampled, weights[-1], biases[-1])

        ctx.call, ctx.dtype = call, parameters[0].dtype
        ctx.rows = [len(bias) for bias in parameters[1::2]]
        ctx.save_for_backward(
            *(query, position, value, reference, padding_mask, weights[0], weights[-1], values, sampled),
            *(*points, *weights[1:-1]),
        )
        return (output, attention) if call.return_weights else output

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_output: torch.Tensor, grad_weights: torch.Tensor | None = None
    ) -> tuple[Any, ...]:
        query, position, value, reference, padding_mask, *rest = ctx.saved_tensors
        value_weight, output_weight, values, sampled, *rest = rest
        points, point_weights = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        del rest
        released = _release_saved(ctx)  # so that each tensor goes after its last use here
        call, dtype = ctx.call, ctx.call.dtype
        _, query_wanted, position_wanted, value_wanted, reference_wanted, _, *wanted = (
            ctx.needs_input_grad
        )
        train = any(wanted)

        grad_output = _cast(grad_output, dtype)
        ones = _ones(grad_output, ctx.dtype) if train else None
        of_output = _of_layer(grad_output, sampled, ones, ctx.dtype) if train else ()
        del sampled
        grad_sampled = grad_output @ output_weight
        del grad_output
        weights = _softmax(_parts_of(points)[1], call.head_count) if call.return_weights else None
        given = [grad_sampled, values, reference, *points]
        settings = call.level_hw, call.head_count, reference_wanted
        del grad_sampled, values, points
        if released and len(given) == 4:
            grad_points = given[3]
            grad_values, grad_reference = attend_backward_(*given, *settings)
        else:
            given[3:] = _parts_of(given[3:])
            given[3] = _differentiable(given[3])
            grad_values, grad_points, grad_reference = attend_backward(*given, *settings)
        del given
        if call.return_weights:
            inner = (grad_weights * weights).sum(-1, keepdim=True)
            parts(grad_points)[1].add_(((grad_weights - inner) * weights).flatten(2))
        if padding_mask is not None:
            grad_values.masked_fill_(padding_mask[..., None], 0)

        parameters = [None] * 8
        if train:
            of_points = _of_layer(grad_points, _asked(query, position, dtype), ones, ctx.dtype)
            if grad_values.shape[:2] != grad_points.shape[:2]:
                ones = _ones(grad_values, ctx.dtype)
            source = query if value is None else value
            of_value = _of_layer(grad_values, _cast(source, dtype), ones, ctx.dtype)
            grads = zip(of_value, of_points, of_output)
            parameters[::2], parameters[1::2] = (_of_layers(one, ctx.dtype, ctx.rows) for one in grads)

        grad_query = grad_position = grad_value = None
        if position_wanted or query_wanted:
            point_weight = point_weights[0] if len(point_weights) == 1 else torch.cat(point_weights)
            grad_query = _product(grad_points, point_weight, query.dtype)
        del grad_points
        if position_wanted:
            grad_position = _cast(grad_query, position.dtype)
        if value is None and query_wanted:
            if position_wanted:
                grad_query = grad_position + _product(grad_values, value_weight, query.dtype)
            else:
                _add_product(grad_query, grad_values, value_weight)
        elif value_wanted:
            grad_value = _cast(_product(grad_values, value_weight, value.dtype), value.dtype)
        if query_wanted:
            grad_query = _cast(grad_query, query.dtype)
        return (
            *(None, grad_query if query_wanted else None, grad_position, grad_value),
            *(grad_reference if reference_wanted else None, None),
            *parameters,
        )


def _differentiable(offset: torch.Tensor) -> torch.Tensor:
    """Offsets in the type that attend_backward()'s kernels read fast."""
    return offset.float() if _is_cuda(offset) and offset.dtype.itemsize < 4 else offset


def _release_saved(ctx: Any) -> bool:
    """Drops what the node saved, and says whether it did: not where the graph is kept for another
    backward, nor while it is compiled."""
    if torch.compiler.is_compiling():
        return False
    ctx.maybe_clear_saved_tensors()
    return not torch._C._autograd._get_current_graph_task_keep_graph()


def _ones(grad: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Ones for _of_layer(): a row of them, or 8 where _is_wide(), which take half the time of one on a GPU."""
    if _is_wide(grad, dtype):
        return grad.new_ones(8, grad.shape[:2].numel())
    return grad.new_ones(grad.shape[:2])


def _of_layer(
    grad: torch.Tensor, rows: torch.Tensor, ones: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of weight and bias of the linear layer that made of `rows` what has gradient `grad`, in that type
    where _is_wide(). A product with ones takes half the time of a sum on a GPU."""
    if not _is_wide(grad, dtype):
        return torch.tensordot(grad, rows, ([0, 1], [0, 1])), torch.tensordot(ones, grad, 2)
    grad = grad.flatten(0, 1)
    of_weight = torch.mm(grad.t(), rows.flatten(0, 1), out_dtype=dtype)
    return of_weight, torch.mm(ones, grad, out_dtype=dtype)[0]


def _of_products(
    parameters: Sequence[torch.Tensor], dtype: torch.dtype, products: int
) -> Sequence[torch.Tensor]:
    """The four layers' weights, or biases, as the products take them, cast together: that of value, those of offsets
    and logits, that of the output. Where there are 3 products, offsets and logits have one."""
    value, offset, logit, output = parameters
    if value.dtype == dtype or not _are_of_one_width(parameters):
        points = [torch.cat([offset, logit])] if products == 3 else [offset, logit]
        return [_cast(one, dtype) for one in (value, *points, output)]
    rows = [len(one) for one in parameters]
    if products == 3:
        rows[1:3] = [rows[1] + rows[2]]
    return torch.cat(parameters).to(dtype).split(rows)


def _of_layers(
    products: Sequence[torch.Tensor], dtype: torch.dtype, rows: Sequence[int]
) -> Sequence[torch.Tensor]:
    """_of_products() back, for gradients; the layers have so many rows."""
    value, points, output = products
    if value.dtype == dtype or not _are_of_one_width(products):
        value, points, output = (_cast(one, dtype) for one in products)
        return [value, *points.split(rows[1:3]), output]
    return torch.cat(products).to(dtype).split(rows)


def _are_of_one_width(matrices: Sequence[torch.Tensor]) -> bool:
    return all(one.shape[1:] == matrices[0].shape[1:] for one in matrices)
