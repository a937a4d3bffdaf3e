"""Adapters: what the functions need to know of the arrays of each package."""

import contextlib
import math
import sys
from collections.abc import Sequence
from typing import Any

from .._core.errors import InvalidArgumentError
from .._core.handle import CPU
from .._core.plan import address_of_buffer, addressof, char_at, host_memory
from .._core.problem import DTYPE_CODES, ITEM_BYTES, PACKED, Strides
from . import dlpack
from .view import View, element_strides, extent

_PACKED = 0x1 | 0x100  # of ndarray.flags.num: contiguous and aligned
_PACKED_AND_WRITABLE = _PACKED | 0x400
ALIGNMENT = 64  # bytes, of new arrays: the kernels' loads then touch one cache line each


class Kind:
    """The arrays of one package. `prepare` makes of an argument an array that the other methods
    take; `signature` is what a call must have in common with an earlier one to be like it."""

    name = ""

    def prepare(self, field: str, given: Any) -> Any:
        return given

    def signature(self, array: Any) -> Any:
        raise NotImplementedError

    def view(self, array: Any) -> View:
        raise NotImplementedError

    def address(self, array: Any) -> int:
        return self.view(array).address

    def empty(self, shape: tuple[int, ...], dtype: str, device: int) -> Any:
        """A new packed array, its address a multiple of 64 bytes."""
        raise NotImplementedError

    def memory(self, size: int, device: int) -> tuple[Any, int]:
        """New memory of so many bytes, and its address."""
        raise NotImplementedError

    def packed(self, array: Any) -> Any:
        """A copy in row order."""
        raise NotImplementedError

    def enter_packed(
        self,
        wanted: Sequence[tuple[str, int, tuple[int, ...], str, bool]],
        given: dict[str, Any],
        words: list[int],
    ) -> bool:
        """Enters the addresses of arrays on the CPU into `words`, quickly, where all are given and
        surely packed. `wanted` has the name, word, shape, type of each, and whether it is written."""
        return False

    def memory_given(self, array: Any) -> tuple[int, int] | None:
        """Address and size, quickly, of an array that surely is a row of bytes on the CPU."""
        return None

    def repeated(self, array: Any, levels: int) -> Any:
        """A packed copy of [B,Q,1,R] with its axis 2 repeated."""
        raise NotImplementedError

    def summed(self, array: Any) -> Any:
        """The sum over axis 2, which stays."""
        return array.sum(2, keepdims=True)

    def strided(self, shape: tuple[int, ...], strides: Strides, dtype: str, device: int) -> Any:
        """A new array; with strides, a view of one that is large enough."""
        raise NotImplementedError

    def check_output(self, field: str, array: Any) -> None:
        """Refuses an array that must not be written to."""

    def result(self, array: Any) -> Any:
        """An output as the caller gets it."""
        return array

    def stream(self, device: int) -> int:
        """The CUDA stream that the package works on now."""
        return 0

    def threads(self) -> int | None:
        """How many threads the package works with on the CPU; None: it does not say."""
        return None

    def unrecorded(self) -> contextlib.AbstractContextManager[Any]:
        """A block in which no gradients are recorded."""
        return contextlib.nullcontext()

    def wrong(self, field: str, given: Any) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{field} is {_type_name(given)}: must be {self.name}, as value is"
        )


def _type_name(given: Any) -> str:
    kind = type(given)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


class NumpyKind(Kind):
    """numpy arrays, and what numpy makes arrays of: lists, scalars."""

    name = "a numpy.ndarray"

    def __init__(self) -> None:
        import numpy

        self._np = numpy
        names = ("float64", "float32", "float16")
        self._buffer_dtypes = {name: numpy.dtype(name) for name in names}  # of Python's buffers
        self._dtypes: dict[str, Any] = {**self._buffer_dtypes}
        self._bytes = numpy.dtype("u1")

    def prepare(self, field: str, given: Any) -> Any:
        if type(given) is self._np.ndarray:
            return given
        if isinstance(given, self._np.ma.MaskedArray):
            raise InvalidArgumentError(
                f"{field} is a masked array: must be an array without a mask; "
                f"{field}.filled(0) is one where masked elements count as zero"
            )
        if not isinstance(given, self._np.ndarray | self._np.generic | list | tuple | int | float):
            if kind_of(given) is not self:
                raise self.wrong(field, given)
        try:
            array = self._np.asarray(given)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"{field} is no array of numbers: {error}") from error
        return array.view(self._np.ndarray)

    def signature(self, array: Any) -> Any:
        return array.shape, array.strides, array.dtype, array.flags.aligned

    def address(self, array: Any) -> int:
        try:
            return address_of_buffer(array)
        except (ValueError, TypeError, BufferError):  # not contiguous, or a type of ml_dtypes
            return array.__array_interface__["data"][0]

    def view(self, array: Any) -> View:
        dtype = array.dtype
        name = dtype.name if dtype.name in ITEM_BYTES else str(dtype)
        strides = element_strides(array.strides, max(dtype.itemsize, 1))
        if not dtype.isnative or not array.flags.aligned:
            strides = None  # it has to be copied
        return View(self.address(array), array.shape, strides, name, CPU)

    def dtype(self, name: str) -> Any:
        found = self._dtypes.get(name)
        if found is None:
            try:
                import ml_dtypes
            except ImportError:
                raise InvalidArgumentError(
                    f"{name} needs the Python package ml_dtypes, which is not installed"
                ) from None
            found = self._dtypes[name] = self._np.dtype(getattr(ml_dtypes, name))
        return found

    def empty(self, shape: tuple[int, ...], dtype: str, device: int) -> Any:
        return self.aligned(math.prod(shape) * ITEM_BYTES[dtype], ALIGNMENT, self.dtype(dtype), shape)

    def aligned(self, size: int, alignment: int, dtype: Any, shape: Any) -> Any:
        """A new array of `size` bytes at a multiple of `alignment`."""
        memory = self._np.empty(size + alignment, "u1")
        start = -address_of_buffer(memory) % alignment
        return self._np.ndarray(shape, dtype, memory, start)

    def memory(self, size: int, device: int) -> tuple[Any, int]:
        memory = self._np.empty(size, "u1")
        return memory, address_of_buffer(memory)

    def packed(self, array: Any) -> Any:
        new = self.empty(array.shape, self.view(array).dtype, CPU)
        new[...] = array
        return new

    def enter_packed(
        self,
        wanted: Sequence[tuple[str, int, tuple[int, ...], str, bool]],
        given: dict[str, Any],
        words: list[int],
    ) -> bool:
        if len(given) != len(wanted):
            return False
        ndarray, dtypes = self._np.ndarray, self._buffer_dtypes
        for name, slot, shape, dtype, written in wanted:
            array = given.get(name)
            if type(array) is not ndarray or array.dtype is not dtypes.get(dtype) or array.shape != shape:
                return False
            try:
                address = addressof(char_at(array))
            except (TypeError, ValueError):  # read-only, not packed or empty
                if written or array.flags.num & _PACKED != _PACKED:
                    return False
                address = address_of_buffer(array)
            if address % array.itemsize:
                return False
            words[slot] = address
        return True

    def memory_given(self, array: Any) -> tuple[int, int] | None:
        if (
            type(array) is self._np.ndarray
            and array.dtype is self._bytes
            and array.ndim == 1
            and array.flags.num & _PACKED_AND_WRITABLE == _PACKED_AND_WRITABLE
        ):
            return (address_of_buffer(array), array.size) if array.size else (0, 0)
        return None

    def repeated(self, array: Any, levels: int) -> Any:
        return self._np.repeat(array, levels, axis=2)

    def strided(self, shape: tuple[int, ...], strides: Strides, dtype: str, device: int) -> Any:
        if strides == PACKED:
            return self.empty(shape, dtype, device)
        memory = self.empty((extent(shape, strides),), dtype, device)
        steps = tuple(s * ITEM_BYTES[dtype] for s in (*strides, 1))
        return self._np.lib.stride_tricks.as_strided(memory, shape, steps)

    def check_output(self, field: str, array: Any) -> None:
        if type(array) is not self._np.ndarray:
            raise InvalidArgumentError(
                f"{field} is {_type_name(array)}: must be a numpy.ndarray, it is written in place"
            )
        if not array.flags.writeable:
            raise InvalidArgumentError(f"{field} is read-only: must be writable")
        if not array.flags.aligned:
            raise InvalidArgumentError(
                f"{field} is not aligned: must be aligned to {array.itemsize} bytes"
            )
        if not array.dtype.isnative:
            raise InvalidArgumentError(f"{field}.dtype is {array.dtype}: must be of native byte order")


class JaxKind(NumpyKind):
    """JAX arrays on the CPU: read in place through numpy, results handed over without a copy."""

    name = "a jax.Array"

    def prepare(self, field: str, given: Any) -> Any:
        jax = sys.modules["jax"]
        if isinstance(given, jax.core.Tracer):
            raise InvalidArgumentError(
                f"{field} is traced by JAX: these functions compute at once and are for arrays "
                "outside jax.jit, jax.grad and jax.vmap"
            )
        if not isinstance(given, jax.Array):
            raise self.wrong(field, given)
        if {device.platform for device in given.devices()} != {"cpu"}:
            raise InvalidArgumentError(
                f"{field} is on {given.devices()}: JAX arrays must be on the CPU"
            )
        return self._np.asarray(given)

    def result(self, array: Any) -> Any:
        jax = sys.modules["jax"]
        return jax.device_put(array, jax.devices("cpu")[0])

    def check_output(self, field: str, array: Any) -> None:
        raise InvalidArgumentError(f"{field} is given: must be None, JAX arrays are not written in place")


class TorchKind(Kind):
    """torch tensors on the CPU and CUDA devices; no gradients (libmsda.torch has them)."""

    name = "a torch.Tensor"

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._dtypes = {name: getattr(torch, name) for name in DTYPE_CODES}
        self._raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        self.address = torch.Tensor.data_ptr

    def prepare(self, field: str, given: Any) -> Any:
        if not isinstance(given, self._torch.Tensor):
            raise self.wrong(field, given)
        if given.requires_grad and self._torch.is_grad_enabled():
            raise InvalidArgumentError(
                f"{field} requires a gradient, which this function does not record: call that of "
                f"libmsda.torch, or give {field}.detach()"
            )
        if given.device.type not in ("cpu", "cuda") or given.layout is not self._torch.strided:
            raise InvalidArgumentError(
                f"{field} is a {given.layout} tensor on {given.device}: "
                "must be a strided one on the CPU or a CUDA device"
            )
        return given

    def signature(self, array: Any) -> Any:
        return array.shape, array.stride(), array.dtype, array.device

    def view(self, array: Any) -> View:
        device = CPU if array.device.type == "cpu" else array.device.index
        dtype = str(array.dtype).removeprefix("torch.")
        return View(array.data_ptr(), tuple(array.shape), array.stride(), dtype, device)

    def _place(self, device: int) -> Any:
        return "cpu" if device == CPU else f"cuda:{device}"

    def empty(self, shape: tuple[int, ...], dtype: str, device: int) -> Any:
        return self._torch.empty(shape, dtype=self._dtypes[dtype], device=self._place(device))

    def memory(self, size: int, device: int) -> tuple[Any, int]:
        if device == CPU:
            return host_memory(size)
        memory = self._torch.empty(size, dtype=self._torch.uint8, device=self._place(device))
        return memory, memory.data_ptr()

    def packed(self, array: Any) -> Any:
        return array.clone(memory_format=self._torch.contiguous_format)

    def repeated(self, array: Any, levels: int) -> Any:
        return array.repeat_interleave(levels, 2)

    def strided(self, shape: tuple[int, ...], strides: Strides, dtype: str, device: int) -> Any:
        if strides == PACKED:
            return self.empty(shape, dtype, device)
        return self._torch.empty_strided(
            shape, (*strides, 1), dtype=self._dtypes[dtype], device=self._place(device)
        )

    def check_output(self, field: str, array: Any) -> None:
        self.prepare(field, array)

    def threads(self) -> int | None:
        return self._torch.get_num_threads()

    def unrecorded(self) -> contextlib.AbstractContextManager[Any]:
        return self._torch.no_grad()

    def stream(self, device: int) -> int:
        if self._raw_stream is not None:
            return self._raw_stream(device)
        return self._torch.cuda.current_stream(device).cuda_stream


class CupyKind(Kind):
    """cupy arrays, on the device they are on and its current stream."""

    name = "a cupy.ndarray"

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy

    def prepare(self, field: str, given: Any) -> Any:
        if not isinstance(given, self._cupy.ndarray):
            raise self.wrong(field, given)
        return given

    def signature(self, array: Any) -> Any:
        return array.shape, array.strides, array.dtype, array.device.id

    def address(self, array: Any) -> int:
        return array.data.ptr

    def view(self, array: Any) -> View:
        strides = element_strides(array.strides, array.itemsize)
        return View(array.data.ptr, array.shape, strides, array.dtype.name, array.device.id)

    def empty(self, shape: tuple[int, ...], dtype: str, device: int) -> Any:
        with self._cupy.cuda.Device(device):
            return self._cupy.empty(shape, dtype)

    def memory(self, size: int, device: int) -> tuple[Any, int]:
        with self._cupy.cuda.Device(device):
            memory = self._cupy.empty(size, "u1")
        return memory, memory.data.ptr

    def packed(self, array: Any) -> Any:
        with array.device:
            return array.copy(order="C")

    def repeated(self, array: Any, levels: int) -> Any:
        with array.device:
            return self._cupy.repeat(array, levels, axis=2)

    def strided(self, shape: tuple[int, ...], strides: Strides, dtype: str, device: int) -> Any:
        if strides == PACKED:
            return self.empty(shape, dtype, device)
        memory = self.empty((extent(shape, strides),), dtype, device)
        steps = tuple(s * memory.itemsize for s in (*strides, 1))
        return self._cupy.lib.stride_tricks.as_strided(memory, shape, steps)

    def stream(self, device: int) -> int:
        with self._cupy.cuda.Device(device):
            return self._cupy.cuda.get_current_stream().ptr


class _Foreign:
    """An array of an unknown package with its view, and what keeps its memory."""

    def __init__(self, view: View, keep: Any):
        self.view, self.keep = view, keep


class ForeignKind(Kind):
    """Anything that has `__dlpack__` or `__cuda_array_interface__`. Such arrays are read and
    written where they lie, on the default stream; new ones cannot be made."""

    name = "an array with __dlpack__ or __cuda_array_interface__"

    def prepare(self, field: str, given: Any) -> Any:
        if isinstance(given, _Foreign):
            return given
        if hasattr(given, "__dlpack__"):
            return _Foreign(*dlpack.export(field, given, 0))
        interface = getattr(given, "__cuda_array_interface__", None)
        if interface is None:
            raise self.wrong(field, given)
        return _Foreign(dlpack.cuda_interface(field, interface), given)

    def check_output(self, field: str, array: Any) -> None:
        interface = getattr(array, "__cuda_array_interface__", None)
        if interface is not None and interface["data"][1]:
            raise InvalidArgumentError(f"{field} is read-only: must be writable")

    def signature(self, array: Any) -> Any:
        return array.view[1:]

    def view(self, array: Any) -> View:
        return array.view

    def empty(self, shape: tuple[int, ...], dtype: str, device: int) -> Any:
        raise InvalidArgumentError(
            f"a new array of shape {shape} is needed: give arrays of numpy, torch, cupy or JAX, or "
            "use Plan.execute with all outputs and a workspace of yours"
        )

    def strided(self, shape: tuple[int, ...], strides: Strides, dtype: str, device: int) -> Any:
        return self.empty(shape, dtype, device)

    def memory(self, size: int, device: int) -> tuple[Any, int]:
        return host_memory(size) if device == CPU else self.empty((size,), "uint8", device)

    def packed(self, array: Any) -> Any:
        raise InvalidArgumentError(
            f"an array of shape {array.view.shape} has element strides {array.view.strides}: "
            "inner axes must be packed, this package knows no way to copy it"
        )


_kinds: dict[type[Kind], Kind] = {}
_by_type: dict[type, Kind] = {}


def _kind(which: type[Kind]) -> Kind:
    return _kinds.get(which) or _kinds.setdefault(which, which())


def _is_a(given: Any, module: str, name: str) -> bool:
    """Whether it is of a class of a module, which is not imported for that."""
    found = sys.modules.get(module)
    return found is not None and isinstance(given, getattr(found, name, ()))


def kind_of(given: Any) -> Kind:
    """The adapter of an array, by its type; what is no array at all counts as numpy's."""
    kind = _by_type.get(type(given))
    if kind is None:
        if _is_a(given, "torch", "Tensor"):
            kind = _kind(TorchKind)
        elif _is_a(given, "jax", "Array"):
            kind = _kind(JaxKind)
        elif _is_a(given, "cupy", "ndarray"):
            kind = _kind(CupyKind)
        elif _is_a(given, "numpy", "ndarray") or not (
            hasattr(given, "__dlpack__") or hasattr(given, "__cuda_array_interface__")
        ):
            kind = _kind(NumpyKind)
        else:
            kind = _kind(ForeignKind)
        _by_type[type(given)] = kind
    return kind
