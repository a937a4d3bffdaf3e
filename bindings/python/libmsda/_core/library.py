"""Finds libmsda, loads it, and refuses it where this package was written for another."""

import ctypes.util
import os
import pathlib
import struct
import sys
from typing import Any

from .._cdef import ABI_VERSION, CDEF, STRUCT_SIZES

FILE_NAME = f"libmsda.so.{ABI_VERSION}"


def _declarations() -> Any:
    """The C declarations: parsed when the package was built, or here in a source tree."""
    try:
        from .._ffi import ffi
    except ImportError:
        import cffi

        ffi = cffi.FFI()
        ffi.cdef(CDEF)
    return ffi


def _candidates() -> list[str]:
    """Where the library may be, the first that exists being taken: what the environment variable
    MSDA_LIBRARY names, or else the file in this package (a wheel), the one of the Python
    environment (conda), or else the system's."""
    chosen = os.environ.get("MSDA_LIBRARY")
    if chosen:
        return [chosen]
    package = pathlib.Path(__file__).parents[1]
    own = [pathlib.Path(folder, "lib", FILE_NAME) for folder in (package, sys.prefix)]
    names = [str(path) for path in own if path.exists()]
    return [*names, FILE_NAME, *filter(None, [ctypes.util.find_library("msda")])]


def _missing_bytes(path: str) -> int:
    """How many bytes a 64-bit ELF file lacks at its end: those that its program headers name."""
    with open(path, "rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:5] != b"\x7fELF\2":
            return 0  # dlopen() says so
        start, entry_size, count = struct.unpack_from("<32xQ14xHH", header)
        file.seek(start)
        table = file.read(entry_size * count)
        size = file.seek(0, os.SEEK_END)
    entries = range(len(table) // entry_size)
    offsets = (struct.unpack_from("<8xQ16xQ", table, i * entry_size) for i in entries)
    return max([start + entry_size * count, *map(sum, offsets)]) - size


def _open(ffi: Any, name: str) -> Any:
    # dlopen() maps a truncated file as if it were whole, and the process dies of what is not there.
    if os.path.isfile(name) and (missing := _missing_bytes(name)) > 0:
        raise OSError(
            f"the file is truncated, {missing} bytes or more are missing; install it again"
        )
    return ffi.dlopen(name)


def _path(name: str) -> str:
    """The path of the library that was loaded by this name, which the loader may have looked for."""
    if "/" in name:
        return name
    with open("/proc/self/maps") as maps:
        paths = [line.split(maxsplit=5)[-1].strip() for line in maps if f"/{name}" in line]
    return paths[0] if paths else name


def _load(ffi: Any) -> tuple[Any, str]:
    failures = []
    for name in _candidates():
        try:
            return _open(ffi, name), _path(name)
        except OSError as error:
            # cffi repeats the name, and adds a sentence on another search.
            reason = str(error).removeprefix(f"cannot load library '{name}': ")
            failures.append(f"{name}: {reason.split('.  Additionally, ')[0]}")
    raise ImportError(
        "libmsda: no shared library could be loaded; set MSDA_LIBRARY to the path of libmsda.so. Tried "
        + "; ".join(failures)
    )


def _check(ffi: Any, lib: Any, name: str) -> None:
    try:
        found = lib.msda_abi_version()
    except (AttributeError, getattr(ffi, "error", AttributeError)):  # the latter in a wheel
        raise ImportError(f"libmsda: {name} is not libmsda.so: it has no msda_abi_version()") from None
    if found != ABI_VERSION:
        raise ImportError(
            f"libmsda: {name} has ABI version {found}, this package was written for {ABI_VERSION}; "
            "install a package and a library of the same version"
        )
    for struct_name, size in STRUCT_SIZES.items():
        if ffi.sizeof(struct_name) != size:
            raise ImportError(
                f"libmsda: struct {struct_name} has {ffi.sizeof(struct_name)} bytes on this machine and {size} "
                "in the library's interface"
            )


ffi = _declarations()
lib, library_path = _load(ffi)
_check(ffi, lib, library_path)


def plugin_paths(name: str) -> list[pathlib.Path]:
    """Where a library that a host of libmsda loads may be: beside libmsda, or in libmsda/ there (Debian)."""
    folder = pathlib.Path(library_path).resolve().parent
    return [folder / name, folder / "libmsda" / name]


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
