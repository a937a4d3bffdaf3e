"""The operator for torch, with gradients, under torch.compile, export, vmap and autocast.

    import libmsda.torch
    output = libmsda.torch.forward(value, level_hw, coord, weight)
    output.sum().backward()

forward, forward_fused    differentiable functions on tensors of the CPU and CUDA devices
MSDeformAttn              the whole attention module: the operator with its four linear layers
from_module               MSDeformAttn in the place of a model's own modules, until undone

torch.ops.msda has what they call: forward, backward, forward_fused, backward_fused and forward_fused_attention.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import torch

from .._core.errors import InvalidArgumentError
from .._core.problem import level_pairs, pairs
from .._functions import check_attention
from .._options import integers
from . import _calls, _eager, _operators, _sharding
from ._calls import FUSED, SAMPLED, Settings
from ._convert import Conversion, from_module
from ._module import MSDeformAttn

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import SharedKeywords

__all__ = ["Conversion", "MSDeformAttn", "forward", "forward_fused", "from_module"]


def forward(
    value: torch.Tensor,
    level_hw: Sequence[Sequence[int]] | torch.Tensor,
    coord: torch.Tensor,
    weight: torch.Tensor,
    *,
    out_dtype: torch.dtype | None = None,
    value_scale: torch.Tensor | None = None,
    **settings: "Unpack[SharedKeywords]",
) -> torch.Tensor:
    """Multi-scale deformable attention of tensors, with gradients by value, coord and weight.

    output[b,q,m,:] = sum over points of weight * sample, where a point (x, y) on a level of H x W
    pixels samples value bilinearly at px = x W - 1/2, py = y H - 1/2; pixels outside the level count
    as zero, and a point that is not finite contributes nothing.

    B batch, S tokens (pixels of all levels), M heads, D channels of a head, Q queries, L levels,
    P points of a level, K points of all levels together.

    value       [B,S,M,D] float64, float32, float16, bfloat16 or float8_e4m3fn: the levels one after
                another, each row by row.
    level_hw    [L,2] integers (H, W), in pixels: the height first. A tensor is read back, which waits
                for its device and breaks a compiled graph: give integers.
    coord       [B,Q,M,K,2] or [B,Q,M,L,P,2]: (x, y), 0 to 1 is the extent of the level.
    weight      [B,Q,M,K] or [B,Q,M,L,P]
                coord and weight each have float64, float32, float16 or bfloat16 elements.
    out_dtype   of the output; None: that of value, float32 for float8 values.
    value_scale [M] float32: multiplies the values of each head; float8 values only. It has no gradient.
    settings    points, level_start_index, value_border, query_hw, point_locality, math_mode, kernel,
                threads and sampling_mode, as help(libmsda.Options) describes them. threads=None: those
                of the CPU that torch.get_num_threads() says.

    Gradients are computed for the inputs that require them, with the same bits every time where
    torch.use_deterministic_algorithms(True) is in force; gradients of gradients are not. Under
    autocast, value is cast to the region's type unless it is float64 or float8; coord and weight keep
    their types, since coordinates need them.

    Tensors may have any strides; what the library cannot address is copied. On a CUDA device the
    call is enqueued on the current stream, and may be captured into a graph.

    Returns [B,Q,M,D], contiguous. Raises libmsda.InvalidArgumentError (a ValueError) that names the
    argument, its value and what is allowed, and libmsda.UnsupportedError (a NotImplementedError) where
    no kernel takes the problem.
    """
    return _forward(SAMPLED, (value, coord, weight), level_hw, settings, value_scale, out_dtype)


@overload
def forward_fused(
    value: torch.Tensor,
    level_hw: Sequence[Sequence[int]] | torch.Tensor,
    reference: torch.Tensor,
    offset: torch.Tensor,
    logit: torch.Tensor,
    *,
    out_dtype: torch.dtype | None = None,
    value_scale: torch.Tensor | None = None,
    attention: Literal[False] = False,
    **settings: "Unpack[SharedKeywords]",
) -> torch.Tensor: ...
@overload
def forward_fused(
    value: torch.Tensor,
    level_hw: Sequence[Sequence[int]] | torch.Tensor,
    reference: torch.Tensor,
    offset: torch.Tensor,
    logit: torch.Tensor,
    *,
    out_dtype: torch.dtype | None = None,
    value_scale: torch.Tensor | None = None,
    attention: Literal[True],
    **settings: "Unpack[SharedKeywords]",
) -> tuple[torch.Tensor, torch.Tensor]: ...
def forward_fused(
    value: torch.Tensor,
    level_hw: Sequence[Sequence[int]] | torch.Tensor,
    reference: torch.Tensor,
    offset: torch.Tensor,
    logit: torch.Tensor,
    *,
    out_dtype: torch.dtype | None = None,
    value_scale: torch.Tensor | None = None,
    attention: bool = False,
    **settings: "Unpack[SharedKeywords]",
) -> Any:
    """forward() with the softmax and the sampling locations computed inside.

    weight = softmax(logit) over all K points of a query and head, and for a point on a level of
    H x W pixels with P points

        coord = reference + offset / (W, H)                        reference (x, y)
        coord = reference.xy + offset / P * reference.wh / 2       reference (cx, cy, w, h)

    value       [B,S,M,D] float64, float32, float16, bfloat16 or float8_e4m3fn.
    level_hw    [L,2] integers (H, W), in pixels: the height first.
    reference   [B,Q,L,2] or [B,Q,L,4]: points or boxes, 0 to 1 over the level; [B,Q,1,...]: for every
                level. Of offset's type.
    offset      [B,Q,M,K,2] or [B,Q,M,L,P,2]: in pixels of the point's level, or with boxes in units
                of their size / (2 P).
    logit       [B,Q,M,K] or [B,Q,M,L,P]
                offset and logit each have float64, float32, float16 or bfloat16 elements.
    out_dtype, value_scale, settings    as in forward(), and so are the letters, strides, autocast,
                determinism and streams.
    attention   True: the softmax of logit is returned, too, in logit's shape and type.

    Gradients are computed by value, reference, offset and logit, of the weights as of the output.

    Returns [B,Q,M,D], contiguous, or (output, weights) where attention is true. Raises
    libmsda.InvalidArgumentError (a ValueError) that names the argument, its value and what is allowed,
    and libmsda.UnsupportedError (a NotImplementedError) where no kernel takes the problem.
    """
    tensors = (value, reference, offset, logit)
    check_attention(attention)
    return _forward(FUSED, tensors, level_hw, settings, value_scale, out_dtype, attention)


def _forward(
    names: tuple[str, ...],
    tensors: tuple[torch.Tensor, ...],
    level_hw: Any,
    given: Mapping[str, Any],
    value_scale: torch.Tensor | None,
    out_dtype: torch.dtype | None,
    attention: bool = False,
) -> Any:
    levels = level_pairs(level_hw)
    settings = _settings(given, len(levels)) if given else _DEFAULT
    if value_scale is not None:
        _check_tensor("value_scale", value_scale)
        if value_scale.requires_grad and torch.is_grad_enabled():
            raise InvalidArgumentError(
                "value_scale requires a gradient, which is not computed: give value_scale.detach()"
            )
    if not attention:
        output = _eager.forward(names, tensors, levels, settings, value_scale, out_dtype)
        if output is not None:
            return output
    for name, tensor in zip(names, tensors):
        _check_tensor(name, tensor)
    if not torch.compiler.is_compiling():
        _sharding.prepare()
    operators = _operators.operators[names]
    if attention:
        operators = operators.with_attention
    call = operators.functorch if _eager.in_functorch() else operators.forward
    return call(
        *tensors, _eager.flat(levels), out_dtype, value_scale, *_eager.flat_settings(settings)
    )


_DEFAULT = Settings()
_sharding.prepare()  # for torch.ops.msda


def _settings(given: Mapping[str, Any], level_count: int) -> Settings:
    for name in given:
        if name not in Settings._fields:
            raise TypeError(
                f"unexpected keyword argument {name!r}; there are {', '.join(Settings._fields)}"
            )
    fields = dict(given)
    for name in ("points", "level_start_index"):
        if fields.get(name) is not None:
            fields[name] = integers(name, fields[name])
    if isinstance(fields.get("points"), int):
        fields["points"] = (fields["points"],) * level_count
    if fields.get("query_hw") is not None:
        fields["query_hw"] = pairs("query_hw", fields["query_hw"])
    return Settings(**fields)


def _check_tensor(name: str, tensor: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise InvalidArgumentError(
            f"{name} is {type(tensor).__name__}: must be a torch.Tensor, as libmsda.torch takes no other"
        )
    if _eager.is_unusable(tensor):
        raise _calls.unusable(name, tensor)
