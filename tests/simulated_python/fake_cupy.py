"""As much of cupy as libmsda uses, on a simulated device: what CupyKind reads must be what cupy has, so names and
meanings are cupy's."""

import ctypes
import types

import numpy as np

from device_arrays import Device, Stream, cuda


class Cupy(types.ModuleType):
    """The module, with a current device and a current stream of each."""

    def __init__(self):
        super().__init__("cupy")
        self.ndarray, self.streams, devices = _Array, {}, [0]

        class CurrentDevice:
            def __init__(self, number):
                self.id = number

            def __enter__(self):
                devices.append(self.id)

            def __exit__(self, *_):
                devices.pop()

        current_stream = lambda: types.SimpleNamespace(ptr=self.streams.get(devices[-1], 0))
        self.cuda = types.SimpleNamespace(Device=CurrentDevice, get_current_stream=current_stream)
        self.empty = lambda shape, dtype: _Array(np.empty(shape, dtype), devices[-1], filled=False)
        self.repeat = lambda array, count, axis: _Array(np.repeat(array.numpy(), count, axis), devices[-1])


class _Array(Device):
    """cupy.ndarray."""

    cupy = None  # the module

    shape = property(lambda self: self.host.shape)
    strides = property(lambda self: self.host.strides)
    dtype = property(lambda self: self.host.dtype)
    itemsize = property(lambda self: self.host.itemsize)
    device = property(lambda self: self.cupy.cuda.Device(self.number))
    data = property(lambda self: types.SimpleNamespace(ptr=self.address))

    def copy(self, order):
        assert order == "C"
        return _Array(np.ascontiguousarray(self.numpy()), self.number)

    def sum(self, axis, keepdims):
        return _Array(self.numpy().sum(axis, keepdims=keepdims), self.number)

    def numpy(self):
        stream = self.cupy.streams.get(self.number)
        if stream:
            cuda("cudaStreamSynchronize", ctypes.c_void_p(stream))
        return super().numpy()


def make():
    """The module, and a stream of its own for each device."""
    _Array.cupy = cupy = Cupy()
    streams = [Stream(device) for device in (0, 1)]
    cupy.streams = {device: stream.number for device, stream in enumerate(streams)}
    return cupy, streams
