"""The node of autograd that MSDeformAttn is: its four linear layers and the operator."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from ._attend import attend, attend_backward, attend_backward_, attend_with_weights, parts, weights_dtype


class Call(NamedTuple):
    head_count: int
    level_hw: list[int]  # H and W in turn
    dtype: torch.dtype  # of products
    return_weights: bool


def cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The tensor in that type, packed: what products read fastest."""
    if tensor.dtype == dtype:
        return tensor.contiguous()
    return tensor.to(dtype, memory_format=torch.contiguous_format)


def asked_of(
    query: torch.Tensor, position: torch.Tensor | None, dtype: torch.dtype
) -> torch.Tensor:
    """query + position in that type, rounded once."""
    if position is None or query.dtype == dtype:
        return cast(query if position is None else query + position, dtype)
    return torch.add(query, position, out=query.new_empty(query.shape, dtype=dtype))


def softmax_of(logit: torch.Tensor, head_count: int) -> torch.Tensor:
    """[B,Q,M,K] or [B*Q,M,K] of attend()'s logits, in float32 at least."""
    return logit.unflatten(-1, (head_count, -1)).softmax(-1, dtype=weights_dtype(logit))


def add_to_logits(grad_points: torch.Tensor, grad_weights: torch.Tensor, weights: torch.Tensor) -> None:
    """Adds what the gradient of the softmax `weights`, of their shape, is for the logits of attend()'s points."""
    inner = (grad_weights * weights).sum(-1, keepdim=True)
    parts(grad_points)[1].add_(((grad_weights - inner) * weights).flatten(-2))


def is_cuda(tensor: torch.Tensor) -> bool:
    """Whether kernels of CUDA take a tensor: the fast ones read packed offsets and logits where they sum samples."""
    return tensor.is_cuda


def _points_of(
    asked: torch.Tensor, weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The points that attend() takes, as one product gives them; or offsets and logits, each packed, of two."""
    return [linear(asked, *of_part) for of_part in zip(weights, biases)]


def _parts_of(points: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Offsets and logits of what _points_of() returns."""
    return points if len(points) == 2 else parts(*points)


class Node(torch.autograd.Function):
    """Projections and operator. What products give goes to the operator as it is. Saved are the results of
    products and of the operator; what the operator makes of them (locations, softmax), sums and casts of
    the inputs are made again."""

    @staticmethod
    def forward(
        ctx: Any,
        call: Call,
        query: torch.Tensor,
        position: torch.Tensor | None,
        value: torch.Tensor | None,
        reference: torch.Tensor,
        padding_mask: torch.Tensor | None,
        *parameters: torch.Tensor,
    ) -> Any:
        dtype = call.dtype
        products = 4 if is_cuda(query) else 3
        weights, biases = (_of_products(given, dtype, products) for given in (parameters[::2], parameters[1::2]))
        values = linear(cast(query if value is None else value, dtype), weights[0], biases[0])
        if padding_mask is not None:
            values.masked_fill_(padding_mask[..., None], 0)
        points = _points_of(asked_of(query, position, dtype), weights[1:-1], biases[1:-1])
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
        released = release_saved(ctx)  # so that each tensor goes after its last use here
        call, dtype = ctx.call, ctx.call.dtype
        _, query_wanted, position_wanted, value_wanted, reference_wanted, _, *wanted = (
            ctx.needs_input_grad
        )
        train = any(wanted)

        grad_output = cast(grad_output, dtype)
        ones = grad_output.new_ones(grad_output.shape[:2]) if train else None
        of_output = _of_layer(grad_output, sampled, ones) if train else ()
        del sampled
        grad_sampled = grad_output @ output_weight
        del grad_output
        weights = softmax_of(_parts_of(points)[1], call.head_count) if call.return_weights else None
        given = [grad_sampled, values, reference, *points]
        settings = call.level_hw, call.head_count, reference_wanted
        del grad_sampled, values, points
        if released and len(given) == 4:
            grad_points = given[3]
            grad_values, grad_reference = attend_backward_(*given, *settings)
        else:
            given[3:] = _parts_of(given[3:])
            grad_values, grad_points, grad_reference = attend_backward(*given, *settings)
        del given
        if call.return_weights:
            add_to_logits(grad_points, grad_weights, weights)
        if padding_mask is not None:
            grad_values.masked_fill_(padding_mask[..., None], 0)

        parameters = [None] * 8
        if train:
            of_points = _of_layer(grad_points, asked_of(query, position, dtype), ones)
            if grad_values.shape[:2] != grad_points.shape[:2]:
                ones = grad_values.new_ones(grad_values.shape[:2])
            source = query if value is None else value
            of_value = _of_layer(grad_values, cast(source, dtype), ones)
            grads = zip(of_value, of_points, of_output)
            parameters[::2], parameters[1::2] = (_of_layers(one, ctx.dtype, ctx.rows) for one in grads)

        grad_query = grad_position = grad_value = None
        if position_wanted or query_wanted:
            point_weight = point_weights[0] if len(point_weights) == 1 else torch.cat(point_weights)
            grad_query = grad_points @ point_weight
        del grad_points
        if position_wanted:
            grad_position = cast(grad_query, position.dtype)
        if value is None and query_wanted:
            if position_wanted:
                grad_query = grad_position + grad_values @ value_weight
            else:
                torch.baddbmm(grad_query, grad_values, value_weight.expand(len(grad_values), -1, -1), out=grad_query)
        elif value_wanted:
            grad_value = cast(grad_values @ value_weight, value.dtype)
        if query_wanted:
            grad_query = cast(grad_query, query.dtype)
        return (
            *(None, grad_query if query_wanted else None, grad_position, grad_value),
            *(grad_reference if reference_wanted else None, None),
            *parameters,
        )


def release_saved(ctx: Any) -> bool:
    """Drops what the node saved, and says whether it did: not where the graph is kept for another
    backward, nor while it is compiled."""
    if torch.compiler.is_compiling():
        return False
    ctx.maybe_clear_saved_tensors()
    return not torch._C._autograd._get_current_graph_task_keep_graph()


def _of_layer(grad: torch.Tensor, rows: torch.Tensor, ones: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of weight and bias of the linear layer that made of `rows` what has gradient `grad`. A product with
    ones takes half the time of a sum on a GPU."""
    return torch.tensordot(grad, rows, ([0, 1], [0, 1])), torch.tensordot(ones, grad, 2)


def _of_products(
    parameters: Sequence[torch.Tensor], dtype: torch.dtype, products: int
) -> Sequence[torch.Tensor]:
    """The four layers' weights, or biases, as the products take them, cast together: that of value, those of offsets
    and logits, that of the output. Where there are 3 products, offsets and logits have one."""
    value, offset, logit, output = parameters
    if value.dtype == dtype or not _are_of_one_width(parameters):
        points = [torch.cat([offset, logit])] if products == 3 else [offset, logit]
        return [cast(one, dtype) for one in (value, *points, output)]
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
        value, points, output = (cast(one, dtype) for one in products)
        return [value, *points.split(rows[1:3]), output]
    return torch.cat(products).to(dtype).split(rows)


def _are_of_one_width(matrices: Sequence[torch.Tensor]) -> bool:
    return all(one.shape[1:] == matrices[0].shape[1:] for one in matrices)
