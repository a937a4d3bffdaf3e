"""Reads the capsules of DLPack and `__cuda_array_interface__`, without a package that does."""

import ctypes
import math
from typing import Any

from .._core.errors import InvalidArgumentError
from .._core.handle import CPU
from .view import View, element_strides

_CPU_DEVICES, _CUDA_DEVICES = (1, 3), (2, 13)  # kDLCPU, kDLCUDAHost; kDLCUDA, kDLCUDAManaged
_NAMES = {  # (type code, bits)
    (2, 64): "float64",
    (2, 32): "float32",
    (2, 16): "float16",
    (4, 16): "bfloat16",
    (10, 8): "float8_e4m3fn",
    (1, 8): "uint8",  # of workspaces
}
_TYPE_STRINGS = {"<f8": "float64", "<f4": "float32", "<f2": "float16", "|u1": "uint8"}
_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL of cuda.h


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h; it comes first in DLManagedTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("axes", ctypes.c_int32),
        ("type_code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _device(field: str, device_type: int, device_id: int) -> int:
    if device_type in _CPU_DEVICES:
        return CPU
    if device_type in _CUDA_DEVICES:
        return device_id
    raise InvalidArgumentError(
        f"{field} is on a device of DLPack's type {device_type}: must be on the CPU or a CUDA device"
    )


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def export(field: str, array: Any, stream: int) -> tuple[View, Any]:
    """The view of an array by `__dlpack__`, and the capsule that keeps its memory.

    The array's package makes the CUDA `stream` wait for what still writes to the array."""
    device_type, device_id = array.__dlpack_device__()
    device = _device(field, int(device_type), device_id)
    try:
        # 1 is the legacy default stream; 0 is refused, since it could be another one.
        capsule = array.__dlpack__() if device == CPU else array.__dlpack__(stream=stream or 1)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{field} cannot be read through DLPack: {error}") from error
    tensor = _Tensor.from_address(_pointer_of(capsule, b"dltensor"))
    shape = tuple(tensor.shape[: tensor.axes])
    strides = tuple(tensor.strides[: tensor.axes]) if tensor.strides else _packed(shape)
    dtype = _NAMES.get((tensor.type_code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        dtype = f"DLPack's type {tensor.type_code} of {tensor.bits} bits, {tensor.lanes} lanes"
    address = (tensor.data or 0) + tensor.byte_offset
    return View(address, shape, strides, dtype, device), capsule


def cuda_interface(field: str, interface: Any) -> View:
    """The view of a `__cuda_array_interface__`, when what still writes to the array has ended."""
    shape, dtype = tuple(interface["shape"]), interface["typestr"]
    steps, stream = interface.get("strides"), interface.get("stream")
    strides = _packed(shape) if steps is None else element_strides(tuple(steps), int(dtype[2:]))
    if interface.get("mask") is not None:
        raise InvalidArgumentError(f"{field} is masked: must be an array without a mask")
    if stream not in (None, 1):  # calls are enqueued on 1, the legacy default stream
        _ask_driver(field, "cuStreamSynchronize", ctypes.c_void_p(stream))
    address = interface["data"][0] or 0
    return View(address, shape, strides, _TYPE_STRINGS.get(dtype, dtype), _owner(field, address))


def _owner(field: str, address: int) -> int:
    """The device of an address, which an interface does not say; 0 for an array without memory."""
    device = ctypes.c_int(0)
    if address:
        pointer = ctypes.c_uint64(address)
        _ask_driver(
            field, "cuPointerGetAttribute", ctypes.byref(device), _DEVICE_ORDINAL, pointer
        )
    return device.value


def _ask_driver(field: str, function: str, *arguments: Any) -> None:
    try:
        status = getattr(ctypes.CDLL("libcuda.so.1"), function)(*arguments)
    except OSError as error:
        raise InvalidArgumentError(
            f"{field} has __cuda_array_interface__, and no CUDA driver is there: {error}"
        ) from None
    if status:
        raise InvalidArgumentError(
            f"{field} has a __cuda_array_interface__ that the CUDA driver does not know: "
            f"{function}() returned {status}"
        )
