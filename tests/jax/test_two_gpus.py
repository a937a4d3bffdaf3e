"""Calls split over the GPUs of one machine; conftest.py collects them where there are two or more."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from problems import LETTERS, RESULTS, arrays, everything, put

CASES = pytest.mark.parametrize("fused", [False, True], ids=["sampled-cuda", "fused-cuda"])


def compute(*given):
    return everything(given[:-1], given[-1])


def mesh():
    return Mesh(np.array(jax.local_devices(backend="cuda")[:2]), ("x",))


def problem(fused):
    given = arrays(fused, "float64", batch=4, queries=8, heads=4)
    return [np.asarray(array) for array in given.values()]


def check(found, wanted):
    """A kernel may be another one for another size."""
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12, atol=1e-12)


@CASES
@pytest.mark.parametrize("letter", "bqm")
def test_batch_heads_and_queries_may_be_split(fused, letter):
    given = problem(fused)
    wanted = compute(*[put(array, "float64", "cuda") for array in given])
    split = lambda own: PartitionSpec(*["x" if one == letter else None for one in own])
    into = [NamedSharding(mesh(), split(own)) for own in LETTERS[fused]]
    found = jax.jit(compute, in_shardings=into)(*given)
    check(found, wanted)
    for one, own in zip(found, RESULTS[fused], strict=True):
        assert one.sharding.is_equivalent_to(NamedSharding(mesh(), split(own)), one.ndim)


@CASES
@pytest.mark.parametrize("letter", "bqm")
def test_shard_map_has_the_values_of_one_gpu(fused, letter):
    given = problem(fused)
    wanted = compute(*[put(array, "float64", "cuda") for array in given])
    split = lambda own: PartitionSpec(*["x" if one == letter else None for one in own])
    into, out = tuple(map(split, LETTERS[fused])), tuple(map(split, RESULTS[fused]))
    mapped = jax.jit(jax.shard_map(compute, mesh=mesh(), in_specs=into, out_specs=out))
    placed = [jax.device_put(array, NamedSharding(mesh(), spec)) for array, spec in zip(given, into)]
    check(mapped(*placed), wanted)


@CASES
def test_each_gpu_computes_on_its_own_memory(fused):
    """Programs of one GPU while the other one has work, in turn."""
    given = problem(fused)
    wanted = compute(*[put(array, "float64", "cuda") for array in given])
    compiled = jax.jit(compute)
    for _ in range(3):
        found = [compiled(*[jax.device_put(array, device) for array in given]) for device in mesh().devices.flat]
        for device, results in zip(mesh().devices.flat, found):
            assert all(one.devices() == {device} for one in results)
            check(results, wanted)
