"""Finds libmsda, loads it, and refuses it where this package was written for another."""

import ctypes.util
import os
import pathlib
from typing import Any

import cffi

from ._cdef import ABI_VERSION, CDEF, STRUCT_SIZES

FILE_NAME = f"libmsda.so.{ABI_VERSION}"


def _declarations() -> Any:
    """The C declarations: parsed when the wheel was built, or here in a source tree."""
    try:
        from ._ffi import ffi
    except ImportError:
        ffi = cffi.FFI()
        ffi.cdef(CDEF)
    return ffi


def _candidates() -> list[str]:
    """Where the library may be, the first that exists being taken: what the environment variable
    MSDA_LIBRARY names, or else the file beside this package (a wheel), or else the system's."""
    chosen = os.environ.get("MSDA_LIBRARY")
    if chosen:
        return [chosen]
    beside = pathlib.Path(__file__).with_name(FILE_NAME)
    names = [str(beside)] if beside.exists() else []
    return [*names, FILE_NAME, *filter(None, [ctypes.util.find_library("msda")])]


def _load(ffi: Any) -> tuple[Any, str]:
    failures = []
    for name in _candidates():
        try:
            return ffi.dlopen(name), name
        except OSError as error:
            failures.append(f"{name}: {error}")
    raise ImportError(
        "msda: no libmsda could be loaded; set MSDA_LIBRARY to the path of libmsda.so. Tried\n  "
        + "\n  ".join(failures)
    )


def _check(ffi: Any, lib: Any, name: str) -> None:
    try:
        found = lib.msda_abi_version()
    except AttributeError:
        raise ImportError(f"msda: {name} is no libmsda: it has no msda_abi_version()") from None
    if found != ABI_VERSION:
        raise ImportError(
            f"msda: {name} has ABI version {found}, this package was written for {ABI_VERSION}; "
            "install a package and a library of the same version"
        )
    for struct, size in STRUCT_SIZES.items():
        if ffi.sizeof(struct) != size:
            raise ImportError(
                f"msda: struct {struct} has {ffi.sizeof(struct)} bytes on this machine and {size} "
                "in the library's interface"
            )


ffi = _declarations()
lib, library_path = _load(ffi)
_check(ffi, lib, library_path)


def text(pointer: Any) -> str:
    return ffi.string(pointer).decode()


def version() -> str:
    """Version of the library that is loaded, as "major.minor.patch"."""
    number = lib.msda_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def build_info() -> str:
    """One line about how the library was built: version, compiler, CPU targets, CUDA or none.

    For people and logs; its form is no promise."""
    return text(lib.msda_build_info())
