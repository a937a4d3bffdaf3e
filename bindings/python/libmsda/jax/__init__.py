"""The operator for JAX, with gradients, under jit, vmap, remat, shard_map and shardings.

    import libmsda.jax
    output = jax.jit(lambda *x: libmsda.jax.forward(x[0], level_hw, *x[1:]))(value, coord, weight)

forward, forward_fused    differentiable functions on arrays of the CPU and CUDA devices
MSDeformAttn              the whole attention module for flax.nnx: the operator with its four linear layers

Every call is one custom call of XLA, by libmsda_jax.so; no Python runs in a compiled program.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from .._arrays.view import View
from .._core.errors import InvalidArgumentError
from .._core.handle import CPU
from .._functions import check_query_grids, problem_of
from .._options import Options
from .._plan import check_scale
from ._calls import aligned, attend
from ._local import Call

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import SharedKeywords
    from ._module import MSDeformAttn

__all__ = ["MSDeformAttn", "forward", "forward_fused"]


def forward(
    value: jax.Array,
    level_hw: Sequence[Sequence[int]],
    coord: jax.Array,
    weight: jax.Array,
    *,
    out_dtype: Any = None,
    value_scale: jax.Array | None = None,
    deterministic: bool = True,
    **settings: "Unpack[SharedKeywords]",
) -> jax.Array:
    """Multi-scale deformable attention of arrays, with gradients by value, coord and weight.

    output[b,q,m,:] = sum over points of weight * sample, where a point (x, y) on a level of H x W
    pixels samples value bilinearly at px = x W - 1/2, py = y H - 1/2; pixels outside the level count
    as zero, and a point that is not finite contributes nothing.

    B batch, S tokens (pixels of all levels), M heads, D channels of a head, Q queries, L levels,
    P points of a level, K points of all levels together.

    value       [B,S,M,D] float64, float32, float16, bfloat16 or float8_e4m3fn: the levels one after
                another, each row by row.
    level_hw    [L,2] integers (H, W), in pixels: the height first. They are part of the compiled
                program, so a traced array is refused: give integers.
    coord       [B,Q,M,K,2] or [B,Q,M,L,P,2]: (x, y), 0 to 1 is the extent of the level.
    weight      [B,Q,M,K] or [B,Q,M,L,P]
                coord and weight each have float64, float32, float16 or bfloat16 elements.
    out_dtype   of the output; None: that of value, float32 for float8 values.
    value_scale [M] float32: multiplies the values of each head; float8 values only. It has no gradient.
    deterministic    False allows gradients whose last bits differ from run to run, on a GPU.
    settings    points, level_start_index, value_border, query_hw, point_locality, math_mode, kernel,
                threads and sampling_mode, as help(libmsda.Options) describes them. threads=None: all of
                the CPU.

    Gradients are computed for the inputs that are differentiated, each of its input's type; gradients
    of gradients are not. On a CUDA device the call runs on the stream of the program, and may be part of
    a command buffer.

    Returns [B,Q,M,D]. Raises, where the call is traced, libmsda.InvalidArgumentError (a ValueError)
    that names the argument, its value and what is allowed; and, where the program is compiled,
    libmsda.UnsupportedError (a NotImplementedError) where no kernel takes the problem.
    """
    arrays = {"value": value, "coord": coord, "weight": weight}
    return _forward(arrays, level_hw, settings, value_scale, out_dtype, deterministic)


def forward_fused(
    value: jax.Array,
    level_hw: Sequence[Sequence[int]],
    reference: jax.Array,
    offset: jax.Array,
    logit: jax.Array,
    *,
    out_dtype: Any = None,
    value_scale: jax.Array | None = None,
    deterministic: bool = True,
    **settings: "Unpack[SharedKeywords]",
) -> jax.Array:
    """forward() with the softmax and the sampling locations computed inside.

    weight = softmax(logit) over all K points of a query and head, and for a point on a level of
    H x W pixels with P points

        coord = reference + offset / (W, H)                        reference (x, y)
        coord = reference.xy + offset / P * reference.wh / 2       reference (cx, cy, w, h)

    value       [B,S,M,D] float64, float32, float16, bfloat16 or float8_e4m3fn.
    level_hw    [L,2] integers (H, W), in pixels: the height first; no traced array.
    reference   [B,Q,L,2] or [B,Q,L,4]: points or boxes, 0 to 1 over the level; [B,Q,1,...]: for every
                level. Of offset's type.
    offset      [B,Q,M,K,2] or [B,Q,M,L,P,2]: in pixels of the point's level, or with boxes in units
                of their size / (2 P).
    logit       [B,Q,M,K] or [B,Q,M,L,P]
                offset and logit each have float64, float32, float16 or bfloat16 elements.
    out_dtype, value_scale, deterministic, settings    as in forward(), and so are the letters and streams.

    Gradients are computed by value, reference, offset and logit.

    Returns [B,Q,M,D]. Raises, where the call is traced, libmsda.InvalidArgumentError (a ValueError)
    that names the argument, its value and what is allowed; and, where the program is compiled,
    libmsda.UnsupportedError (a NotImplementedError) where no kernel takes the problem.
    """
    arrays = {"value": value, "reference": reference, "offset": offset, "logit": logit}
    return _forward(arrays, level_hw, settings, value_scale, out_dtype, deterministic)


def _forward(
    arrays: dict[str, Any],
    level_hw: Any,
    settings: Mapping[str, Any],
    value_scale: Any,
    out_dtype: Any,
    deterministic: bool,
) -> jax.Array:
    for name in settings:
        if name not in _SETTINGS:
            raise TypeError(
                f"unexpected keyword argument {name!r}; there are {', '.join(_SETTINGS)}"
            )
    for name, given in (("level_hw", level_hw), *settings.items()):
        if isinstance(given, jax.core.Tracer):
            raise InvalidArgumentError(
                f"{name} is a traced array: must be of Python's integers, as the program is compiled for "
                "them; give it to the function that is traced as a static argument or by a closure"
            )
    views = {name: _view(name, array) for name, array in arrays.items()}
    options = Options(**settings)
    problem, _, repeated = problem_of(views, level_hw, options, out_dtype=out_dtype)
    check_query_grids(options.query_hw, problem.query_count)
    if value_scale is not None:
        check_scale(_view("value_scale", value_scale), problem.value_dtype, problem.head_count)
        value_scale = jnp.asarray(value_scale)
    inputs = [jnp.asarray(array) for array in arrays.values()]
    if repeated:
        inputs[1] = jnp.broadcast_to(inputs[1], problem.shape("reference"))
    inputs = [x.reshape(problem.shape(name)) for name, x in zip(arrays, inputs)]
    call = Call(problem, options.kernel, options.threads or 0, bool(deterministic))
    *inputs, value_scale = aligned(*inputs, value_scale)
    return attend(call, tuple(inputs), value_scale)


_SETTINGS = (
    "points",
    "level_start_index",
    "value_border",
    "query_hw",
    "point_locality",
    "math_mode",
    "kernel",
    "threads",
    "sampling_mode",
)


def _view(name: str, array: Any) -> View:
    """An array's shape and type, which are those that it has in a program."""
    if not (hasattr(array, "shape") and hasattr(array, "dtype")):
        raise InvalidArgumentError(
            f"{name} is {type(array).__name__}: must be an array of JAX or numpy"
        )
    dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    return View(0, tuple(array.shape), None, str(dtype), CPU)


def __getattr__(name: str) -> Any:
    """The module is imported when it is asked for, and flax with it."""
    if name == "MSDeformAttn":
        from ._module import MSDeformAttn

        return MSDeformAttn
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
