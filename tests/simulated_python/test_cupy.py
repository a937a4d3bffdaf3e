"""Arrays like cupy's: new arrays, copies and the current stream are the package's own."""

import sys

import numpy as np
import pytest

import fake_cupy
import libmsda
from device_arrays import cuda, current
from libmsda._arrays import kinds
from test_devices import DEVICES, FUSED, LEVELS, assert_forward, exact, numbers


@pytest.fixture
def cupy(monkeypatch):
    module, _streams = fake_cupy.make()
    monkeypatch.setitem(sys.modules, "cupy", module)
    yield module
    for found in (kinds._kinds, kinds._by_type):  # which remember the module
        for key, kind in list(found.items()):
            if "CupyKind" in (getattr(key, "__name__", ""), type(kind).__name__):
                del found[key]


@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.parametrize("device", DEVICES)
def test_forward_and_backward(cupy, device, fused):
    given = numbers(fused)
    value, *rest = [cupy.ndarray(array, device) for array in given.values()]
    forward = libmsda.forward_fused if fused else libmsda.forward
    output = forward(value, LEVELS, *rest)
    assert type(output) is cupy.ndarray and output.device.id == device
    assert_forward(given, output.numpy())
    backward = libmsda.backward_fused if fused else libmsda.backward
    ones = np.ones(output.shape, np.float32)
    for found, wanted in zip(backward(value, LEVELS, *rest, cupy.ndarray(ones, device)), exact(given, ones)):
        assert type(found) is cupy.ndarray and found.device.id == device
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_attention_weights(cupy, device):
    given = numbers(True)
    value, *rest = [cupy.ndarray(array, device) for array in given.values()]
    output, attention = libmsda.forward_fused(value, LEVELS, *rest, attention=True)
    assert type(attention) is cupy.ndarray and attention.device.id == device
    assert_forward(given, output.numpy())
    power = np.exp(given["logit"].astype(np.float64))
    exact_weights = power / power.reshape(*power.shape[:3], -1).sum(-1).reshape(*power.shape[:3], *[1] * (power.ndim - 3))
    np.testing.assert_allclose(attention.numpy(), exact_weights, rtol=1e-5)


def test_a_call_is_enqueued_on_the_current_stream(cupy):
    given = numbers()
    value, coord, weight = (cupy.ndarray(array, 1) for array in given.values())
    given["value"][...] = numbers(seed=2)["value"]
    value.write(cupy.streams[1])
    output = libmsda.forward(value, LEVELS, coord, weight)
    with current(1):
        cuda("cudaStreamSynchronize", None)  # what is on the default stream is done before the numbers are there
    assert_forward(given, output.numpy())


def test_arrays_that_cannot_be_addressed_are_copied_by_the_package(cupy):
    given = numbers()
    spread = np.repeat(given["coord"], 2, -1)[..., ::2]
    value, coord, weight = (cupy.ndarray(array, 1) for array in (given | {"coord": spread}).values())
    assert_forward(given, libmsda.forward(value, LEVELS, coord, weight).numpy())


def test_a_reference_of_one_level(cupy):
    given = numbers(True)
    given["reference"] = given["reference"][:, :, :1].copy()
    value, *rest = [cupy.ndarray(array, 1) for array in given.values()]
    whole = given | {"reference": np.repeat(given["reference"], 2, 2)}
    assert_forward(whole, libmsda.forward_fused(value, LEVELS, *rest).numpy())
    ones = cupy.ndarray(np.ones((2, 5, 2, 8), np.float32), 1)
    found = libmsda.backward_fused(value, LEVELS, *rest, ones, wanted="reference").reference
    wanted = exact(whole, np.ones((2, 5, 2, 8), np.float32))[1].sum(2, keepdims=True)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_devices_and_packages_are_not_mixed(cupy):
    given = numbers()
    value, coord, weight = (cupy.ndarray(array, 0) for array in given.values())
    with pytest.raises(libmsda.InvalidArgumentError, match="coord is on CUDA device 1"):
        libmsda.forward(value, LEVELS, cupy.ndarray(given["coord"], 1), weight)
    with pytest.raises(libmsda.InvalidArgumentError, match="coord is numpy.ndarray: must be a cupy.ndarray"):
        libmsda.forward(value, LEVELS, given["coord"], weight)
