"""forward and backward in one call: the problem is read off the arrays, planned once and executed."""

import dataclasses
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ._arrays import Kind, addressable, kind_of
from ._arrays.view import View
from ._core import handle as core_handle
from ._core.cache import Cache
from ._core.errors import InvalidArgumentError
from ._core.handle import CPU
from ._core.plan import cached_plan, checked_handle, slots_of
from ._core.problem import PACKED, TENSORS, Problem, dtype_name, level_pairs, pairs
from ._options import Options, options_of
from ._plan import (
    Plan,
    add_workspace,
    check_device,
    check_shape,
    checked_scale,
    default_handle,
    output_address,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Keywords

Array = Any  # of numpy, torch, cupy, JAX, or one that has __dlpack__ or __cuda_array_interface__


class Gradients(NamedTuple):
    """Gradients of forward()'s inputs: arrays of the caller's package, or None where not wanted.

    value   [B,S,M,D], of value's type; float32 for float8 values, or what grad_value_dtype says.
    coord   of coord's shape and type; per unit of normalised coordinates.
    weight  of weight's shape and type.
    """

    value: Array | None
    coord: Array | None
    weight: Array | None


class FusedGradients(NamedTuple):
    """Gradients of forward_fused()'s inputs: arrays of the caller's package, or None where not wanted.

    value      [B,S,M,D], of value's type; float32 for float8 values, or what grad_value_dtype says.
    reference  of reference's shape and type; summed over the levels where it has one for all.
    offset     of offset's shape and type; per pixel, or with boxes per unit of their size / (2 P).
    logit      of logit's shape and type.
    """

    value: Array | None
    reference: Array | None
    offset: Array | None
    logit: Array | None


def forward(
    value: Array,
    level_hw: Any,
    coord: Array,
    weight: Array,
    *,
    out: Array = None,
    out_dtype: Any = None,
    options: Options | None = None,
    **keywords: "Unpack[Keywords]",
) -> Array:
    """Multi-scale deformable attention: output[b,q,m,:] = sum over points of weight * sample.

    A point (x, y) on a level of H x W pixels samples bilinearly at px = x W - 1/2, py = y H - 1/2;
    pixels outside the level count as zero. (Zhu et al., Deformable DETR, ICLR 2021, equations 2
    and 3 without the linear layers.) sampling_mode="nearest" samples one pixel instead. A point that
    is not finite contributes nothing.

    B batch, S tokens (pixels of all levels), M heads, D channels of a head, Q queries, L levels,
    K points of all levels together.

    value     [B,S,M,D]      float64, float32, float16, bfloat16 or float8_e4m3fn: the levels one
                             after another, each row by row.
    level_hw  [L,2]          integers (H, W), in pixels: the height first.
    coord     [B,Q,M,K,2] or [B,Q,M,L,P,2]    (x, y), 0 to 1 is the extent of the level.
    weight    [B,Q,M,K] or [B,Q,M,L,P]
              coord and weight each have float64, float32, float16 or bfloat16 elements.
    out       [B,Q,M,D] to write into; None: a new array at a multiple of 64 bytes.
    out_dtype of a new output; None: that of value, float32 for float8 values.
    options   an Options; help(libmsda.Options) has its fields, and each is a keyword here, too:
              points, level_start_index, value_scale, value_border, query_hw, point_locality,
              math_mode, kernel, threads, handle, sampling_mode. A keyword goes before the object's field.

    Arrays are of numpy, torch, cupy or JAX (JAX on the CPU), all of one package and device; lists
    count as numpy's. The output is of that package. On a CUDA device the call is enqueued on the
    package's current stream and returns. Nothing is recorded for autograd: libmsda.torch does that.

    Arrays need not be contiguous: an outer axis may have any stride, or repeat. What the library
    cannot address (inner axes not packed, negative strides, foreign byte order) is copied first,
    except for out, where it is an error.

    Returns out. Raises InvalidArgumentError (a ValueError) that names the argument, its value and
    what is allowed; UnsupportedError where no kernel takes the problem.
    """
    given = {"value": value, "coord": coord, "weight": weight}
    settings = options_of("forward", options, keywords)
    return _forward(given, level_hw, out, out_dtype, settings)


def forward_fused(
    value: Array,
    level_hw: Any,
    reference: Array,
    offset: Array,
    logit: Array,
    *,
    out: Array = None,
    out_dtype: Any = None,
    attention: bool = False,
    options: Options | None = None,
    **keywords: "Unpack[Keywords]",
) -> Array:
    """forward() with the softmax and the sampling locations computed inside.

    weight = softmax(logit) over all K points of a query and head, and for a point on a level of
    H x W pixels with P points

        coord = reference + offset / (W, H)                        reference (x, y)
        coord = reference.xy + offset / P * reference.wh / 2       reference (cx, cy, w, h)

    How coord and weight make the output, the letters B, S, M, D, Q, L, P and K, and which strides
    are read in place, is what help(libmsda.forward) says.

    value     [B,S,M,D] float64, float32, float16, bfloat16 or float8_e4m3fn.
    level_hw  [L,2] integers (H, W), in pixels: the height first.
    reference [B,Q,L,2] or [B,Q,L,4]: points or boxes, 0 to 1 over the level; [B,Q,1,...]: for every
              level.
    offset    [B,Q,M,K,2] or [B,Q,M,L,P,2]: in pixels of the point's level, or with boxes in units
              of their size / (2 P).
    logit     [B,Q,M,K] or [B,Q,M,L,P]
              reference, offset and logit each have float64, float32, float16 or bfloat16 elements.
    out       [B,Q,M,D] to write into; None: a new array.
    out_dtype of a new output; None: that of value, float32 for float8 values.
    attention True: the softmax of logit is returned, too, a new array of logit's shape and type.
    options   an Options, or its fields as keywords, as in forward().

    Returns out, or (out, weights) where attention is true. Raises InvalidArgumentError (a ValueError)
    that names the argument, its value and what is allowed; UnsupportedError where no kernel takes the
    problem.
    """
    given = {"value": value, "reference": reference, "offset": offset, "logit": logit}
    settings = options_of("forward_fused", options, keywords)
    return _forward(given, level_hw, out, out_dtype, settings, check_attention(attention))


def backward(
    value: Array,
    level_hw: Any,
    coord: Array,
    weight: Array,
    grad_output: Array,
    *,
    wanted: str | tuple[str, ...] = ("value", "coord", "weight"),
    deterministic: bool = True,
    grad_value_dtype: Any = None,
    options: Options | None = None,
    **keywords: "Unpack[Keywords]",
) -> Gradients:
    """Gradients of sum(forward(...) * grad_output) by value, coord and weight.

    value, level_hw, coord, weight    those of the forward() call.
    grad_output       [B,Q,M,D]; float64, float32, float16 or bfloat16.
    wanted            which gradients are computed, a name or several; the others are None.
    deterministic     False allows kernels whose bits differ from run to run.
    grad_value_dtype  None: that of value, float32 for float8 values.
    options           an Options, or its fields as keywords, as in forward().

    At a pixel line, where the sample has a kink, the derivative by coord is the right-hand one.
    Gradients are written in full, not added to anything.

    Returns Gradients, each of its input's shape and type. Raises InvalidArgumentError (a ValueError)
    that names the argument, its value and what is allowed; UnsupportedError where no kernel takes the
    problem.
    """
    given = {"value": value, "coord": coord, "weight": weight, "grad_output": grad_output}
    settings = options_of("backward", options, keywords)
    return _backward(Gradients, given, level_hw, wanted, deterministic, grad_value_dtype, settings)


def backward_fused(
    value: Array,
    level_hw: Any,
    reference: Array,
    offset: Array,
    logit: Array,
    grad_output: Array,
    *,
    wanted: str | tuple[str, ...] = ("value", "reference", "offset", "logit"),
    deterministic: bool = True,
    grad_value_dtype: Any = None,
    options: Options | None = None,
    **keywords: "Unpack[Keywords]",
) -> FusedGradients:
    """Gradients of sum(forward_fused(...) * grad_output) by value, reference, offset and logit.

    value, level_hw, reference, offset, logit    those of the forward_fused() call.
    grad_output       [B,Q,M,D]; float64, float32, float16 or bfloat16.
    wanted            which gradients are computed, a name or several; the others are None.
    deterministic     False allows kernels whose bits differ from run to run.
    grad_value_dtype  None: that of value, float32 for float8 values.
    options           an Options, or its fields as keywords, as in forward().

    Returns FusedGradients, each of its input's shape and type. Raises InvalidArgumentError (a
    ValueError) that names the argument, its value and what is allowed; UnsupportedError where no
    kernel takes the problem.
    """
    given = {
        "value": value,
        "reference": reference,
        "offset": offset,
        "logit": logit,
        "grad_output": grad_output,
    }
    settings = options_of("backward_fused", options, keywords)
    return _backward(
        FusedGradients, given, level_hw, wanted, deterministic, grad_value_dtype, settings
    )


def explain(what: Problem | Callable[..., Any], *arguments: Any, **keywords: Any) -> str:
    """Which kernel a problem or a call would take, and why not the others.

    what    a Problem, with handle= a Handle where it is not to run on the CPU; or forward,
            forward_fused, backward or backward_fused, or the first two of libmsda.torch, followed
            by the arguments of the call that is asked about:

        libmsda.explain(libmsda.forward, value, level_hw, coord, weight)

    Returns text: one line a kernel, with its rank and predicted time, the kernel chosen first, or
    with the reason for which it is rejected. A line before says so where the call asks for a kernel.
    The call is not made, so tensors may require gradients, and no array is needed to write into.
    Raises what the call would raise before it computes.
    """
    if isinstance(what, Problem):
        handle = checked_handle(keywords.pop("handle", None))
        if arguments or keywords:
            raise InvalidArgumentError("explain() of a Problem takes no other argument but handle")
        return handle.explain(what)
    function, of_torch = _function_of(what)
    try:
        call = inspect.signature(function).bind(*arguments, **keywords).arguments
    except TypeError as error:
        raise InvalidArgumentError(f"{function.__name__}(): {error}") from None
    check_attention(call.pop("attention", False))  # which makes no other plan
    given = {name: call.pop(name) for name in [*call] if name in TENSORS}
    options = options_of(function.__name__, call.pop("options", None), call.pop("keywords", {}))
    levels, out = level_pairs(call.pop("level_hw")), call.pop("out", None)
    if "wanted" in call:
        _checked_wanted(call.pop("wanted"), (Gradients, FusedGradients)["logit" in given]._fields)
    kind = kind_of(given["value"])
    with kind.unrecorded():
        _, arrays = _prepared(given)
        if of_torch and options.threads is None and kind.view(arrays["value"]).device == CPU:
            options = dataclasses.replace(options, threads=kind.threads())
        described = describe(kind, arrays, levels, options, out=out, **call)
        problem, handle = described.problem, described.handle
        if options.value_scale is not None:
            sizes = problem.value_dtype, problem.head_count, handle.device
            checked_scale(kind, options.value_scale, *sizes)
    text = handle.explain(problem)
    if options.kernel is None:
        return text
    cached_plan(Plan, problem, options.kernel, handle)  # refuses one that does not take the problem
    return f"{options.kernel} is asked for; without that:\n{text}"


def _function_of(what: Any) -> tuple[Callable[..., Any], bool]:
    """The function that explain() is asked about, and whether it is libmsda.torch's of that name."""
    names = {one.__name__: one for one in (forward, forward_fused, backward, backward_fused)}
    function = names.get(getattr(what, "__name__", ""))
    of_torch = getattr(what, "__module__", "") == "libmsda.torch"
    if function is None or not (of_torch or what is function):
        raise InvalidArgumentError(
            f"what is {what!r}: must be a libmsda.Problem, or libmsda.forward, forward_fused, "
            "backward or backward_fused with the arguments of a call"
        )
    return function, of_torch


class Call(NamedTuple):
    """What calls of one signature have in common."""

    problem: Problem
    handle: core_handle.Handle
    plan: Plan | None
    changes: tuple[str, ...]  # what is done to each input before; empty where nothing is
    scale_slot: int  # the word of value_scale
    outputs: tuple[tuple[str, tuple[int, ...], str], ...]  # name, shape, type of what is computed
    repeated: bool  # reference has one level for all


_calls = Cache(1024)


def _prepared(given: dict[str, Any]) -> tuple[Kind, dict[str, Any]]:
    kind = kind_of(given["value"])
    return kind, {name: kind.prepare(name, array) for name, array in given.items()}


def _call_of(
    key: tuple[Any, ...], options: Options, kind: Kind, arrays: dict[str, Any], **settings: Any
) -> Call:
    """The call of this signature, described and planned the first time."""
    calls = _calls if options.handle is None else options.handle.calls
    key = (*key, options.key, options.threads, *[kind.signature(a) for a in arrays.values()])
    try:
        call = calls.get(key)
    except TypeError as error:  # a dtype that is no dtype, say
        raise InvalidArgumentError(f"an argument is of no use here: {error}") from None
    if call is None:
        call = describe(kind, arrays, key[1], options, **settings)
        plan = cached_plan(Plan, call.problem, options.kernel, call.handle)
        call = calls.add(key, call._replace(plan=plan))
    return call


def run_call(
    call: Call,
    kind: Kind,
    arrays: Iterable[Any],
    value_scale: Any,
    outputs: Iterable[int],
    extras: Sequence[int] = (),
) -> None:
    """Executes the call's plan on its inputs, in their order. `outputs` are the addresses of what it
    computes, in their order, 0 where it is not wanted; `extras` those of problem.extras, or none."""
    plan = call.plan
    if call.changes:
        levels = len(call.problem.level_hw)
        arrays = [_changed(kind, *one, levels) for one in zip(arrays, call.changes)]
    words, scale = [*map(kind.address, arrays)], 0
    if value_scale is not None:
        value_scale, scale = checked_scale(
            kind, value_scale, call.problem.value_dtype, call.problem.head_count, plan.device
        )
    words.insert(call.scale_slot, scale)
    words += outputs
    words += 0, 0
    if plan.workspace_bytes:
        _workspace = add_workspace(plan, words, kind)
    plan.run(words, 0 if plan.device == CPU else kind.stream(plan.device), extras)


def _changed(kind: Kind, array: Any, change: str, levels: int) -> Any:
    if change == "repeat":
        return kind.repeated(array, levels)
    return kind.packed(array) if change else array


def check_attention(attention: Any) -> bool:
    if not isinstance(attention, bool):
        raise InvalidArgumentError(
            f"attention is {attention!r}: must be True or False; Plan.execute() takes an array to write into"
        )
    return attention


def _forward(
    given: dict[str, Any],
    level_hw: Any,
    out: Any,
    out_dtype: Any,
    options: Options,
    attention: bool = False,
) -> Any:
    kind, arrays = _prepared(given)
    signature = result = None
    if out is not None:
        if out_dtype is not None:
            raise InvalidArgumentError(
                f"out_dtype is {out_dtype!r}: must be None when out is given"
            )
        kind.check_output("out", out)
        result = kind.prepare("out", out)
        signature = kind.signature(result)
    key = ("forward", level_pairs(level_hw), len(given), signature, out_dtype)
    call = _call_of(key, options, kind, arrays, out=out, out_dtype=out_dtype)
    if out is None:
        ((_, shape, dtype),) = call.outputs
        result = kind.empty(shape, dtype, call.plan.device)
    extras, weights = (), None
    if attention:
        shape = kind.view(arrays["logit"]).shape
        weights = kind.empty(shape, call.problem.weight_dtype, call.plan.device)
        extras = (kind.address(weights),)
    run_call(call, kind, arrays.values(), options.value_scale, [kind.address(result)], extras)
    result = kind.result(result) if out is None else out
    return (result, kind.result(weights)) if attention else result


def _backward(
    result: Any,
    given: dict[str, Any],
    level_hw: Any,
    wanted: Any,
    deterministic: bool,
    grad_value_dtype: Any,
    options: Options,
) -> Any:
    """The gradients that are wanted as a `result`, in the shapes of `given`."""
    names = result._fields
    wanted = _checked_wanted(wanted, names)
    kind, arrays = _prepared(given)
    key = ("backward", level_pairs(level_hw), len(given), bool(deterministic), grad_value_dtype)
    call = _call_of(
        key,
        options,
        kind,
        arrays,
        deterministic=deterministic,
        grad_value_dtype=grad_value_dtype,
    )
    if not wanted:
        return result(*[None] * len(names))
    gradients, addresses = [], []
    for name, (_, shape, dtype) in zip(names, call.outputs):
        new = kind.empty(shape, dtype, call.plan.device) if name in wanted else None
        gradients.append(new)
        addresses.append(0 if new is None else kind.address(new))
    run_call(call, kind, arrays.values(), options.value_scale, addresses)
    if call.repeated and "reference" in wanted:
        gradients[1] = kind.summed(gradients[1])
    return result(*[None if new is None else kind.result(new) for new in gradients])


def _checked_wanted(wanted: Any, names: tuple[str, ...]) -> Any:
    wanted = (wanted,) if isinstance(wanted, str) else wanted
    if not isinstance(wanted, tuple | list | set | frozenset):
        raise InvalidArgumentError(f"wanted is {wanted!r}: must be of {', '.join(names)}")
    for name in wanted:
        if name not in names:
            raise InvalidArgumentError(f"wanted has {name!r}: must be of {', '.join(names)}")
    return wanted


def describe(
    kind: Kind,
    arrays: dict[str, Any],
    levels: tuple[tuple[int, int], ...],
    options: Options,
    *,
    out: Any = None,
    out_dtype: Any = None,
    deterministic: bool = True,
    grad_value_dtype: Any = None,
    into: Sequence[View] = (),
) -> Call:
    """Checks the arrays against one another and makes the problem of them, for the device they are on.
    Where `into` has two views, the gradients of coordinates and weights are laid out as these."""
    views = {name: kind.view(array) for name, array in arrays.items()}
    result = None if out is None else kind.view(kind.prepare("out", out))
    described = problem_of(
        views, levels, options, result, out_dtype, deterministic, grad_value_dtype, into
    )
    problem, changes, repeated = described
    value = views["value"]
    handle = options.handle
    if handle is None:
        device = None if value.device == CPU else value.device
        handle = default_handle(options.threads or 0, device)
    check_device("value", value.device, handle.device, "where handle runs")
    if out is not None:
        shape, dtype, strides = (f("output") for f in (problem.shape, problem.dtype, problem.strides))
        output_address(kind, "output", "out", out, shape, dtype, strides, handle.device)
    return Call(
        problem,
        handle,
        None,
        tuple(changes.get(name, "") for name in views) if changes else (),
        slots_of(problem)["value_scale"],
        tuple(_outputs(problem, views, repeated)),
        repeated,
    )


class Described(NamedTuple):
    """What views and options amount to."""

    problem: Problem
    changes: dict[str, str]  # what is to be done to inputs before, by their names
    repeated: bool  # reference has one level for all


def problem_of(
    views: dict[str, View],
    levels: Any,
    options: Options,
    out: View | None = None,
    out_dtype: Any = None,
    deterministic: bool = True,
    grad_value_dtype: Any = None,
    into: Sequence[View] = (),
) -> Described:
    """Checks views of inputs against one another and makes the problem of them."""
    levels = pairs("level_hw", levels)
    value = views["value"]
    fused, backward = "reference" in views, "grad_output" in views
    point, weight = ("offset", "logit") if fused else ("coord", "weight")
    for name, view in views.items():
        check_device(name, view.device, value.device, "where value is")
    check_types(views)
    check_axes(views, levels)
    axes = views[point].shape
    points = points_of_levels(options.points, len(levels), math.prod(axes[3:-1]))
    strides, changes = {}, {}
    for name, view in views.items():
        found = addressable(view.shape, view.strides)
        # grad_output has the strides of output, whose rows must not be one another's.
        repeats = name == "grad_output" and found not in (None, PACKED) and 0 in found
        if found is None or repeats or (name == "reference" and found != PACKED):
            found, changes[name] = PACKED, "pack"
        strides[name] = found
    fields = options.of_problem()
    if fused:
        reference = views["reference"]
        fields |= {"input_mode": "fused", "reference_dim": reference.shape[3]}
        fields["reference_dtype"] = reference.dtype
    if backward:
        fields |= {"operation": "backward", "deterministic": deterministic}
        fields["output_dtype"] = views["grad_output"].dtype
        fields["output_strides"] = strides["grad_output"]
        for field, view in zip(("grad_coord_strides", "grad_weight_strides"), into):
            fields[field] = addressable(view.shape, view.strides)
        if grad_value_dtype is not None:
            fields["grad_value_dtype"] = dtype_name("grad_value_dtype", grad_value_dtype)
    elif out is not None:
        fields["output_dtype"] = dtype_name("out.dtype", out.dtype)
        # output_address() refuses an out of another shape, or that has no strides of this kind.
        fields["output_strides"] = addressable(out.shape, out.strides) or PACKED
        if len(out.shape) != 4:
            fields["output_strides"] = PACKED
    elif out_dtype is not None:
        fields["output_dtype"] = dtype_name("out_dtype", out_dtype)
    fields |= level_placement(
        options.level_start_index, levels, bool(options.value_border), value.shape[1]
    )
    problem = Problem(
        level_hw=levels,
        points=points,
        batch=value.shape[0],
        query_count=views[point].shape[1],
        head_count=value.shape[2],
        head_dim=value.shape[3],
        value_dtype=value.dtype,
        coord_dtype=views[point].dtype,
        weight_dtype=views[weight].dtype,
        value_strides=strides["value"],
        coord_strides=strides[point],
        weight_strides=strides[weight],
        **fields,
    )
    repeated = check_shapes(views, problem, point, weight)
    if repeated:
        changes["reference"] = "repeat"
    return Described(problem, changes, repeated)


def _outputs(
    problem: Problem, views: dict[str, View], repeated: bool
) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Name, shape and type of what is computed. A gradient has the shape of its input, where levels
    and points may be axes of their own."""
    for name in problem.outputs:
        given = views.get(name.removeprefix("grad_"))
        whole = given is None or (repeated and name == "grad_reference")
        yield name, problem.shape(name) if whole else given.shape, problem.dtype(name)


def check_types(views: dict[str, View]) -> None:
    for name, view in views.items():
        dtype_name(f"{name}.dtype", view.dtype)


def check_axes(views: dict[str, View], levels: tuple[tuple[int, int], ...]) -> None:
    """The number of axes of each array; axis 3 of points that have levels and points apart, and of
    reference."""
    for name, view in views.items():
        letters, shape = TENSORS[name].axes, view.shape
        apart = "K" in letters and len(shape) == len(letters) + 1
        if apart and shape[3] != len(levels):
            raise InvalidArgumentError(
                f"{name} has shape {shape}: axis 3 must be the {len(levels)} levels of level_hw"
            )
        if len(shape) != len(letters) and not apart:
            hint = ""
            if name in ("value", "grad_output") and len(shape) == 3:
                hint = "; if axis 2 is all heads together, split it: reshape(B, ..., M, D)"
            elif "K" in letters:
                hint = f" or [{', '.join(letters.replace('K', 'LP'))}]"
            raise InvalidArgumentError(
                f"{name} has shape {shape}: must be [{', '.join(letters)}]{hint}"
            )
    if "reference" in views and views["reference"].shape[3] not in (2, 4):
        raise InvalidArgumentError(
            f"reference has shape {views['reference'].shape}: axis 3 must be 2 (x, y) or "
            "4 (cx, cy, w, h)"
        )


def check_shapes(views: dict[str, View], problem: Problem, point: str, weight: str) -> bool:
    """Shapes against the problem; returns whether reference is to be repeated for the levels."""
    levels = len(problem.level_hw)
    repeated = False
    for name, view in views.items():
        letters, wanted, found = TENSORS[name].axes, problem.shape(name), view.shape
        if name in (point, weight) and len(found) > len(letters):
            found = (*found[:3], math.prod(found[3:5]), *found[5:])
        hint = ""
        if name == "value" and found != wanted:
            swapped = (found[0], found[2], found[1], found[3])
            tokens = found[1]
            if swapped[1] == problem.token_count:
                hint = "; if it is [B, M, S, D], swap axes 1 and 2"
            else:
                sizes = " + ".join(f"{h} x {w}" for h, w in problem.level_hw) or "none"
                hint = f"; the levels (H, W) of level_hw have {sizes} pixels, not {tokens}"
        elif name == "reference" and levels != 1 and found == (*wanted[:2], 1, wanted[3]):
            repeated = True
            continue
        check_shape(name, found, letters, wanted, hint)
    return repeated


def check_query_grids(query_hw: Any, query_count: Any) -> None:
    """What msda_plan_create() checks, for calls that are traced and planned later."""
    if query_hw:
        pixels = sum(h * w for h, w in query_hw)
        if pixels != query_count:
            raise InvalidArgumentError(
                f"query_hw has {pixels} pixels in all: must be query_count, which is {query_count}"
            )


def points_of_levels(points: Any, level_count: int, total: int) -> Any:
    """Points of the levels: as given, or the same on all of them."""
    if points is None:
        points = total // max(level_count, 1)
        if points * level_count != total:
            raise InvalidArgumentError(
                f"points is None: must be given, {total} points are not the "
                f"same number on each of {level_count} levels"
            )
    return points


def level_placement(
    given: Any, levels: Any, border: bool, token_count: int
) -> dict[str, Any]:
    """The fields of Problem that place the levels as level_start_index has them, in any order and
    with gaps; none where the levels follow one another."""
    if given is None:
        return {}
    sizes = [(h + 2 * border) * (w + 2 * border) for h, w in levels]
    packed = tuple(itertools.accumulate(sizes[:-1], initial=0))[: len(sizes)]
    if given == packed and token_count == sum(sizes):
        return {}
    if not isinstance(given, tuple) or len(given) != len(sizes):
        raise InvalidArgumentError(
            f"level_start_index is {given}: must have one for each of the "
            f"{len(sizes)} levels"
        )
    for level, (start, size) in enumerate(zip(given, sizes)):
        if not 0 <= start <= token_count - size:
            raise InvalidArgumentError(
                f"level_start_index[{level}] is {start}: must be 0 to {token_count - size}, as the "
                f"level has {size} of value's {token_count} tokens"
            )
    return {"level_start": given, "token_count": token_count}
