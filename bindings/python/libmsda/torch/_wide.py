"""The node of MSDeformAttn whose products read 16 bits on CUDA, as under autocast, and write float32 gradients.

Its tensors are matrices, a row for each token or query, so that a product is one operator. Casts of the inputs, which take
a tenth of the kernels' time, are saved: they are no larger than the inputs. Gradients of biases come from products with 8
columns of ones, which take half the time of a sum on a GPU, and of a product with one."""

from collections.abc import Sequence
from typing import Any

import torch
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from . import _node
from ._attend import attend_backward_eagerly, attend_eagerly, attend_with_weights
from ._eager import in_functorch
from ._node import Call, add_to_logits, asked_of, cast, release_saved, softmax_of

# torch.mm() and addmm() give 16-bit matrices of CUDA a float32 result since torch 2.8.
_HAS_OUT_DTYPE = hasattr(torch.ops.aten.mm, "dtype")

_is_compiling = torch.compiler.is_compiling


def is_wide(call: Call, inputs: Sequence[torch.Tensor | None], parameters: Sequence[torch.Tensor]) -> bool:
    """Whether run_wide() takes query, position and value with these parameters."""
    if call.dtype.itemsize != 2 or _is_compiling() or in_functorch() or not _HAS_OUT_DTYPE:
        return False
    for one in inputs:
        if one is not None and not (_node.is_cuda(one) and one.numel() > 0 and one.dtype in (call.dtype, torch.float32)):
            return False
    return all(one.dtype == torch.float32 for one in parameters)


def run_wide(*given: Any) -> Any:
    """WideNode.apply(), less what only gradients need."""
    return _apply(*given) if torch.is_grad_enabled() else _compute(*given)[0]


def _compute(
    call: Call,
    query: torch.Tensor,
    position: torch.Tensor | None,
    value: torch.Tensor | None,
    reference: torch.Tensor,
    padding_mask: torch.Tensor | None,
    *parameters: torch.Tensor,
) -> tuple[Any, Sequence[torch.Tensor | None], Sequence[torch.Tensor]]:
    """The result, and what gradients need: rows that layers read, and the rest."""
    weights, biases = _cast_together(parameters, call.dtype)
    source = cast(query if value is None else value, call.dtype).flatten(0, 1)
    values = linear(source, weights[0], biases[0])
    if padding_mask is not None:
        values.masked_fill_(padding_mask.reshape(-1, 1), 0)
    asked = source
    if position is not None or value is not None:
        asked = asked_of(query, position, call.dtype).flatten(0, 1)
    offset, logit = linear(asked, weights[1], biases[1]), linear(asked, weights[2], biases[2])
    given = values, reference, offset, logit, call.level_hw, call.head_count
    sampled, attention = attend_with_weights(*given) if call.return_weights else (attend_eagerly(*given), None)
    output = linear(sampled, weights[3], biases[3]).view(*query.shape[:2], len(biases[3]))
    found = (output, attention) if call.return_weights else output
    return found, (asked, source, sampled), (values, offset, logit, *weights)


class WideNode(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Call, query: torch.Tensor, *given: Any) -> Any:
        found, rows, rest = _compute(call, query, *given)
        position, value, reference, padding_mask = given[:4]
        ctx.call = call
        ctx.like = [None if one is None else (one.shape, one.dtype) for one in (query, position, value)]
        if not any(ctx.needs_input_grad[6:]):
            rows = None, None, None
        ctx.save_for_backward(reference, padding_mask, *rows, *rest)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: torch.Tensor, grad_weights: torch.Tensor | None = None) -> tuple[Any, ...]:
        reference, padding_mask, asked, source, sampled, values, offset, logit, *weights = ctx.saved_tensors
        release_saved(ctx)  # so that each tensor goes after its last use here
        call = ctx.call
        query, position, value = ctx.like
        _, query_wanted, position_wanted, value_wanted, reference_wanted, _, *wanted = ctx.needs_input_grad
        train = any(wanted)

        grad_output = cast(grad_output, call.dtype).flatten(0, 1)
        ones = _ones(grad_output) if train else None
        of_output = _of_layer(grad_output, sampled, ones) if train else ()
        del sampled
        grad_sampled = torch.mm(grad_output, weights[3])
        del grad_output
        softmax = softmax_of(logit, call.head_count) if call.return_weights else None
        given = [grad_sampled, values, reference, offset, logit]
        del grad_sampled, values, offset, logit
        grad_values, grad_points, grad_reference = attend_backward_eagerly(
            *given, call.level_hw, call.head_count, reference_wanted
        )
        del given
        if softmax is not None:
            add_to_logits(grad_points, grad_weights.flatten(0, 1), softmax)
        if padding_mask is not None:
            grad_values.masked_fill_(padding_mask.reshape(-1, 1), 0)

        parameters = [None] * 8
        if train:
            of_points = _of_layer(grad_points, asked, ones)
            if len(grad_values) != len(grad_points):
                ones = _ones(grad_values)
            layers = _of_layer(grad_values, source, ones), of_points, of_output
            rows = [len(one) for one in weights]
            value_weight, point_weights, output_weight = [of_weight for of_weight, _ in layers]
            parameters[::2] = value_weight, *point_weights.split_with_sizes(rows[1:3]), output_weight
            parameters[1::2] = torch.cat([of_bias for _, of_bias in layers], 1)[0].split_with_sizes(rows)
        del asked, source

        grad_query = grad_position = grad_value = None
        if query_wanted or position_wanted:
            rows, columns = grad_points.shape[1], weights[1].shape[1]
            point_weight = weights[1].as_strided((rows, columns), (columns, 1))  # that of logits lies behind it
            grad_asked = _product(grad_points, point_weight, query[1])
            is_added = value is None and query_wanted
            if is_added and not position_wanted:
                _add_product(grad_asked, grad_values, weights[0], out=grad_asked)
            grad_query = grad_asked.view(query[0])
            if position_wanted:
                grad_position = cast(grad_query, position[1])
            if is_added and position_wanted:
                grad_query = _add_product(grad_asked, grad_values, weights[0]).view(query[0])
        if value_wanted:
            grad_value = _product(grad_values, weights[0], value[1]).view(value[0])
        return (
            *(None, grad_query if query_wanted else None, grad_position, grad_value),
            *(grad_reference if reference_wanted else None, None),
            *parameters,
        )


# As in _eager, for is_wide() excludes what torch.func needs.
_apply = super(torch.autograd.Function, WideNode).apply


def _cast_together(
    parameters: Sequence[torch.Tensor], dtype: torch.dtype
) -> tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]:
    """The layers' weights, which lie one behind another, and their biases."""
    given = [*parameters[::2], *parameters[1::2]]
    casts = _unflatten_dense_tensors(_flatten_dense_tensors(given).to(dtype), given)
    return casts[:4], casts[4:]


def _ones(rows: torch.Tensor) -> torch.Tensor:
    """8 ones for each row, side by side: a product reads them 16 bytes at a time, however many rows there are."""
    return rows.new_ones(len(rows), 8).t()


def _of_layer(grad: torch.Tensor, rows: torch.Tensor, ones: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of weight, and 8 times of bias, of the layer that made of `rows` what has gradient `grad`."""
    dtype = torch.float32
    return torch.mm(grad.t(), rows, out_dtype=dtype), torch.mm(ones, grad, out_dtype=dtype)


def _product(rows: torch.Tensor, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.mm(rows, weight) if dtype == rows.dtype else torch.mm(rows, weight, out_dtype=dtype)


def _add_product(
    total: torch.Tensor, rows: torch.Tensor, weight: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    if total.dtype == rows.dtype:
        return torch.addmm(total, rows, weight, out=out)
    if out is None:
        return torch.addmm(total, rows, weight, out_dtype=total.dtype)
    return torch.ops.aten.addmm.dtype_out(total, rows, weight, total.dtype, out=out)
