"""What stands in for torch_ms_deform_attn._C: its operators, computed by libmsda's.

tests/peers/torch_ms_deform_attn.py copies this file into the package, whose fake functions and public functions stay its own.
That operator is narrower than libmsda's (one type for all, shapes as int64 tensors, heads and channels in one axis) and
raises RuntimeError in words of its own; what it refuses and libmsda takes is refused here.
"""

from typing import Any

import torch

import libmsda
import libmsda.torch

with_cuda = torch.cuda.is_available()
with_mps = False

_INPUTS = "Tensor value, Tensor shapes, Tensor starts, Tensor locations, Tensor weights"
_library = torch.library.Library("torch_ms_deform_attn", "DEF")
_library.define(f"forward({_INPUTS}, int step, bool check_cuda_metadata=False) -> Tensor")
_library.define(
    f"backward({_INPUTS}, Tensor grad, int step, bool check_cuda_metadata=False) -> (Tensor, Tensor, Tensor)"
)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


def _levels(value: Any, shapes: Any, starts: Any, locations: Any, weights: Any, step: int) -> tuple[list[int], list[int]]:
    _require(step > 0, "im2col_step must be positive")
    _require(shapes.dim() == 2 and shapes.shape[1] == 2, "spatial_shapes must have the shape [L, 2]")
    _require(starts.shape == shapes.shape[:1], "level_start_index must have the shape [L]")
    _require(shapes.dtype is starts.dtype is torch.int64, "spatial_shapes and level_start_index must be int64")
    _require(value.dtype in (torch.float32, torch.float64), "value must be one of float32 and float64")
    _require(locations.dtype is weights.dtype is value.dtype, "floating dtypes must match")
    _require(locations.dim() == 6 and weights.dim() == 5, "the shape of points must have an axis of levels")
    return shapes.flatten().tolist(), starts.tolist()


def _call(operator: Any, *arguments: Any) -> Any:
    try:
        return operator(*arguments)
    except libmsda.InvalidArgumentError as error:
        past_the_end = "a level exceeds value: " if "level_start_index" in str(error) else ""
        raise RuntimeError(f"{past_the_end}{error}") from error


def _forward(value: Any, shapes: Any, starts: Any, locations: Any, weights: Any, step: int, check: bool = False) -> Any:
    levels, begin = _levels(value, shapes, starts, locations, weights, step)
    output = _call(torch.ops.msda.forward, value, locations, weights, levels, None, None, None, begin)
    return output.flatten(2)


def _backward(
    value: Any, shapes: Any, starts: Any, locations: Any, weights: Any, grad: Any, step: int, check: bool = False
) -> Any:
    levels, begin = _levels(value, shapes, starts, locations, weights, step)
    expected = *locations.shape[:2], value.shape[2] * value.shape[3]
    _require(grad.shape == expected, f"grad_output shape is {tuple(grad.shape)}: must be {expected}")
    _require(grad.dtype is value.dtype, "grad_output dtype must match value's")
    grad = grad.unflatten(2, value.shape[2:])
    return _call(torch.ops.msda.backward, grad, value, locations, weights, levels, [True] * 3, None, None, begin)


for _key in ("CPU", "CUDA"):
    _library.impl("forward", _forward, _key)
    _library.impl("backward", _backward, _key)
ms_deform_attn_forward = torch.ops.torch_ms_deform_attn.forward.default
ms_deform_attn_backward = torch.ops.torch_ms_deform_attn.backward.default


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.rest = inputs[5:]


def _differentiate(ctx: Any, grad: Any) -> Any:
    value, locations, weights = ms_deform_attn_backward(*ctx.saved_tensors, grad, *ctx.rest)
    return value, None, None, locations, weights, None, None


def _refuse(ctx: Any, *gradients: Any) -> None:
    raise RuntimeError("backward has no autograd formula: higher-order gradients are unsupported")


torch.library.register_autograd(ms_deform_attn_forward, _differentiate, setup_context=_setup, lib=_library)
torch.library.register_autograd(ms_deform_attn_backward, _refuse, lib=_library)
