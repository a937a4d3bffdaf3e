"""The primitive of a program, `msda`, which vmap and shardings know."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from .._core.errors import UnsupportedError
from ._local import Call, local, primitive
from ._sharding import sharded


def bind(call: Call, operands: Sequence[jax.Array]) -> list[jax.Array]:
    """The call's results in their order. Operands are the problem's inputs, and value_scale where there
    is one."""
    # Within shard_map the caller has split the arrays; the partitioner of a mesh knows no part of a mesh.
    compute = local if _is_mapped() else sharded
    body = jax.make_jaxpr(functools.partial(compute, call))(*operands)
    return _whole.bind(*operands, call=call, body=body)


def _is_mapped() -> bool:
    mesh_of_trace = getattr(jax.sharding, "get_abstract_mesh", None)
    return bool(mesh_of_trace and getattr(mesh_of_trace(), "manual_axes", ()))


_whole = primitive("msda")


@functools.lru_cache(1024)
def _compiled(call: Call) -> Any:
    return jax.jit(lambda *operands: bind(call, operands))


@_whole.def_impl
def _run(*operands: jax.Array, call: Call, body: ClosedJaxpr) -> list[jax.Array]:
    with jax.disable_jit(False):
        return _compiled(call)(*operands)


def _refuse(*_: Any, call: Call, **__: Any) -> Any:
    raise UnsupportedError(
        f"libmsda.jax: {call.target} has no derivative here: gradients of gradients are not computed"
    )


ad.primitive_jvps[_whole] = _refuse


def _batch(operands: Any, dims: Any, *, call: Call, body: ClosedJaxpr) -> Any:
    """vmap: its axis and the batch's are one."""
    count = len(call.problem.inputs)
    if any(dim is not None for dim in dims[count:]):
        raise UnsupportedError("libmsda.jax: value_scale differs along an axis of vmap: must not")
    (size,) = {x.shape[dim] for x, dim in zip(operands, dims) if dim is not None}

    def folded(x: Any, dim: Any) -> Any:
        if dim is None:
            x = jnp.broadcast_to(x, (size, *x.shape))
        else:
            x = jnp.moveaxis(x, dim, 0)
        return x.reshape(size * x.shape[1], *x.shape[2:])

    inputs = [folded(x, dim) for x, dim in zip(operands[:count], dims)]
    found = bind(call.sized(batch=size * call.problem.batch), [*inputs, *operands[count:]])
    batch = call.problem.batch
    return [x.reshape(size, batch, *x.shape[1:]) for x in found], [0] * len(found)


batching.primitive_batchers[_whole] = _batch


def _lower_whole(*operands: Any, call: Call, body: ClosedJaxpr) -> Any:
    return jaxpr_as_fun(body)(*operands)


mlir.register_lowering(_whole, mlir.lower_fun(_lower_whole, multiple_results=True))
