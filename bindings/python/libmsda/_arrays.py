"""numpy arrays as the library wants them: element types, strides, and what is refused."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

try:
    import ml_dtypes
except ImportError:  # Debian 12 has no package of it
    ml_dtypes = None

from ._errors import InvalidArgumentError
from ._library import lib

_CODES = {
    np.dtype(np.float64): lib.MSDA_DTYPE_F64,
    np.dtype(np.float32): lib.MSDA_DTYPE_F32,
    np.dtype(np.float16): lib.MSDA_DTYPE_F16,
}
_ML_CODES = {"bfloat16": lib.MSDA_DTYPE_BF16, "float8_e4m3fn": lib.MSDA_DTYPE_F8_E4M3}
if ml_dtypes:
    _CODES |= {np.dtype(getattr(ml_dtypes, name)): code for name, code in _ML_CODES.items()}
_NAMES = ", ".join(dtype.name for dtype in _CODES)
if not ml_dtypes:
    _NAMES += f"; {' and '.join(_ML_CODES)} need the Python package ml_dtypes, which is not installed"

Strides = tuple[int, int, int]
PACKED: Strides = (0, 0, 0)


def to_dtype(field: str, given: DTypeLike) -> np.dtype:
    """The numpy dtype (of native byte order) that a name or type stands for."""
    try:
        dtype = np.dtype(getattr(ml_dtypes, given, given) if isinstance(given, str) else given)
    except TypeError:
        raise InvalidArgumentError(f"{field} is {given!r}: must be one of {_NAMES}") from None
    dtype = dtype.newbyteorder("=") if dtype.kind == "f" else dtype
    if dtype not in _CODES:
        raise InvalidArgumentError(f"{field} is {dtype}: must be one of {_NAMES}")
    return dtype


def dtype_code(dtype: np.dtype | None) -> int:
    return lib.MSDA_DTYPE_NONE if dtype is None else _CODES[dtype]


def to_array(field: str, given: ArrayLike) -> np.ndarray:
    """An input as a numpy array of a type the library knows, in native byte order and aligned."""
    array = np.asarray(given)
    dtype = to_dtype(f"{field}.dtype", array.dtype)
    if array.dtype != dtype or not array.flags.aligned:
        array = array.astype(dtype, order="C", copy=True)
    return array


def packed_strides(shape: tuple[int, ...]) -> Strides:
    """Element strides of the first three axes of a packed array."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(3))  # type: ignore[return-value]


def outer_strides(array: np.ndarray) -> Strides | None:
    """Element strides of the first three axes, PACKED where they are so, None where the library
    cannot address the array: inner axes not packed, or a stride negative or not a whole element.

    An axis of length 1 has no stride worth the name; it gets that of a packed array."""
    if array.size == 0:
        return PACKED
    expected = array.itemsize
    for length, step in zip(array.shape[:2:-1], array.strides[:2:-1]):
        if length > 1 and step != expected:
            return None
        expected *= length
    packed = packed_strides(array.shape)
    strides = []
    for length, step, usual in zip(array.shape, array.strides, packed):
        if length > 1 and (step < 0 or step % array.itemsize):
            return None
        strides.append(step // array.itemsize if length > 1 else usual)
    if tuple(strides) == packed:
        return PACKED
    if not any(strides):
        return None  # repeated along all three, but 0 0 0 means packed
    return tuple(strides)


def check_shape(field: str, array: np.ndarray, letters: str, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise InvalidArgumentError(
            f"{field} has shape {array.shape}: must be {shape} = [{', '.join(letters)}]"
        )


def check_array(field: str, given: Any) -> np.ndarray:
    if not isinstance(given, np.ndarray):
        raise InvalidArgumentError(
            f"{field} is {type(given).__name__}: must be a numpy.ndarray, it is written in place"
        )
    return given


def check_writable(field: str, given: Any, dtype: np.dtype) -> None:
    """Refuses an output that the library could not write in place."""
    array = check_array(field, given)
    if array.dtype != dtype:
        raise InvalidArgumentError(f"{field}.dtype is {array.dtype}: must be {dtype}")
    if not array.flags.writeable:
        raise InvalidArgumentError(f"{field} is read-only: must be writable")
    if not array.flags.aligned:
        raise InvalidArgumentError(
            f"{field} is not aligned: must be aligned to {dtype.itemsize} bytes"
        )


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
