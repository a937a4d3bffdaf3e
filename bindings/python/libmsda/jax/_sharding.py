"""How a call is split over the devices of a mesh: by batch, heads and queries, each independently.

All tokens, levels, points and channels are on every device. Where queries are split, each device has a
part of the sum that grad_value is; where heads are, of grad_reference. The parts are added up over the
axes of the mesh that split them.
"""

import inspect
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._core.problem import TENSORS
from ._local import Call, local

SPLIT = {"B": "batch", "M": "head_count", "Q": "query_count"}  # letters of axes, fields of Problem
Axes = dict[str, tuple[str, ...]]  # of a letter those of the mesh that split it


def _letters(call: Call) -> tuple[list[str], list[str]]:
    """The axes of each operand and of each result. value_scale is among them, whether it is given or not."""
    inputs = [TENSORS[name][0] for name in call.problem.inputs]
    return [*inputs, "M"], [TENSORS[name][0] for name in call.results]


def _entries(spec: Any) -> list[tuple[str, ...]]:
    return [(e,) if isinstance(e, str) else tuple(e or ()) for e in spec]


def _chosen(call: Call, mesh: Mesh, letters: Sequence[str], shapes: Sequence[Any]) -> Axes:
    """The axes of the mesh that split each letter: those of the first array that has some, where they divide
    its size and split no other letter."""
    found: Axes = {}
    for letter, field in SPLIT.items():
        size = getattr(call.problem, field)
        for axes_of_array, shape in zip(letters, shapes):
            spec = getattr(shape.sharding, "spec", None)
            if letter not in axes_of_array or spec is None:
                continue
            entries = _entries(spec)
            place = axes_of_array.index(letter)
            axes = entries[place] if place < len(entries) else ()
            taken = {axis for other in found.values() for axis in other}
            parts = math.prod(mesh.shape[axis] for axis in axes)
            if axes and not taken & set(axes) and size and size % parts == 0:
                found[letter] = axes
                break
    return found


def _shardings(mesh: Mesh, axes: Axes, letters: Sequence[str]) -> tuple[NamedSharding, ...]:
    spec = lambda own: PartitionSpec(*[axes.get(letter) for letter in own])
    return tuple(NamedSharding(mesh, spec(own)) for own in letters)


def _split(call: Call, mesh: Mesh, operands: Any, results: Any) -> tuple[Mesh, Axes]:
    """The mesh, and what it splits. Releases of JAX that do not know the mesh give an empty one: then all
    devices compute everything."""
    of_operands, of_results = _letters(call)
    if not mesh.empty:
        # Results first: what is chosen for them is where the caller wants them.
        pairs = [*zip(of_results, results), *zip(of_operands, operands)]
        pairs = [(own, shape) for own, shape in pairs if getattr(shape, "sharding", None)]
        return mesh, _chosen(call, mesh, *zip(*pairs)) if pairs else {}
    devices = [*operands[0].sharding.devices_indices_map(operands[0].shape)]
    return Mesh(np.array(devices), ("every",)), {}


def _partition(call: Call, mesh: Mesh, operands: Any, results: Any) -> Any:
    """The call of one device. Its own specs are forced, whatever was proposed: another split is wrong."""
    mesh, axes = _split(call, mesh, operands, results)
    of_operands, of_results = _letters(call)
    sizes: dict[str, Any] = {}
    for letter, own in axes.items():
        parts = math.prod(mesh.shape[axis] for axis in own)
        sizes[SPLIT[letter]] = getattr(call.problem, SPLIT[letter]) // parts
    if "Q" in axes:
        sizes["query_hw"] = None  # a part of the queries is no whole grids; the hint changes no result
    partial = {"grad_value": axes.get("Q", ()), "grad_reference": axes.get("M", ())}
    wanted_dtype = call.problem.grad_value_dtype
    if partial["grad_value"] and jnp.dtype(wanted_dtype).itemsize < 4:
        sizes["grad_value_dtype"] = "float32"  # parts are added before they are rounded
    part = call.sized(**sizes)

    def compute(*given: jax.Array) -> tuple[jax.Array, ...]:
        found = []
        for name, result in zip(part.results, local(part, *given)):
            if own := partial.get(name):
                kind = jnp.dtype(call.problem.dtype(name))
                result = jax.lax.psum(result.astype(jnp.promote_types(kind, jnp.float32)), own)
                result = result.astype(kind)
            found.append(result)
        return tuple(found)

    given = of_operands[: len(operands)]
    return mesh, compute, _shardings(mesh, axes, of_results), _shardings(mesh, axes, given)


def _infer(call: Call, mesh: Mesh, operands: Any, results: Any) -> Any:
    """Where the partitioner is not Shardy: how results are split when operands are."""
    mesh, axes = _split(call, mesh, operands, ())
    return _shardings(mesh, axes, _letters(call)[1])


def _rule(call: Call, mesh: Any, operands: Any, results: Any) -> str:
    """For Shardy: axes with the same name are split alike."""
    of_operands, of_results = _letters(call)
    spaced = lambda letters: " ".join(letters.lower()).replace("2", "xy")
    given = of_operands[: len(operands)]
    return f"{', '.join(map(spaced, given))} -> {', '.join(map(spaced, of_results))}"


_partitioned = custom_partitioning(local, static_argnums=(0,))
_known = inspect.signature(custom_partitioning.def_partition).parameters
_partitioned.def_partition(
    _partition,
    infer_sharding_from_operands=_infer,
    **({"sharding_rule": _rule} if "sharding_rule" in _known else {}),
)


def sharded(call: Call, *operands: jax.Array) -> tuple[jax.Array, ...]:
    """The call's results, split over the devices of the program."""
    return _partitioned(call, *operands)
