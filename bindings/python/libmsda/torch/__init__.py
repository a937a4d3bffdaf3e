"""The operator for torch, with gradients, under torch.compile, export, vmap and autocast.

    import libmsda.torch
    output = libmsda.torch.forward(value, level_hw, coord, weight)
    output.sum().backward()

forward, forward_fused    differentiable functions on tensors of the CPU and CUDA devices
MSDeformAttn              the whole attention module: the operator with its four linear layers
from_module               MSDeformAttn in the place of a model's own modules, until undone

torch.ops.msda has what they call: forward, backward, forward_fused and backward_fused.
"""

from collections.abc import Sequence
from typing import Any

import torch

from .._core.errors import InvalidArgumentError
from .._core.problem import level_pairs, pairs
from .._options import integers
from . import _calls, _eager, _operators
from ._calls import FUSED, SAMPLED, Settings
from ._module import MSDeformAttn

__all__ = ["MSDeformAttn", "forward", "forward_fused"]


def forward(
    value: torch.Tensor,
    level_hw: Sequence[Sequence[int]],
    coord: torch.Tensor,
    weight: torch.Tensor,
    *,
    out_dtype: torch.dtype | None = None,
    value_scale: torch.Tensor | None = None,
    **settings: Any,
) -> torch.Tensor:
    """libmsda.forward() of tensors, with gradients by value, coord and weight.

    value     [B,S,M,D], level_hw [L,2] (H, W), coord [B,Q,M,K,2] or [B,Q,M,L,P,2], weight [B,Q,M,K]
              or [B,Q,M,L,P]: as in libmsda.forward(), whose text says what is computed.
    level_hw  pairs of Python integers; a tensor is read back, which costs a synchronisation.
    out_dtype of the output; None: that of value, float32 for float8 values.
    settings  points, level_start_index, value_border, query_hw, point_locality, math_mode, kernel and
              threads, as help(libmsda.Options) describes them.

    Returns [B,Q,M,D]. Gradients are computed for the inputs that require them, with the same bits
    every time where torch.use_deterministic_algorithms(True) is in force; gradients of gradients are
    not. Under autocast, value is cast to the region's type; coord and weight keep their types.

    Tensors may have any strides; what the library cannot address is copied. On a CUDA device the
    call is enqueued on the current stream, and may be captured into a graph.

    Raises libmsda.InvalidArgumentError (a ValueError) that names the argument, its value and what is
    allowed, and libmsda.UnsupportedError where no kernel takes the problem.
    """
    return _forward(SAMPLED, (value, coord, weight), level_hw, settings, value_scale, out_dtype)


def forward_fused(
    value: torch.Tensor,
    level_hw: Sequence[Sequence[int]],
    reference: torch.Tensor,
    offset: torch.Tensor,
    logit: torch.Tensor,
    *,
    out_dtype: torch.dtype | None = None,
    value_scale: torch.Tensor | None = None,
    **settings: Any,
) -> torch.Tensor:
    """libmsda.forward_fused() of tensors, with gradients by value, reference, offset and logit.

    reference [B,Q,L,2] or [B,Q,L,4], or [B,Q,1,...] for every level; offset [B,Q,M,K,2] or
    [B,Q,M,L,P,2]; logit [B,Q,M,K] or [B,Q,M,L,P]. Everything else is as in forward().
    """
    tensors = (value, reference, offset, logit)
    return _forward(FUSED, tensors, level_hw, settings, value_scale, out_dtype)


def _forward(
    names: tuple[str, ...],
    tensors: tuple[torch.Tensor, ...],
    level_hw: Any,
    given: dict[str, Any],
    value_scale: torch.Tensor | None,
    out_dtype: torch.dtype | None,
) -> torch.Tensor:
    levels = level_pairs(level_hw)
    settings = _settings(given, len(levels)) if given else _DEFAULT
    if value_scale is not None:
        _check_tensor("value_scale", value_scale)
        if value_scale.requires_grad and torch.is_grad_enabled():
            raise InvalidArgumentError(
                "value_scale requires a gradient, which is not computed: give value_scale.detach()"
            )
    if _eager.is_plain(tensors):
        return _eager.forward(names, tensors, levels, settings, value_scale, out_dtype)
    for name, tensor in zip(names, tensors):
        _check_tensor(name, tensor)
    operators = _operators.operators[names]
    call = operators.functorch if _eager.in_functorch() else operators.forward
    return call(
        *tensors, _eager.flat(levels), out_dtype, value_scale, *_eager.flat_settings(settings)
    )


_DEFAULT = Settings()


def _settings(given: dict[str, Any], level_count: int) -> Settings:
    for name in given:
        if name not in Settings._fields:
            raise TypeError(
                f"unexpected keyword argument {name!r}; there are {', '.join(Settings._fields)}"
            )
    given = dict(given)
    for name in ("points", "level_start_index"):
        if given.get(name) is not None:
            given[name] = integers(name, given[name])
    if isinstance(given.get("points"), int):
        given["points"] = (given["points"],) * level_count
    if given.get("query_hw") is not None:
        given["query_hw"] = pairs("query_hw", given["query_hw"])
    return Settings(**given)


def _check_tensor(name: str, tensor: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise InvalidArgumentError(
            f"{name} is {type(tensor).__name__}: must be a torch.Tensor, as libmsda.torch takes no other"
        )
    if _eager.is_unusable(tensor):
        raise _calls.unusable(name, tensor)
