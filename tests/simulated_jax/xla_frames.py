"""XLA as the handlers of libmsda_jax.so see it: call frames of its C interface, with a device and a stream of the
caller's choice."""

import ctypes
import pathlib

import numpy as np

import libmsda
from libmsda._core.problem import MATH_MODES, POINT_LOCALITIES, SAMPLING_MODES

library = ctypes.CDLL(str(pathlib.Path(libmsda.library_path).with_name("libmsda_jax.so")))
INITIALIZE, EXECUTE = 2, 3
DTYPES = {"float32": 11, "uint8": 6, "int32": 4, "int64": 5}  # XLA_FFI_DataType
_ARRAY, _SCALAR, _STRING = 1, 3, 4  # XLA_FFI_AttrType
size_t, pointer, int64, int32 = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32


def _struct(name, *fields):
    """A struct of the interface: its size, an extension and these fields."""
    return type(name, (ctypes.Structure,), {"_fields_": [("struct_size", size_t), ("extension", pointer), *fields]})


Version = _struct("Version", ("major", int32), ("minor", int32))
Buffer = _struct("Buffer", ("dtype", int32), ("data", pointer), ("rank", int64), ("dims", pointer))
Buffers = _struct("Buffers", ("size", int64), ("types", pointer), ("buffers", pointer))
Attributes = _struct("Attributes", ("size", int64), ("types", pointer), ("names", pointer), ("attributes", pointer))
Frame = _struct(
    "Frame",
    ("api", pointer),
    ("context", pointer),
    ("stage", int32),
    ("arguments", Buffers),
    ("results", Buffers),
    ("attributes", Attributes),
    ("future", pointer),
)
Question = _struct("Question", ("context", pointer), ("answer", pointer))  # of the stream or the device
ErrorOfXla = _struct("ErrorOfXla", ("message", ctypes.c_char_p), ("code", int32))
Function = ctypes.CFUNCTYPE(pointer, pointer)
FUNCTIONS = 18
Api = _struct("Api", ("version", Version), ("internal", pointer), ("functions", pointer * FUNCTIONS))


class Span(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", size_t)]


class Scalar(ctypes.Structure):
    _fields_ = [("dtype", int32), ("value", pointer)]


class Array(ctypes.Structure):
    _fields_ = [("dtype", int32), ("size", size_t), ("data", pointer)]


class Extension(ctypes.Structure):
    _fields_ = [("struct_size", size_t), ("type", int32), ("next", pointer), ("metadata", pointer)]


class Metadata(ctypes.Structure):
    _fields_ = [("struct_size", size_t), ("version", Version), ("traits", ctypes.c_uint32), ("state", int64)]


class Failed(Exception):
    """What a handler returned an error with."""


class Xla:
    """Calls handlers for one device and stream."""

    def __init__(self, device, stream, functions=FUNCTIONS):
        self._kept, self._errors = [], []

        def create(address):
            error = ErrorOfXla.from_address(address)
            self._errors.append(f"{error.code}: {error.message.decode()}")
            return len(self._errors)

        def answer(number, kind):
            def function(address):
                kind.from_address(address + Question.answer.offset).value = number
                return None

            return function

        given = {0: create, 4: answer(stream, pointer), 17: answer(device, int32)}
        called = [Function(given.get(index, lambda _: 1 / 0)) for index in range(functions)]
        self._kept += called
        addresses = [ctypes.cast(function, pointer).value for function in called]
        size = Api.functions.offset + functions * ctypes.sizeof(pointer)
        self._api = Api(size, None, Version(0, None, 0, 3), None, (pointer * FUNCTIONS)(*addresses))

    def _keep(self, made):
        self._kept.append(made)
        return ctypes.addressof(made)

    def _pointers(self, addresses):
        return self._keep((pointer * max(len(addresses), 1))(*addresses))

    def _buffers(self, arrays):
        """Of (address, shape, dtype)."""
        made = []
        for address, shape, dtype in arrays:
            dims = self._keep((int64 * max(len(shape), 1))(*shape))
            made.append(self._keep(Buffer(ctypes.sizeof(Buffer), None, DTYPES[dtype], address, len(shape), dims)))
        types = self._keep((int32 * max(len(made), 1))(*[1] * len(made)))
        return Buffers(ctypes.sizeof(Buffers), None, len(made), types, self._pointers(made))

    def _attribute(self, value):
        if isinstance(value, str):
            return _STRING, self._keep(Span(value.encode(), len(value)))
        if isinstance(value, np.ndarray):
            self._kept.append(value)
            return _ARRAY, self._keep(Array(DTYPES[str(value.dtype)], value.size, value.ctypes.data))
        return _SCALAR, self._keep(Scalar(DTYPES["int32"], self._keep(int32(value))))

    def call(self, name, arguments, results, attributes, stage=EXECUTE):
        """Runs a handler; raises Failed with the code and text of its error."""
        found = [self._attribute(value) for value in attributes.values()]
        types = self._keep((int32 * len(found))(*[kind for kind, _ in found]))
        names = [self._keep(Span(name.encode(), len(name))) for name in attributes]
        values = self._pointers([value for _, value in found])
        sized = Attributes(ctypes.sizeof(Attributes), None, len(found), types, self._pointers(names), values)
        buffers = self._buffers(arguments), self._buffers(results)
        frame = Frame(ctypes.sizeof(Frame), None, ctypes.addressof(self._api), None, stage, *buffers, sized)
        handler = getattr(library, f"msda_jax_{name}")
        handler.restype, handler.argtypes = pointer, [pointer]
        if error := handler(ctypes.addressof(frame)):
            raise Failed(self._errors[error - 1])


def metadata(name):
    """What a handler says of itself. No more of the frame is set than XLA sets."""
    found = Metadata(ctypes.sizeof(Metadata))
    extension = Extension(ctypes.sizeof(Extension), 1, None, ctypes.addressof(found))
    frame = Frame(ctypes.sizeof(Frame), ctypes.addressof(extension), 1)  # its api is no address
    handler = getattr(library, f"msda_jax_{name}")
    handler.restype, handler.argtypes = pointer, [pointer]
    assert handler(ctypes.addressof(frame)) is None
    return found


def attributes_of(levels, points, **changed):
    return {
        "determinism": 0,
        "kernel_id": "",
        "level_hw": np.array(levels, np.int32).reshape(-1),
        "level_start": np.array([], np.int64),
        "math_mode": MATH_MODES["accurate"],
        "point_counts": np.array(points, np.int32),
        "point_locality": POINT_LOCALITIES["unknown"],
        "query_hw": np.array([], np.int32),
        "sampling_mode": SAMPLING_MODES["bilinear"],
        "threads": 0,
        "value_border": 0,
        **changed,
    }
