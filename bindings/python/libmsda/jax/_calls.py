"""attend(): the call as a function with gradients."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from .._core.errors import InvalidArgumentError
from ._local import Call
from ._operator import bind

Operands = tuple[jax.Array, ...]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def attend(call: Call, inputs: Operands, value_scale: jax.Array | None) -> jax.Array:
    """The output of a forward call."""
    return bind(call, _operands(inputs, value_scale))[0]


def _operands(inputs: Operands, value_scale: jax.Array | None) -> Operands:
    return inputs if value_scale is None else (*inputs, value_scale)


def _forward(call: Call, inputs: Any, value_scale: Any) -> Any:
    if value_scale is not None:
        if value_scale.perturbed:
            raise InvalidArgumentError(
                "value_scale requires a gradient, which is not computed: give "
                "jax.lax.stop_gradient(value_scale)"
            )
        value_scale = value_scale.value
    # Which gradients are wanted is known here alone. Residuals are arrays, but their structure is static.
    wanted = tuple(() if x.perturbed else None for x in inputs)
    inputs = tuple(x.value for x in inputs)
    return attend(call, inputs, value_scale), (inputs, value_scale, wanted)


def _backward(call: Call, residuals: Any, grad_output: Any) -> Any:
    inputs, value_scale, marks = residuals
    wanted = [mark is not None for mark in marks]
    if not any(wanted):
        return tuple(None for _ in inputs), None
    if isinstance(grad_output, SymbolicZero):
        grad_output = jnp.zeros(grad_output.shape, grad_output.dtype)
    found = iter(bind(call.backward(wanted), _operands((*inputs, grad_output), value_scale)))
    # JAX's gradients have the types of their inputs; that of float8 values is computed in float32.
    gradients = (next(found).astype(x.dtype) if want else None for x, want in zip(inputs, wanted))
    return tuple(gradients), None


attend.defvjp(_forward, _backward, symbolic_zeros=True)


def aligned(*arrays: jax.Array | None) -> list[jax.Array | None]:
    """The arrays, within jax.shard_map all of them varying along the same axes of the mesh. A gradient of
    one that does not vary is then summed along the axes that others vary along."""
    axes = [_varying(x) for x in arrays]
    together = frozenset().union(*axes)
    return [
        x if x is None or not together - own else _cast(x, tuple(sorted(together - own)))
        for x, own in zip(arrays, axes)
    ]


def _varying(array: Any) -> frozenset[str]:
    if array is None or not hasattr(jax, "typeof"):
        return frozenset()
    kind: Any = jax.typeof(array)
    return getattr(getattr(kind, "mat", None), "varying", None) or getattr(kind, "vma", frozenset())


def _cast(array: jax.Array, axes: tuple[str, ...]) -> jax.Array:
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(array, axes, to="varying")
    return jax.lax.pvary(array, axes)
