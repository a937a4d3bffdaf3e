"""The functions on arrays of torch and JAX: the bits of numpy, in the caller's kind of array."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"  # on a GPU too: JAX arrays must be on the CPU

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import libmsda
import libmsda.torch

LEVELS = ((10, 10), (5, 5))
KINDS = {"torch": (torch.from_numpy, torch.Tensor), "jax": (jnp.asarray, jax.Array)}


@pytest.fixture
def arrays():
    rng = np.random.default_rng(3)
    value = rng.standard_normal((2, 125, 4, 8)).astype(np.float32)
    coord = rng.uniform(-0.1, 1.1, (2, 9, 4, 8, 2)).astype(np.float32)
    return value, coord, rng.random((2, 9, 4, 8)).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_same_bits_and_kind(arrays, kind):
    make, result = KINDS[kind]
    value, coord, weight = arrays
    output = libmsda.forward(value, LEVELS, coord, weight)
    gradients = libmsda.backward(value, LEVELS, coord, weight, output)
    v, c, w = map(make, arrays)
    found = libmsda.forward(v, LEVELS, c, w)
    assert isinstance(found, result) and np.array_equal(np.asarray(found), output)
    for one, expected in zip(libmsda.backward(v, LEVELS, c, w, found), gradients):
        assert isinstance(one, result) and np.array_equal(np.asarray(one), expected)


def test_strided_tensors_are_read_where_they_lie(arrays):
    value, coord, weight = map(torch.from_numpy, arrays)
    expected = libmsda.forward(value, LEVELS, coord, weight)
    turned = value.permute(0, 2, 1, 3).contiguous().permute(0, 2, 1, 3)
    assert torch.equal(libmsda.forward(turned, LEVELS, coord, weight), expected)
    spread = value.repeat_interleave(2, -1)[..., ::2]
    assert torch.equal(libmsda.forward(spread, LEVELS, coord, weight), expected)


@pytest.mark.parametrize("function", [libmsda.forward, libmsda.torch.forward])
def test_explain_of_tensors(arrays, function):
    value, coord, weight = [torch.from_numpy(a).requires_grad_() for a in arrays]
    text = libmsda.explain(function, value, LEVELS, coord, weight, math_mode="fast")
    threads = None if function is libmsda.forward else torch.get_num_threads()
    numpys = libmsda.explain(
        libmsda.forward, arrays[0], LEVELS, *arrays[1:], math_mode="fast", threads=threads
    )
    assert text == numpys and text.startswith("1  simd.cpu.f32@2")
    grad_output = torch.ones(2, 9, 4, 8)
    arguments = value, LEVELS, coord, weight, grad_output
    assert libmsda.explain(libmsda.backward, *arguments, deterministic=False).startswith("1  simd")
    with pytest.raises(libmsda.InvalidArgumentError, match="value is a torch.strided tensor on meta"):
        libmsda.explain(function, value.to("meta"), LEVELS, coord, weight)


def test_refused(arrays):
    value, coord, weight = map(torch.from_numpy, arrays)
    for wrong, words in [
        (value.clone().requires_grad_(), "value requires a gradient"),
        (value.to("meta"), "value is a torch.strided tensor on meta"),
        (value.to_sparse(), "value is a torch.sparse_coo tensor"),
        (value.long(), "value.dtype is 'int64': must be one of"),
    ]:
        with pytest.raises(libmsda.InvalidArgumentError, match=words):
            libmsda.forward(wrong, LEVELS, coord, weight)
    with pytest.raises(libmsda.InvalidArgumentError, match="coord is numpy.ndarray: must be a torch"):
        libmsda.forward(value, LEVELS, arrays[1], weight)
    with pytest.raises(libmsda.InvalidArgumentError, match="value is traced by JAX"):
        jax.jit(lambda x: libmsda.forward(x, LEVELS, *arrays[1:]))(arrays[0])
