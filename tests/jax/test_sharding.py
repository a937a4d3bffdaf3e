"""Calls split over the 8 devices of a mesh: the values of one device, and no more moved than has to be."""

import contextlib
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from problems import LETTERS, RESULTS, arrays, assert_same_bits, call, everything

# Sums over the queries, and over the heads, have another order on several devices than on one.
PARTIAL = {False: (1,), True: (1, 2)}


def mesh():
    return Mesh(np.array(jax.devices("cpu")).reshape(2, 2, 2), ("x", "y", "z"))


def shardings(axes, letters):
    """Of arrays with these letters, `axes` being what splits each letter."""
    return [NamedSharding(mesh(), PartitionSpec(*map(axes.get, own))) for own in letters]


def compute(*given):
    return everything(given[:-1], given[-1])


def check(found, wanted, fused, dtype="float32"):
    for index, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if index in PARTIAL[fused]:
            error = float(jnp.finfo(dtype).eps) * 4
            np.testing.assert_allclose(one.astype("f8"), other.astype("f8"), rtol=error, atol=error)
        else:
            assert_same_bits(one, other)


def problem(fused, **sizes):
    """Inputs and grad_output, on the host."""
    given = arrays(fused, **{"batch": 4, "queries": 8, "heads": 4, **sizes})
    return [np.asarray(array) for array in given.values()]


@pytest.fixture(autouse=True)
def known_mesh():
    """Before JAX 0.5 the partitioner knew no mesh but that of the context."""
    with contextlib.nullcontext() if hasattr(jax, "shard_map") else mesh():
        yield


mapped = pytest.mark.skipif(not hasattr(jax, "shard_map"), reason="jax.shard_map came with JAX 0.6")


@pytest.mark.parametrize("fused", [False, True], ids=["sampled", "fused"])
def test_every_axis_of_the_mesh_may_split_batch_heads_and_queries(fused):
    given = problem(fused)
    wanted = compute(*given)
    for b, q, m in [*itertools.permutations("xyz"), (("x", "y"), "z", None), (None, ("y", "x"), "z"), (None,) * 3]:
        axes = {"b": b, "q": q, "m": m}
        into = shardings(axes, LETTERS[fused])
        found = jax.jit(compute, in_shardings=into)(*given)
        check(found, wanted, fused)
        for one, own in zip(found, shardings(axes, RESULTS[fused]), strict=True):
            assert one.sharding.is_equivalent_to(own, one.ndim), (b, q, m)


@pytest.mark.parametrize("fused", [False, True], ids=["sampled", "fused"])
def test_arrays_may_be_split_in_any_other_way(fused):
    """Along tokens, channels, levels, points and each array in its own way: moved, but never wrong."""
    given = problem(fused)
    wanted = compute(*given)
    rng = np.random.default_rng(3)
    for _ in range(4):
        into = []
        for array in given:
            entries = [None] * array.ndim
            for axis in "xyz":
                place = rng.integers(array.ndim)
                if entries[place] is None and array.shape[place] % 2 == 0:
                    entries[place] = axis
            into.append(NamedSharding(mesh(), PartitionSpec(*entries)))
        out = [NamedSharding(mesh(), PartitionSpec(*[None] * rng.integers(4), "y")) for _ in wanted]
        out = [s if x.shape[len(s.spec) - 1] % 2 == 0 else None for s, x in zip(out, wanted)]
        check(jax.jit(compute, in_shardings=into, out_shardings=tuple(out))(*given), wanted, fused)


def test_sizes_that_the_mesh_does_not_divide():
    given = problem(False, batch=3, queries=7, heads=5)
    wanted = compute(*given)
    of_queries = NamedSharding(mesh(), PartitionSpec(None, ("x", "y")))

    def constrained(*given):
        value, *rest = given
        return compute(value, *[jax.lax.with_sharding_constraint(x, of_queries) for x in rest])

    check(jax.jit(constrained)(*given), wanted, False)


def test_the_split_is_that_of_the_program():
    """Local sizes of the custom calls; only grad_value is added up, only over the queries' axis."""
    into = shardings({"b": "x", "q": "y", "m": "z"}, LETTERS[False])
    given = [jax.device_put(x, s) for x, s in zip(problem(False), into)]
    text = jax.jit(compute).lower(*given).compile().as_text()
    calls = re.findall(r"= \(([^)]*)\)[^\n]*custom_call_target=\"msda_cpu_(\w+)\"", text)
    sizes = {name: re.findall(r"f32\[([\d,]+)\]", shapes) for shapes, name in calls}
    assert sizes["forward"] == ["2,4,2,4"]
    assert sizes["backward"] == ["2,36,2,4", "2,4,2,8,2", "2,4,2,8"]
    assert "all-gather" not in text and "all-to-all" not in text and "collective-permute" not in text
    reduced = re.findall(r"= (\S+) all-reduce(?:-start)?\([^\n]*replica_groups=(\S+),", text)
    assert len(reduced) == 1 and reduced[0][0].startswith("f32[2,36,2,4]")


def test_partial_sums_of_16_bits_are_added_before_they_are_rounded():
    given = problem(False, dtype="bfloat16")
    into = shardings({"q": ("x", "y", "z")}, LETTERS[False])
    found = jax.jit(compute, in_shardings=into)(*given)
    wanted = compute(*given)
    # The sums of one device are rounded once. Those of 8 would differ in a third of the elements, rounded before.
    different = np.asarray(found[1] != wanted[1]).mean()
    assert found[1].dtype == jnp.bfloat16 and different < 0.01
    check(found, wanted, False, "bfloat16")


def test_a_hint_on_queries_and_a_scale_of_heads_are_split_with_them():
    *inputs, _ = problem(False)
    scale = np.linspace(0.5, 2, 4).astype("float32")
    inputs[0] = inputs[0].astype(jnp.dtype("float8_e4m3fn"))
    function = lambda *given: call(*given[:3], query_hw=((4, 2),), value_scale=given[3])
    wanted = function(*inputs, scale)
    into = shardings({"q": "x", "m": ("y", "z")}, [*LETTERS[False][:3], "m"])
    assert_same_bits(jax.jit(function, in_shardings=into)(*inputs, scale), wanted)


def specs(axes, letters):
    return tuple(PartitionSpec(*map(axes.get, own)) for own in letters)


@mapped
@pytest.mark.parametrize("fused", [False, True], ids=["sampled", "fused"])
def test_shard_map_adds_up_the_gradient_of_what_is_not_split(fused):
    given = problem(fused)
    wanted = compute(*given)
    axes = {"b": "x", "q": "y", "m": "z"}
    into, out = specs(axes, LETTERS[fused]), specs(axes, RESULTS[fused])
    function = jax.jit(jax.shard_map(compute, mesh=mesh(), in_specs=into, out_specs=out))
    check(function(*given), wanted, fused)


@mapped
def test_shard_map_over_some_axes_leaves_the_others_to_the_partitioner():
    given = problem(False)
    wanted = compute(*given)
    axes = {"b": "x"}
    function = jax.shard_map(
        compute, mesh=mesh(), axis_names={"x"}, in_specs=specs(axes, LETTERS[False]), out_specs=specs(axes, RESULTS[False])
    )
    into = shardings({"b": "x", "m": "z"}, LETTERS[False])
    check(jax.jit(function, in_shardings=into)(*given), wanted, False)
