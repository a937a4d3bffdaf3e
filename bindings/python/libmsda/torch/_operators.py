"""The operators msda::forward, backward, forward_fused, backward_fused and forward_fused_attention of torch's
dispatcher; the last one returns the softmax of logit beside the output.

They take level_hw and query_hw as H and W in turn. All the rest is as in the functions of libmsda.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from .._arrays.view import View
from .._core.errors import InvalidArgumentError, UnsupportedError
from .._core.handle import CPU
from .._core.problem import Problem, dtype_name, pairs
from .._functions import (
    check_axes,
    check_query_grids,
    check_shapes,
    check_types,
    level_placement,
    points_of_levels,
)
from .._plan import check_scale
from . import _calls
from ._calls import FUSED, SAMPLED, Levels, Settings

_SETTINGS = (
    "Tensor? value_scale=None, int[]? points=None, int[]? level_start_index=None, "
    "bool value_border=False, int[]? query_hw=None, str point_locality='unknown', "
    "str math_mode='accurate', str? kernel_id=None, int? threads=None, "
    "str sampling_mode='bilinear'"
)
_library = torch.library.Library("msda", "DEF")


class Operators(NamedTuple):
    """What one way to give the points has."""

    forward: Callable[..., torch.Tensor]
    backward: Callable[..., tuple[torch.Tensor, ...]]
    functorch: Callable[..., torch.Tensor]  # forward within torch.func, which has no use for an operator's autograd
    with_attention: Any = None  # the Operators whose forward returns (output, attention), too


operators: dict[tuple[str, ...], Operators] = {}


def _pairs(field: str, flat: Sequence[int]) -> Levels:
    if len(flat) % 2:
        raise InvalidArgumentError(f"{field} is {list(flat)}: must be H and W in turn")
    return tuple(zip(flat[::2], flat[1::2]))


def _settings(
    points: Any = None,
    level_start_index: Any = None,
    value_border: bool = False,
    query_hw: Any = None,
    *rest: Any,
) -> Settings:
    return Settings(
        None if points is None else tuple(points),
        None if level_start_index is None else tuple(level_start_index),
        value_border,
        None if query_hw is None else _pairs("query_hw", query_hw),
        *rest,
    )


class _Sizes(Problem):
    """A problem of sizes that may be symbols: it has shapes, and checks nothing."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", self._points_of_levels())
        self._place_levels(lambda field, value: object.__setattr__(self, field, value))


def _check(
    tensors: dict[str, torch.Tensor], levels: Levels, settings: Settings, scale: torch.Tensor | None
) -> None:
    """The checks of a real call on tensors that have no memory. The kernel is not among them: which
    problems it takes depends on the device."""
    levels, options = pairs("level_hw", levels), settings.options()
    given = tensors if scale is None else tensors | {"value_scale": scale}
    for name, tensor in given.items():
        _calls.check_place(name, tensor, tensors["value"].device)
    views = {name: _view(tensor) for name, tensor in tensors.items()}
    value = views["value"]
    point, weight = ("offset", "logit") if "logit" in views else ("coord", "weight")
    check_types(views)
    check_axes(views, levels)
    if scale is not None:
        check_scale(_view(scale), value.dtype, value.shape[2])
    axes = views[point].shape
    sizes = _Sizes(
        level_hw=levels,
        points=points_of_levels(options.points, len(levels), math.prod(axes[3:-1])),
        batch=value.shape[0],
        query_count=axes[1],
        head_count=value.shape[2],
        head_dim=value.shape[3],
        reference_dim=views["reference"].shape[3] if "reference" in views else 0,
        value_border=options.value_border,
        **level_placement(
            options.level_start_index, levels, options.value_border, value.shape[1]
        ),
    )
    check_shapes(views, sizes, point, weight)
    check_query_grids(options.query_hw, axes[1])


def _view(tensor: torch.Tensor) -> View:
    return View(0, tuple(tensor.shape), None, str(tensor.dtype).removeprefix("torch."), CPU)


def _output_dtype(value: torch.Tensor, out_dtype: torch.dtype | None) -> torch.dtype:
    if out_dtype is not None:
        dtype_name("out_dtype", out_dtype)
        return out_dtype
    return torch.float32 if value.dtype.itemsize == 1 else value.dtype


def _fold(size: int, tensor: torch.Tensor, dim: int | None) -> torch.Tensor:
    """A tensor whose first axis is the batch of vmap and its own batch together."""
    moved = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return moved.reshape(size * moved.shape[1], *moved.shape[2:])


def _unbatched(in_dims: Sequence[Any], arguments: Sequence[Any], count: int) -> None:
    for dim, given in zip(in_dims[count:], arguments[count:]):
        if dim is not None and isinstance(given, torch.Tensor):
            raise UnsupportedError("value_scale has an axis of vmap: must be the same for all of it")


def _define(names: tuple[str, ...], suffix: str) -> None:
    """Defines the operators of one way to give the points."""
    backward, of_functorch = _define_backward(names, f"backward{suffix}")

    def define(name: str, with_attention: bool) -> Operators:
        forward, functorch = _define_forward(names, name, backward, of_functorch, with_attention)
        return Operators(forward, backward, functorch)

    name = f"forward{suffix}"
    both = define(f"{name}_attention", True) if "logit" in names else None
    operators[names] = define(name, False)._replace(with_attention=both)


def _define_backward(names: tuple[str, ...], name: str) -> tuple[Any, Callable[..., Any]]:
    """Returns the operator, and what computes the same within torch.func."""
    count = len(names)
    inputs = ", ".join(f"Tensor {one}" for one in names)
    gradients = ", ".join(["Tensor"] * count)
    _library.define(
        f"{name}(Tensor grad_output, {inputs}, int[] level_hw, bool[] wanted, {_SETTINGS}) "
        f"-> ({gradients})",
        tags=(torch.Tag.pt2_compliant_tag,),
    )
    operator = getattr(torch.ops.msda, name).default

    def compute(grad_output: torch.Tensor, *given: Any) -> tuple[torch.Tensor, ...]:
        tensors, level_hw, wanted, scale, rest = _split(given, count)
        levels = _pairs("level_hw", level_hw)
        _calls.check_wanted(wanted, names)
        return tuple(
            _calls.backward(names, grad_output, tensors, levels, _settings(*rest), scale, wanted)
        )

    for key in ("CPU", "CUDA"):
        _library.impl(name, compute, key)

    @torch.library.register_fake(f"msda::{name}", lib=_library)
    def _fake(grad_output: torch.Tensor, *given: Any) -> tuple[torch.Tensor, ...]:
        tensors, level_hw, wanted, scale, rest = _split(given, count)
        _calls.check_wanted(wanted, names)
        arrays = dict(zip(names, tensors)) | {"grad_output": grad_output}
        _check(arrays, _pairs("level_hw", level_hw), _settings(*rest), scale)
        return tuple(
            t.new_empty(t.shape, dtype=_output_dtype(t, None)) if one else t.new_empty(0)
            for t, one in zip(tensors, wanted)
        )

    def refuse(ctx: Any, *gradients: Any) -> Any:
        raise UnsupportedError(
            f"msda::{name} has no derivative: gradients of gradients are not computed"
        )

    def map_batch(info: Any, in_dims: Any, *given: Any) -> Any:
        _unbatched(in_dims, given, count + 1)
        size, wanted = info.batch_size, given[count + 2]
        folded = [_fold(size, t, dim) for t, dim in zip(given[: count + 1], in_dims)]
        found = operator(*folded, *given[count + 1 :])
        return tuple(
            one.unflatten(0, (size, -1)) if want else one.expand(size, 0)
            for one, want in zip(found, wanted)
        ), (0,) * count

    torch.library.register_autograd(f"msda::{name}", refuse, lib=_library)
    torch.library.register_vmap(f"msda::{name}", map_batch, lib=_library)

    class Backward(torch.autograd.Function):
        forward = staticmethod(lambda *given: operator(*given))
        setup_context = staticmethod(lambda ctx, inputs, output: None)
        backward = staticmethod(refuse)
        vmap = staticmethod(map_batch)

    return operator, Backward.apply


def _define_forward(
    names: tuple[str, ...],
    name: str,
    backward_operator: Any,
    functorch_backward: Callable[..., Any],
    with_attention: bool,
) -> tuple[Any, Callable[..., Any]]:
    """Returns the operator, and what computes the same within torch.func."""
    count = len(names)
    inputs = ", ".join(f"Tensor {one}" for one in names)
    results = "(Tensor output, Tensor attention)" if with_attention else "Tensor"
    _library.define(
        f"{name}({inputs}, int[] level_hw, ScalarType? out_dtype=None, {_SETTINGS}) -> {results}",
        tags=(torch.Tag.pt2_compliant_tag,),
    )
    operator = getattr(torch.ops.msda, name).default

    def compute(*given: Any) -> Any:
        tensors, level_hw, out_dtype, scale, rest = _split(given, count)
        levels, settings = _pairs("level_hw", level_hw), _settings(*rest)
        attention = _calls.new_attention(tensors[-1]) if with_attention else None
        output = _calls.forward(names, tensors, levels, settings, scale, out_dtype, attention)
        return (output, attention) if with_attention else output

    for key in ("CPU", "CUDA"):
        _library.impl(name, compute, key)

    @torch.library.register_fake(f"msda::{name}", lib=_library)
    def _fake(*given: Any) -> Any:
        tensors, level_hw, out_dtype, scale, rest = _split(given, count)
        arrays = dict(zip(names, tensors))
        _check(arrays, _pairs("level_hw", level_hw), _settings(*rest), scale)
        value, last = tensors[0], tensors[-1]
        shape = (value.shape[0], last.shape[1], *value.shape[2:])
        output = value.new_empty(shape, dtype=_output_dtype(value, out_dtype))
        return (output, _calls.new_attention(last)) if with_attention else output

    def setup(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        scale = inputs[count + 2]
        attention = output[1:] if with_attention else ()
        ctx.save_for_backward(*inputs[:count], scale, *attention)
        ctx.level_hw, ctx.rest = inputs[count], inputs[count + 3 :]
        ctx.set_materialize_grads(False)  # zeros for a DTensor would be none

    def differentiate_by(call: Callable[..., Any]) -> Callable[..., Any]:
        def differentiate(
            ctx: Any, grad_output: torch.Tensor | None, grad_attention: torch.Tensor | None = None
        ) -> tuple[Any, ...]:
            tensors, (scale, *attention) = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
            wanted = list(ctx.needs_input_grad[:count])
            gradients: list[torch.Tensor | None] = [None] * count
            if grad_output is not None:
                found = call(grad_output, *tensors, ctx.level_hw, wanted, scale, *ctx.rest)
                gradients = [one if want else None for one, want in zip(found, wanted)]
            if grad_attention is not None and wanted[-1]:
                by_softmax, by_output = _softmax_gradient(grad_attention, *attention), gradients[-1]
                gradients[-1] = by_softmax if by_output is None else by_output + by_softmax
            return (*gradients, None, None, None, *[None] * len(ctx.rest))

        return differentiate

    def map_batch(info: Any, in_dims: Any, *given: Any) -> Any:
        _unbatched(in_dims, given, count)
        size = info.batch_size
        folded = [_fold(size, t, dim) for t, dim in zip(given[:count], in_dims)]
        found = operator(*folded, *given[count:])
        if not with_attention:
            return found.unflatten(0, (size, -1)), 0
        return tuple(one.unflatten(0, (size, -1)) for one in found), (0, 0)

    torch.library.register_autograd(
        f"msda::{name}",
        differentiate_by(backward_operator),
        setup_context=setup,
        lib=_library,
    )
    torch.library.register_vmap(f"msda::{name}", map_batch, lib=_library)
    for device in ("CPU", "CUDA"):
        _library.impl(name, _autocast(operator, device.lower()), f"Autocast{device}")

    class Forward(torch.autograd.Function):
        forward = staticmethod(lambda *given: operator(*given))
        setup_context = staticmethod(setup)
        backward = staticmethod(differentiate_by(functorch_backward))
        vmap = staticmethod(map_batch)

    return operator, Forward.apply


def _softmax_gradient(grad: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
    """The gradient by the logits of what has this gradient by their softmax over all points."""
    one, rows = grad.flatten(3), attention.flatten(3)
    return torch._softmax_backward_data(one, rows, -1, rows.dtype).view(attention.shape)


def _split(given: Sequence[Any], count: int) -> tuple[Any, ...]:
    """Tensors, level_hw, the argument after it, value_scale, the settings. The dispatcher leaves
    defaults at the end out."""
    given = (*given, *[None] * (count + 3 - len(given)))
    return given[:count], given[count], given[count + 1], given[count + 2], given[count + 3 :]


def in_autocast(value: torch.Tensor, device: str) -> torch.Tensor:
    """value as the operator takes it under autocast: in the type of the region, unless it is float64 or
    float8. The points and weights keep their types, for coordinates need them."""
    if torch.is_autocast_enabled(device) and value.dtype in (torch.float32, torch.float16, torch.bfloat16):
        return value.to(torch.get_autocast_dtype(device))
    return value


def _autocast(operator: Callable[..., Any], device: str) -> Callable[..., Any]:
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{device.upper()}"))

    def call(value: torch.Tensor, *rest: Any) -> torch.Tensor:
        value = in_autocast(value, device)  # before the guard, within which autocast counts as off
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return operator(value, *rest)

    return call


_define(SAMPLED, "")
_define(FUSED, "_fused")
