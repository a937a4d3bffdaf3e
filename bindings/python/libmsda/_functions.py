"""forward and backward in one call: the problem is read off the arrays, planned and executed."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ._arrays import PACKED, check_array, outer_strides, to_array
from ._errors import InvalidArgumentError
from ._plan import Handle, Plan, default_handle
from ._problem import STRIDES, TENSORS, Problem


class Gradients(NamedTuple):
    """Gradients of forward()'s inputs, each of its input's shape; None where not wanted."""

    value: np.ndarray | None
    coord: np.ndarray | None
    weight: np.ndarray | None


class FusedGradients(NamedTuple):
    """Gradients of forward_fused()'s inputs, each of its input's shape; None where not wanted."""

    value: np.ndarray | None
    reference: np.ndarray | None
    offset: np.ndarray | None
    logit: np.ndarray | None


def forward(
    value: ArrayLike,
    level_hw: ArrayLike,
    coord: ArrayLike,
    weight: ArrayLike,
    *,
    points: Any = None,
    value_scale: ArrayLike | None = None,
    value_border: bool = False,
    query_hw: Any = None,
    math_mode: str = "accurate",
    out: np.ndarray | None = None,
    out_dtype: DTypeLike | None = None,
    kernel: str | None = None,
    threads: int | None = None,
    handle: Handle | None = None,
) -> np.ndarray:
    """Multi-scale deformable attention: output[b,q,m,:] = sum over points of weight * sample.

    A point (x, y) on a level of H x W pixels samples bilinearly at px = x W - 1/2, py = y H - 1/2;
    pixels outside the level count as zero. (Zhu et al., Deformable DETR, ICLR 2021, equations 2
    and 3 without the linear layers.) A point that is not finite contributes nothing.

    B batch, S tokens (pixels of all levels), M heads, D channels of a head, Q queries, L levels,
    K points of all levels together.

    value     [B,S,M,D]      float64, float32, float16, bfloat16 or float8_e4m3fn: the levels one
                             after another, each row by row.
    level_hw  [L,2]          integers (H, W), in pixels.
    coord     [B,Q,M,K,2] or [B,Q,M,L,P,2]    (x, y), 0 to 1 is the extent of the level.
    weight    [B,Q,M,K] or [B,Q,M,L,P]
              coord and weight each have float64, float32, float16 or bfloat16 elements.
    points    how many each level has: one number, or L of them that sum to K. None: all the same.
    value_scale  [M] float32: multiplies the values of each head. float8 values only.
    value_border True: each level is stored (H+2) x (W+2), with a border of zeros around it.
    query_hw  grids (H, W) whose pixels the queries are, in order: a hint for speed, never of effect.
    math_mode "accurate": sums in float32 (float64 for float64 values). "fast": 16-bit values may be
              summed in 16 bits, at most 8 at a time.
    out       [B,Q,M,D] to write into; None: a new array.
    out_dtype of a new output; None: that of value, float32 for float8 values.
    kernel    a kernel id of libmsda.kernels(); None: the one predicted to be fastest.
    threads   how many work on the call; None or 0: all. Never changes the result.
    handle    a Handle to run on, instead of threads.

    Arrays need not be contiguous: an outer axis may have any stride, or repeat. What the library
    cannot address (inner axes not packed, negative strides, foreign byte order) is copied first,
    except for out, where it is an error.

    Returns out. Raises InvalidArgumentError (a ValueError) that names the argument, its value and
    what is allowed; UnsupportedError where no kernel takes the problem.
    """
    arrays = _arrays(len(level_hw), value=value, coord=coord, weight=weight)
    return _forward(
        arrays,
        level_hw,
        points,
        out,
        out_dtype,
        dict(value_border=value_border, query_hw=query_hw, math_mode=math_mode),
        dict(kernel=kernel, threads=threads, handle=handle, value_scale=value_scale),
    )


def forward_fused(
    value: ArrayLike,
    level_hw: ArrayLike,
    reference: ArrayLike,
    offset: ArrayLike,
    logit: ArrayLike,
    *,
    points: Any = None,
    value_scale: ArrayLike | None = None,
    value_border: bool = False,
    query_hw: Any = None,
    math_mode: str = "accurate",
    out: np.ndarray | None = None,
    out_dtype: DTypeLike | None = None,
    kernel: str | None = None,
    threads: int | None = None,
    handle: Handle | None = None,
) -> np.ndarray:
    """forward() with the softmax and the sampling locations computed inside.

    weight = softmax(logit) over all K points of a query and head, and for a point on a level of
    H x W pixels with P points

        coord = reference + offset / (W, H)                        reference (x, y)
        coord = reference.xy + offset / P * reference.wh / 2       reference (cx, cy, w, h)

    reference [B,Q,L,2] or [B,Q,L,4]    normalised points or boxes.
    offset    [B,Q,M,K,2] or [B,Q,M,L,P,2], of reference's type.
    logit     [B,Q,M,K] or [B,Q,M,L,P]

    Everything else is as in forward().
    """
    arrays = _arrays(len(level_hw), value=value, reference=reference, offset=offset, logit=logit)
    return _forward(
        arrays,
        level_hw,
        points,
        out,
        out_dtype,
        dict(value_border=value_border, query_hw=query_hw, math_mode=math_mode),
        dict(kernel=kernel, threads=threads, handle=handle, value_scale=value_scale),
    )


def backward(
    value: ArrayLike,
    level_hw: ArrayLike,
    coord: ArrayLike,
    weight: ArrayLike,
    grad_output: ArrayLike,
    *,
    points: Any = None,
    wanted: tuple[str, ...] = ("value", "coord", "weight"),
    value_scale: ArrayLike | None = None,
    value_border: bool = False,
    query_hw: Any = None,
    math_mode: str = "accurate",
    deterministic: bool = True,
    grad_value_dtype: DTypeLike | None = None,
    kernel: str | None = None,
    threads: int | None = None,
    handle: Handle | None = None,
) -> Gradients:
    """Gradients of sum(forward(...) * grad_output) by value, coord and weight.

    grad_output       [B,Q,M,D]; float64, float32, float16 or bfloat16.
    wanted            which gradients are computed; the others are None.
    deterministic     False allows kernels whose bits differ from run to run.
    grad_value_dtype  None: that of value, float32 for float8 values.

    A gradient has the shape and type of its input. At a pixel line, where the sample has a kink,
    the derivative by coord is the right-hand one. Everything else is as in forward().
    """
    given = dict(value=value, coord=coord, weight=weight, grad_output=grad_output)
    return _backward(
        Gradients,
        _arrays(len(level_hw), **given),
        given,
        level_hw,
        points,
        wanted,
        dict(
            value_border=value_border,
            query_hw=query_hw,
            math_mode=math_mode,
            deterministic=deterministic,
            grad_value_dtype=grad_value_dtype,
        ),
        dict(kernel=kernel, threads=threads, handle=handle, value_scale=value_scale),
    )


def backward_fused(
    value: ArrayLike,
    level_hw: ArrayLike,
    reference: ArrayLike,
    offset: ArrayLike,
    logit: ArrayLike,
    grad_output: ArrayLike,
    *,
    points: Any = None,
    wanted: tuple[str, ...] = ("value", "reference", "offset", "logit"),
    value_scale: ArrayLike | None = None,
    value_border: bool = False,
    query_hw: Any = None,
    math_mode: str = "accurate",
    deterministic: bool = True,
    grad_value_dtype: DTypeLike | None = None,
    kernel: str | None = None,
    threads: int | None = None,
    handle: Handle | None = None,
) -> FusedGradients:
    """Gradients of sum(forward_fused(...) * grad_output) by value, reference, offset and logit.

    Everything is as in forward_fused() and backward().
    """
    given = dict(
        value=value, reference=reference, offset=offset, logit=logit, grad_output=grad_output
    )
    return _backward(
        FusedGradients,
        _arrays(len(level_hw), **given),
        given,
        level_hw,
        points,
        wanted,
        dict(
            value_border=value_border,
            query_hw=query_hw,
            math_mode=math_mode,
            deterministic=deterministic,
            grad_value_dtype=grad_value_dtype,
        ),
        dict(kernel=kernel, threads=threads, handle=handle, value_scale=value_scale),
    )


def _arrays(level_count: int, **given: ArrayLike) -> dict[str, np.ndarray]:
    """The inputs as arrays that the library can address, levels and points in one axis."""
    arrays = {}
    for name, array in given.items():
        array = to_array(name, array)
        axes = len(TENSORS[name][0])
        if "K" in TENSORS[name][0] and array.ndim == axes + 1:
            if array.shape[3] != level_count:
                raise InvalidArgumentError(
                    f"{name} has shape {array.shape}: axis 3 must be the {level_count} levels"
                )
            array = array.reshape(*array.shape[:3], math.prod(array.shape[3:5]), *array.shape[5:])
        if array.ndim != axes:
            raise InvalidArgumentError(
                f"{name} has shape {array.shape}: must be [{', '.join(TENSORS[name][0])}]"
            )
        strides = outer_strides(array)
        # grad_output has the strides of output, whose rows must not be one another's.
        repeated = name == "grad_output" and strides != PACKED and 0 in (strides or ())
        if name not in STRIDES or strides is None or repeated:
            array = np.ascontiguousarray(array)
        arrays[name] = array
    return arrays


def _points(points: Any, level_count: int, total: int) -> Any:
    """Points of the levels: as given, or the same on all of them."""
    if points is None:
        points = total // max(level_count, 1)
        if points * level_count != total:
            raise InvalidArgumentError(
                f"points is None: must be given, {total} points are not the "
                f"same number on each of {level_count} levels"
            )
    return points


def _problem(arrays: dict[str, np.ndarray], level_hw: Any, points: Any, **options: Any) -> Problem:
    value = arrays["value"]
    fused = "reference" in arrays
    point, weight = (arrays[n] for n in (("offset", "logit") if fused else ("coord", "weight")))
    if fused:
        options |= {"input_mode": "fused", "reference_dim": arrays["reference"].shape[3]}
    return Problem(
        level_hw=level_hw,
        points=_points(points, len(level_hw), point.shape[3]),
        batch=value.shape[0],
        query_count=point.shape[1],
        head_count=value.shape[2],
        head_dim=value.shape[3],
        value_dtype=value.dtype,
        coord_dtype=point.dtype,
        weight_dtype=weight.dtype,
        value_strides=outer_strides(value),
        coord_strides=outer_strides(point),
        weight_strides=outer_strides(weight),
        **options,
    )


def _execute(
    problem: Problem, kernel: str | None, threads: int | None, handle: Handle | None, **tensors: Any
) -> dict[str, np.ndarray]:
    if handle is not None and threads is not None:
        raise InvalidArgumentError(f"threads is {threads}: must be None when handle is given")
    plan = Plan(problem, kernel=kernel, handle=handle or default_handle(threads or 0))
    return plan.execute(**tensors)


def _forward(
    arrays: dict[str, np.ndarray],
    level_hw: Any,
    points: Any,
    out: np.ndarray | None,
    out_dtype: DTypeLike | None,
    problem_options: dict[str, Any],
    run_options: dict[str, Any],
) -> np.ndarray:
    if out is not None:
        if out_dtype is not None:
            raise InvalidArgumentError(
                f"out_dtype is {out_dtype!r}: must be None when out is given"
            )
        out_dtype = check_array("out", out).dtype
        # Plan.execute refuses an out of another shape, or that has no strides of this kind.
        strides = outer_strides(out) if out.ndim == 4 else None
        problem_options["output_strides"] = strides or PACKED
    problem = _problem(arrays, level_hw, points, output_dtype=out_dtype, **problem_options)
    return _execute(problem, **run_options, **arrays, output=out)["output"]


def _backward(
    kind: Any,
    arrays: dict[str, np.ndarray],
    given: dict[str, ArrayLike],
    level_hw: Any,
    points: Any,
    wanted: tuple[str, ...],
    problem_options: dict[str, Any],
    run_options: dict[str, Any],
) -> Any:
    """The gradients that are wanted as a `kind`, in the shapes of `given`."""
    for name in wanted:
        if name not in kind._fields:
            raise InvalidArgumentError(f"wanted has {name!r}: must be of {', '.join(kind._fields)}")
    if not wanted:
        return kind(*[None] * len(kind._fields))
    grad = arrays["grad_output"]
    problem = _problem(
        arrays,
        level_hw,
        points,
        operation="backward",
        output_dtype=grad.dtype,
        output_strides=outer_strides(grad),
        **problem_options,
    )
    found = _execute(problem, **run_options, **arrays, **{f"grad_{name}": True for name in wanted})
    return kind(
        **{
            name: found[f"grad_{name}"].reshape(np.shape(given[name])) if name in wanted else None
            for name in kind._fields
        }
    )
