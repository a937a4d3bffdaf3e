"""Arrays in the memory of a simulated device, made with its own CUDA run-time library. Each class declares them in
another way; none of them is numpy's, and nothing but its declaration says where an array lies."""

import contextlib
import ctypes
import pathlib

import numpy as np

import libmsda

DEVICES = (0, 1)
_cuda = ctypes.CDLL(str(pathlib.Path(libmsda.library_path).with_name("libcuda.so.1")))
_TO_DEVICE, _TO_HOST, _ON_DEVICE = 1, 2, 3  # cudaMemcpyKind
_CODES = {"f": 2, "u": 1}  # DLPack's, of numpy's kinds


def cuda(function, *arguments):
    status = getattr(_cuda, function)(*arguments)
    assert status == 0, f"{function}() returned {status}"


@contextlib.contextmanager
def current(device):
    """A block in which a device is the calling thread's."""
    before = ctypes.c_int()
    cuda("cudaGetDevice", ctypes.byref(before))
    cuda("cudaSetDevice", device)
    yield
    cuda("cudaSetDevice", before.value)


class Stream:
    """A stream that does not wait for the default stream."""

    def __init__(self, device):
        self._c = ctypes.c_void_p()
        with current(device):
            cuda("cudaStreamCreateWithFlags", ctypes.byref(self._c), 1)
        self.number = self._c.value

    def __del__(self):
        cuda("cudaStreamDestroy", self._c)


class Memory:
    """Bytes of a device; freed with the object."""

    def __init__(self, device, size):
        self._c = ctypes.c_void_p()
        with current(device):
            cuda("cudaMalloc", ctypes.byref(self._c), ctypes.c_size_t(max(size, 1)))
        self.address = self._c.value

    def __del__(self):
        cuda("cudaFree", self._c)


class Device:
    """The base of the arrays: `host` on a device in the strides it has, filled with its numbers or not."""

    def __init__(self, host, device, filled=True):
        self.host, self.number = host, device
        base = host if host.base is None else host.base
        self.memory = Memory(device, base.nbytes)
        self.address = self.memory.address + host.ctypes.data - base.ctypes.data
        self._base = base
        if filled:
            self._fill(self.memory)

    def _fill(self, memory):
        """Copies the host's numbers."""
        with current(self.number):
            source, size = ctypes.c_void_p(self._base.ctypes.data), ctypes.c_size_t(self._base.nbytes)
            cuda("cudaMemcpy", ctypes.c_void_p(memory.address), source, size, _TO_DEVICE)
            cuda("cudaDeviceSynchronize")  # cudaMemcpy() may return before the bytes are there

    def part(self, host):
        """The array of a view of the host's, in this memory."""
        part = object.__new__(type(self))
        part.__dict__ |= self.__dict__
        part.host, part.address = host, self.memory.address + host.ctypes.data - self._base.ctypes.data
        return part

    def write(self, stream):
        """Copies the host's numbers on a stream: they are there when that is waited for."""
        self._new = Memory(self.number, self._base.nbytes)
        self._fill(self._new)
        with current(self.number):
            to, source = ctypes.c_void_p(self.memory.address), ctypes.c_void_p(self._new.address)
            size = ctypes.c_size_t(self._base.nbytes)
            cuda("cudaMemcpyAsync", to, source, size, _ON_DEVICE, ctypes.c_void_p(stream))

    def numpy(self):
        """The content, when all that was enqueued on the default stream is done."""
        found = np.empty_like(self._base)
        with current(self.number):
            source, size = ctypes.c_void_p(self.memory.address), ctypes.c_size_t(found.nbytes)
            cuda("cudaMemcpy", ctypes.c_void_p(found.ctypes.data), source, size, _TO_HOST)
        offset = self.host.ctypes.data - self._base.ctypes.data
        return np.ndarray(self.host.shape, self.host.dtype, found, offset, self.host.strides)


class _DLManagedTensor(ctypes.Structure):
    """As dlpack.h has it."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class OfDlpack(Device):
    """Declares itself by DLPack as kDLCUDA."""

    streams = ()  # on which it was asked for

    def __dlpack_device__(self):
        return 2, self.number

    def __dlpack__(self, *, stream=None):
        self.streams = (*self.streams, stream)
        shape, item = self.host.shape, self.host.itemsize
        numbers = ctypes.c_int64 * len(shape)
        self._tensor = _DLManagedTensor(
            data=self.memory.address,
            device_type=2,
            device_id=self.number,
            ndim=len(shape),
            code=_CODES[self.host.dtype.kind],
            bits=8 * item,
            lanes=1,
            shape=numbers(*shape),
            strides=numbers(*[step // item for step in self.host.strides]),
            byte_offset=self.address - self.memory.address,
        )
        return _capsule(ctypes.addressof(self._tensor), b"dltensor", None)


class OfInterface(Device):
    """Declares itself by version 3 of `__cuda_array_interface__`, which does not say the device."""

    def __init__(self, host, device, stream=None, read_only=False):
        super().__init__(host, device)
        self.stream, self.read_only = stream, read_only

    @property
    def __cuda_array_interface__(self):
        packed = self.host.flags.c_contiguous
        return {
            "shape": self.host.shape,
            "typestr": self.host.dtype.str,
            "data": (self.address if self.host.size else 0, self.read_only),
            "strides": None if packed else self.host.strides,
            "version": 3,
            "stream": self.stream,
        }


KINDS = (OfDlpack, OfInterface)
