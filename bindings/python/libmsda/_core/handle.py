"""Handle: a device, its threads, log and tuning records; freed when nothing refers to it any more."""

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from .cache import Cache
from .errors import InvalidArgumentError, check
from .library import ffi, lib, text
from .problem import Problem

CPU = lib.MSDA_DEVICE_CPU

_LOG_LEVELS = {
    "off": lib.MSDA_LOG_OFF,
    "error": lib.MSDA_LOG_ERROR,
    "warn": lib.MSDA_LOG_WARN,
    "info": lib.MSDA_LOG_INFO,
    "trace": lib.MSDA_LOG_TRACE,
}
_LOG_NAMES = {number: name for name, number in _LOG_LEVELS.items()}


class KernelInfo(NamedTuple):
    """A kernel of the library.

    kernel_id  "family.target.dtype[...]@revision", which `kernel=` takes.
    family     the first part of the id.
    sm_min     lowest compute capability times ten; 0: it runs on the CPU.
    sm_max     highest; 0: no upper end.
    """

    kernel_id: str
    family: str
    sm_min: int
    sm_max: int


def _log_callback(log: Callable[[str, str], None]) -> Any:
    def receive(_user: Any, level: int, message: Any, length: int) -> None:
        log(_LOG_NAMES.get(level, str(level)), ffi.buffer(message, length)[:].decode())

    return ffi.callback("void(void*, msda_log_level, const char*, size_t)", receive)


def destroy(function: Any, kept: Any, pointer: Any) -> None:
    """Ends an object of the library; `kept` is what had to stay alive until then."""
    function(pointer)


class Unpicklable:
    """An object of this process, which says so where it is to be pickled or copied."""

    _instead = ""

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a libmsda.{type(self).__name__} belongs to this process and is not pickled; "
            + self._instead
        )


class Handle(Unpicklable):
    """A device and its threads. Plans made with it keep what they need of it alive.

    threads    CPU: how many work on one call, the caller's included; 0: all hardware threads.
               Never changes a result.
    device     None is the CPU; a number is a CUDA device.
    log        called as log(level, message) with level one of "error", "warn", "info", "trace".
    log_level  the least serious level that log is told, or "off".

    Any thread may use it. Raises InvalidArgumentError for a number out of range and CudaError for a
    device that is not there. A process forked after the handle was made cannot execute with it.
    """

    _instead = "make one with the same arguments on the other side"

    def __init__(
        self,
        *,
        threads: int = 0,
        device: int | None = None,
        log: Callable[[str, str], None] | None = None,
        log_level: str = "info",
    ):
        if log_level not in _LOG_LEVELS:
            raise InvalidArgumentError(
                f"log_level is {log_level!r}: must be one of {', '.join(_LOG_LEVELS)}"
            )
        options = ffi.new("msda_handle_options*")
        options.struct_size = ffi.sizeof("msda_handle_options")
        try:
            options.device = CPU if device is None else device
            options.thread_count = threads
        except (OverflowError, TypeError) as error:
            raise InvalidArgumentError(
                f"device is {device!r} and threads is {threads!r}: must be 32-bit integers"
            ) from error
        callback = None
        if log is not None:
            callback = options.log_fn = _log_callback(log)
            options.log_level = _LOG_LEVELS[log_level]
        out = ffi.new("msda_handle**")
        check(lib.msda_handle_create(options, out))
        self.device = options.device
        self.threads = options.thread_count
        self._keep = callback
        self.plans = Cache(256)  # of calls that have no Plan of their own
        self.calls = Cache(1024)  # what front ends remember of a call: its plan and its checks
        self._c = ffi.gc(out[0], functools.partial(destroy, lib.msda_handle_destroy, callback))

    def __repr__(self) -> str:
        if self.device != CPU:
            return f"<libmsda.Handle of CUDA device {self.device}>"
        return f"<libmsda.Handle of the CPU, {self.threads or os.cpu_count()} threads>"

    def kernels(self) -> list[KernelInfo]:
        """Returns a KernelInfo of each kernel of the library, whether or not it runs on this device."""
        count = ffi.new("size_t*")
        check(lib.msda_kernel_count(self._c, count))
        found = []
        for index in range(count[0]):
            info = ffi.new("msda_kernel_info*")
            info.struct_size = ffi.sizeof("msda_kernel_info")
            check(lib.msda_kernel_get(self._c, index, info))
            found.append(
                KernelInfo(text(info.kernel_id), text(info.family), info.sm_min, info.sm_max)
            )
        return found

    def explain(self, problem: Problem) -> str:
        """Returns text about a problem: one line a kernel, with its rank and predicted time, or with the
        reason for which it is rejected. Raises InvalidArgumentError for a problem that is none."""
        c_problem, _keep = problem.to_c()
        size = ffi.new("size_t*")
        check(lib.msda_explain(self._c, c_problem, ffi.NULL, size))
        buffer = ffi.new("char[]", size[0])
        check(lib.msda_explain(self._c, c_problem, buffer, size))
        return text(buffer)

    def tuning_export(self) -> str:
        """Returns the tuning records as text, sorted, one a line: those of tune() and those imported."""
        size = ffi.new("size_t*")
        check(lib.msda_tuning_export(self._c, ffi.NULL, size))
        while True:
            buffer = ffi.new("char[]", size[0])
            status = lib.msda_tuning_export(self._c, buffer, size)
            if status != lib.MSDA_ERROR_BUFFER_TOO_SMALL:  # another thread has added some
                check(status)
                return text(buffer)

    def tuning_import(self, records: str) -> None:
        """Adds `records`, which tuning_export() wrote in this run or another, in the place of those of the
        same problem.

        Records of other devices, thread counts, versions or kernels are kept and exported again,
        and not used. Raises InvalidArgumentError, with the line and what is wrong there, or
        StalePlanError for a text of another version's format; nothing is added then."""
        data = records.encode()
        check(lib.msda_tuning_import(self._c, ffi.from_buffer("char[]", data), len(data)))


_default_handles = Cache(64)


def default_handle(threads: int = 0, device: int = CPU, kind: type[Handle] = Handle) -> Handle:
    """The process's handle of a device with that many threads, made at the first use."""
    number = None if device == CPU else device
    return _default_handles.find(
        (kind, device, threads), lambda: kind(threads=threads, device=number)
    )
