"""Finds libmsda_jax.so and registers its custom calls with XLA."""

import ctypes
import os
import pathlib
import re
from typing import Any

from .._core.library import plugin_paths

try:
    from jax import ffi
except ImportError:  # before JAX 0.5
    from jax.extend import ffi  # type: ignore[no-redef]

FILE_NAME = "libmsda_jax.so"
PLATFORMS = {"cpu": "cpu", "cuda": "CUDA"}  # as JAX's lowering and XLA's registry call them
OPERATIONS = ("forward", "backward", "forward_fused", "backward_fused")
ffi_call: Any = ffi.ffi_call


def _candidates() -> list[str]:
    """Where the library may be, the first that can be loaded being taken: what the environment variable
    MSDA_JAX_LIBRARY names, or else the files where libmsda is, or else the system's."""
    chosen = os.environ.get("MSDA_JAX_LIBRARY")
    return [chosen] if chosen else [*map(str, plugin_paths(FILE_NAME)), FILE_NAME]


def _load() -> ctypes.CDLL:
    failures = []
    for name in _candidates():
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            failures.append(f"{name}: {str(error).removeprefix(f'{name}: ')}")
    raise ImportError(
        "libmsda.jax: libmsda_jax.so could not be loaded; set MSDA_JAX_LIBRARY to its path. Tried "
        + "; ".join(failures)
    )


def target_name(platform: str, operation: str) -> str:
    """The custom call of an operation on a platform of JAX's."""
    return f"msda_{platform}_{operation}"


def _interface() -> int | None:
    """The minor version of XLA's interface, by the header that jaxlib has."""
    header = pathlib.Path(ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    text = header.read_text() if header.exists() else ""
    found = re.search(r"#define XLA_FFI_API_MINOR (\d+)", text)
    return int(found[1]) if found else None


def _register(library: ctypes.CDLL) -> None:
    if (minor := _interface()) is not None and hasattr(library, "msda_jax_use_interface"):
        library.msda_jax_use_interface(minor)
    for platform, registry in PLATFORMS.items():
        for operation in OPERATIONS:
            try:
                handler = ffi.pycapsule(getattr(library, f"msda_jax_{platform}_{operation}"))
            except AttributeError as error:
                raise ImportError(f"libmsda.jax: {library._name} is not {FILE_NAME}: {error}") from None
            # A GPU's plans are made before a command buffer is captured, not while it is.
            stages = handler if platform == "cpu" else {"initialize": handler, "execute": handler}
            ffi.register_ffi_target(target_name(platform, operation), stages, platform=registry)


library = _load()  # as long as the process lives, which may call it at any time
_register(library)
