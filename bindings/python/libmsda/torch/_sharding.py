"""How DTensor splits the operators over a mesh: by batch, heads or queries along each of its axes.

All tokens, levels, points and channels are on every device. Where queries are split, grad_value is a partial
sum; where heads are, grad_reference is."""

import functools
import sys
from collections.abc import Sequence
from typing import Any

from . import _operators

# The axis of batch, heads and queries in each tensor; None: the tensor has none.
AXES: dict[str, dict[str, int | None]] = {
    "batch": {"value_scale": None},
    "heads": {"reference": None, "value_scale": 0},
    "queries": {"value": None, "value_scale": None},
}
USUAL = {"batch": 0, "heads": 2, "queries": 1}


def prepare() -> None:
    """Registers the rules, once there can be a DTensor: importing it takes more than a second. Called when
    libmsda.torch is imported and by calls that are no plain ones, but not in compiled code."""
    if "torch.distributed.tensor" in sys.modules:
        _register()


@functools.cache
def _register() -> None:
    try:
        from torch.distributed.tensor import DTensor
        from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
        from torch.distributed.tensor.experimental import register_sharding

        known = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info  # type: ignore[attr-defined]
    except (ImportError, AttributeError):
        return  # a PyTorch with other names inside: it says itself that an operator has no sharding rule
    for names, operators in _operators.operators.items():
        results = {operators.forward: ("output",), operators.backward: None}
        if operators.with_attention is not None:
            results[operators.with_attention.forward] = ("output", "attention")
        for operator, computed in results.items():
            register_sharding(operator)(functools.partial(_rules, names, computed))
            # All arguments behind the tensors count: which gradients are wanted, say.
            first = len(names) + (computed is None)
            known[operator] = RuntimeSchemaInfo(static_argnum=first, needs_pytree=True)


def _rules(
    names: Sequence[str], computed: Sequence[str] | None, *given: Any
) -> list[tuple[list[Any], list[Any]]]:
    """Pairs of placements: of the results, and of the arguments. `computed` are the results of a forward
    operator; None: it is a backward one."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    is_backward = computed is None
    tensors = ("grad_output", *names) if is_backward else names
    count = len(tensors)
    after = dict(enumerate(given[count:]))  # level_hw, out_dtype or wanted, value_scale, settings
    wanted = after.get(1) if is_backward else None
    has_scale, query_hw = after.get(2) is not None, after.get(6)
    rules = []

    def add(place: Any, partial: str | None) -> None:
        rest = [place("value_scale") if has_scale and at == 2 else None for at in after]
        results = [place(name) for name in computed or ()]
        if wanted is not None:
            results = [Partial() if name == partial else place(name) for name in names]
            results = [one if want else Replicate() for one, want in zip(results, wanted)]
        rules.append((results, [*map(place, tensors), *rest]))

    add(lambda _: Replicate(), None)
    for split, axes in AXES.items():
        if split == "queries" and query_hw:
            continue  # a part of the queries is no whole grids

        def place(name: str, axes: Any = axes, usual: int = USUAL[split]) -> Any:
            axis = axes.get(name, usual)
            return Replicate() if axis is None else Shard(axis)

        add(place, {"queries": "value", "heads": "reference"}.get(split))
    return rules
