"""Handle and Plan: the objects of the library, freed when nothing refers to them any more."""

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import PACKED, Strides, address, check_shape, check_writable, outer_strides, to_array
from ._errors import InvalidArgumentError, check
from ._library import ffi, lib, text
from ._problem import TENSORS, Problem

_LOG_LEVELS = {
    "off": lib.MSDA_LOG_OFF,
    "error": lib.MSDA_LOG_ERROR,
    "warn": lib.MSDA_LOG_WARN,
    "info": lib.MSDA_LOG_INFO,
    "trace": lib.MSDA_LOG_TRACE,
}
_LOG_NAMES = {number: name for name, number in _LOG_LEVELS.items()}


class KernelInfo(NamedTuple):
    """A kernel of the library."""

    kernel_id: str  # "family.target.dtype[...]@revision"
    family: str
    sm_min: int  # lowest compute capability times ten; 0: it runs on the CPU
    sm_max: int  # highest; 0: no upper end


class PlanInfo(NamedTuple):
    """What a plan is."""

    kernel_id: str
    workspace_bytes: int
    workspace_alignment: int  # bytes
    predicted_us: float  # microseconds of one call
    launch_count: int
    is_deterministic: bool  # the same bits on every run


def _log_callback(log: Callable[[str, str], None]) -> Any:
    def receive(_user: Any, level: int, message: Any, length: int) -> None:
        log(_LOG_NAMES.get(level, str(level)), ffi.buffer(message, length)[:].decode())

    return ffi.callback("void(void*, msda_log_level, const char*, size_t)", receive)


def _destroy(function: Any, kept: Any, pointer: Any) -> None:
    """Ends an object of the library; `kept` is what had to stay alive until then."""
    function(pointer)


class Handle:
    """A device and its threads. Plans made with it keep what they need of it alive.

    threads    CPU: how many work on one call, the caller's included; 0: all hardware threads.
               Never changes a result.
    device     None is the CPU; a number is a CUDA device.
    log        called as log(level, message) with level one of "error", "warn", "info", "trace".
    log_level  the least serious level that log is told, or "off".

    Any thread may use it. Raises InvalidArgumentError for a number out of range and CudaError for a
    device that is not there. A process forked after the handle was made cannot execute with it.
    """

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
            options.device = lib.MSDA_DEVICE_CPU if device is None else device
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
        self._keep = callback
        self._c = ffi.gc(out[0], functools.partial(_destroy, lib.msda_handle_destroy, callback))

    def kernels(self) -> list[KernelInfo]:
        """All kernels of the library, whether or not they run on this device."""
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
        """One line a kernel: its rank and predicted time for the problem, or why it is rejected."""
        c_problem, _keep = problem.to_c()
        size = ffi.new("size_t*")
        check(lib.msda_explain(self._c, c_problem, ffi.NULL, size))
        buffer = ffi.new("char[]", size[0])
        check(lib.msda_explain(self._c, c_problem, buffer, size))
        return text(buffer)

    def plan(self, problem: Problem, **options: Any) -> "Plan":
        """Plan(problem, handle=self, **options)."""
        return Plan(problem, handle=self, **options)

    def tune(self, problem: Problem, **sample: Any) -> "Plan":
        """Plan.tune(problem, handle=self, **sample)."""
        return Plan.tune(problem, handle=self, **sample)

    def tuning_export(self) -> str:
        """The tuning records as text, sorted, one a line: those of tune() and those imported."""
        size = ffi.new("size_t*")
        check(lib.msda_tuning_export(self._c, ffi.NULL, size))
        while True:
            buffer = ffi.new("char[]", size[0])
            status = lib.msda_tuning_export(self._c, buffer, size)
            if status != lib.MSDA_ERROR_BUFFER_TOO_SMALL:  # another thread has added some
                check(status)
                return text(buffer)

    def tuning_import(self, records: str) -> None:
        """Adds what tuning_export() wrote, of this run or another; replaces those of the same problem.

        Records of other devices, thread counts, versions or kernels are kept and exported again,
        and not used. Raises InvalidArgumentError, with the line and what is wrong there, or
        StalePlanError for a text of another version's format; nothing is added then."""
        data = records.encode()
        check(lib.msda_tuning_import(self._c, ffi.from_buffer("char[]", data), len(data)))


_default_handles: dict[int, Handle] = {}
_default_lock = threading.Lock()


def default_handle(threads: int = 0) -> Handle:
    """The process's CPU handle with that many threads, made at the first use."""
    with _default_lock:
        if threads not in _default_handles:
            _default_handles[threads] = Handle(threads=threads)
        return _default_handles[threads]


_left_to_parent = []  # default handles of the processes this one was forked from


def _after_fork() -> None:
    """A child starts with no default handle: the threads of its parent's did not come with it."""
    global _default_handles, _default_lock
    _left_to_parent.append(_default_handles)
    _default_handles, _default_lock = {}, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


class Plan:
    """A problem with the kernel chosen for it, ready to run. Immutable; any thread may run it.

    problem    what is computed.
    kernel     a kernel id of kernels(), or None: the one predicted to be fastest.
    tuned      True: the kernel that the handle's tuning records have for the problem, these options
               and the handle's threads; where there is none, the one predicted to be fastest.
    workspace_limit_bytes    kernels that need more are rejected; 0: no limit.
    handle     where it runs; None: the process's CPU handle with all threads.

    Raises UnsupportedError with the reason where no kernel, or not the one asked for, takes the
    problem, and InvalidArgumentError.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        kernel: str | None = None,
        tuned: bool = False,
        workspace_limit_bytes: int = 0,
        handle: Handle | None = None,
    ):
        if tuned and kernel is not None:
            raise InvalidArgumentError(f"tuned is True: kernel must be None, it is {kernel!r}")
        handle = handle or default_handle()
        c_problem, _keep = problem.to_c()
        options = _plan_options(workspace_limit_bytes)
        if tuned:
            options.mode = lib.MSDA_PLAN_TUNED
        if kernel is not None:
            kernel_id = ffi.new("char[]", kernel.encode())
            options.mode, options.kernel_id = lib.MSDA_PLAN_FORCED, kernel_id
        out = ffi.new("msda_plan**")
        check(lib.msda_plan_create(handle._c, c_problem, options, out))
        self._describe(problem)
        self._adopt(handle, out[0])

    @classmethod
    def tune(
        cls,
        problem: Problem,
        *,
        budget_ms: float = 200,
        workspace_limit_bytes: int = 0,
        handle: Handle | None = None,
        value_scale: ArrayLike | None = None,
        **tensors: Any,
    ) -> "Plan":
        """The plan with the kernel that is the fastest on these very arrays.

        Times the kernels predicted to be fast, as many as `budget_ms` milliseconds allow, and takes
        the one predicted fastest unless another was clearly faster. How long a kernel takes depends
        on where the points land, so the arrays should be typical. `tensors` and `value_scale` are
        those of execute(); arrays given to write into hold the new plan's result afterwards.

        The handle remembers the kernel: Plan(problem, tuned=True) takes it without measuring, and
        Handle.tuning_export() writes it down for another run.

        Raises what Plan() and execute() raise.
        """
        handle = handle or default_handle()
        plan = cls.__new__(cls)
        plan._describe(problem)
        c, _arrays = plan._tensors(value_scale, tensors)
        c_problem, _keep = problem.to_c()
        out = ffi.new("msda_plan**")
        check(
            lib.msda_plan_tune(
                handle._c,
                c_problem,
                _plan_options(workspace_limit_bytes),
                c,
                ffi.NULL,
                _milliseconds(budget_ms),
                out,
            )
        )
        plan._adopt(handle, out[0])
        return plan

    def _describe(self, problem: Problem) -> None:
        self._problem = problem
        self._specs = {
            name: (problem.shape(name), problem.dtype(name), problem.strides(name))
            for name in problem.inputs + problem.outputs
        }

    def _adopt(self, handle: Handle, pointer: Any) -> None:
        self._c = ffi.gc(pointer, functools.partial(_destroy, lib.msda_plan_destroy, handle._keep))
        info = ffi.new("msda_plan_info*")
        info.struct_size = ffi.sizeof("msda_plan_info")
        check(lib.msda_plan_get_info(self._c, info))
        self._info = PlanInfo(
            text(info.kernel_id),
            info.workspace_bytes,
            info.workspace_alignment,
            info.predicted_us,
            info.launch_count,
            bool(info.is_deterministic),
        )

    @property
    def problem(self) -> Problem:
        return self._problem

    @property
    def info(self) -> PlanInfo:
        return self._info

    def __repr__(self) -> str:
        return f"<libmsda.Plan {self._info.kernel_id} of {self._problem}>"

    def workspace(self) -> np.ndarray:
        """A new uint8 array for execute(), as large and aligned as the plan needs."""
        spare = max(self._info.workspace_alignment, 1)
        memory = np.empty(self._info.workspace_bytes + spare, np.uint8)
        start = -address(memory) % spare
        return memory[start : start + self._info.workspace_bytes]

    def execute(
        self,
        *,
        value_scale: ArrayLike | None = None,
        workspace: np.ndarray | None = None,
        **tensors: Any,
    ) -> dict[str, np.ndarray]:
        """Runs the plan and returns what it computed, by name.

        Every name of problem.inputs must be given: an array of problem.shape(name) and
        problem.dtype(name). Where the problem says packed, an input that is not is copied.
        The names of problem.outputs are the caller's arrays to write into; they must lie as the
        problem says, must be writable and must not overlap any other array. Where none is given,
        all are computed into new arrays; where some are, only those are. True asks for a new one.

        value_scale [M] float32: multiplies the values of each head; float8 values only.
        workspace: from workspace(), one for each call that runs at the same time; None: a new one.

        Raises InvalidArgumentError (the outputs are untouched then), BufferTooSmallError.
        """
        c, arrays = self._tensors(value_scale, tensors)
        workspace = self._checked_workspace(workspace)
        c.workspace, c.workspace_bytes = ffi.cast("void*", address(workspace)), workspace.size
        check(lib.msda_execute(self._c, c, ffi.NULL))
        return {name: arrays[name] for name in self._problem.outputs if name in arrays}

    def serialize(self) -> bytes:
        """The plan as bytes, for deserialize() with the same library on the same kind of device."""
        size = ffi.new("size_t*")
        check(lib.msda_plan_serialize(self._c, ffi.NULL, size))
        blob = ffi.new("char[]", size[0])
        check(lib.msda_plan_serialize(self._c, blob, size))
        return ffi.buffer(blob, size[0])[:]

    @classmethod
    def deserialize(cls, blob: bytes, problem: Problem, *, handle: Handle | None = None) -> "Plan":
        """The plan that serialize() wrote, with the same kernel. `problem` is its problem.

        Raises InvalidArgumentError for bytes that are damaged or of another problem, StalePlanError
        for those of another library version or device."""
        handle = handle or default_handle()
        out = ffi.new("msda_plan**")
        check(lib.msda_plan_deserialize(handle._c, ffi.from_buffer(blob), len(blob), out))
        plan = cls.__new__(cls)
        plan._describe(problem)
        plan._adopt(handle, out[0])
        # Arrays are checked against `problem`, so it has to be what the bytes were written for: a
        # plan of that problem and kernel has the same bytes.
        if cls(problem, kernel=plan.info.kernel_id, handle=handle).serialize() != blob:
            raise InvalidArgumentError("blob is the plan of another problem")
        return plan

    def _tensors(
        self, value_scale: ArrayLike | None, given: dict[str, Any]
    ) -> tuple[Any, dict[str, np.ndarray]]:
        """The struct without a workspace, and the arrays it points into, by name."""
        for name in given:
            if name not in self._specs:
                raise InvalidArgumentError(
                    f"{name!r} is no tensor of this plan: must be one of {', '.join(self._specs)}"
                )
        arrays = {name: self._input(name, given.get(name)) for name in self._problem.inputs}
        arrays |= self._outputs({n: given.get(n) for n in self._problem.outputs})
        c = ffi.new("msda_tensors*")
        c.struct_size = ffi.sizeof("msda_tensors")
        for name, array in arrays.items():
            setattr(c, name, ffi.cast("void*", address(array)))
        if value_scale is not None:
            arrays["value_scale"] = scale = self._scale(value_scale)
            c.value_scale = ffi.cast("const float*", address(scale))
        return c, arrays

    def _input(self, name: str, given: Any) -> np.ndarray:
        if given is None:
            raise InvalidArgumentError(
                f"{name} is missing: this plan reads {', '.join(self._problem.inputs)}"
            )
        shape, dtype, wanted = self._specs[name]
        array = to_array(name, given)
        if array.dtype != dtype:
            raise InvalidArgumentError(f"{name}.dtype is {array.dtype}: must be {dtype}")
        check_shape(name, array, TENSORS[name][0], shape)
        if outer_strides(array) == wanted:
            return array
        if wanted == PACKED:
            return np.ascontiguousarray(array)
        raise _strides_error(name, array, wanted)

    def _outputs(self, given: dict[str, Any]) -> dict[str, np.ndarray]:
        given = {name: array for name, array in given.items() if array is not None}
        if not given:
            given = dict.fromkeys(self._problem.outputs, True)
        return {name: self._output(name, array) for name, array in given.items()}

    def _output(self, name: str, given: Any) -> np.ndarray:
        shape, dtype, wanted = self._specs[name]
        if given is True:
            return _new_strided(shape, dtype, wanted)
        check_writable(name, given, dtype)
        check_shape(name, given, TENSORS[name][0], shape)
        if outer_strides(given) != wanted:
            raise _strides_error(name, given, wanted)
        return given

    def _scale(self, given: ArrayLike) -> np.ndarray:
        scale = np.ascontiguousarray(given)
        if scale.dtype != np.float32:
            raise InvalidArgumentError(f"value_scale.dtype is {scale.dtype}: must be float32")
        check_shape("value_scale", scale, "M", (self._problem.head_count,))
        return scale

    def _checked_workspace(self, given: np.ndarray | None) -> np.ndarray:
        if given is None:
            return self.workspace()
        check_writable("workspace", given, np.dtype(np.uint8))
        if given.ndim != 1 or not given.flags.c_contiguous:
            raise InvalidArgumentError(
                f"workspace has shape {given.shape}: must be one-dimensional and contiguous"
            )
        return given


def _plan_options(workspace_limit_bytes: int) -> Any:
    options = ffi.new("msda_plan_options*")
    options.struct_size = ffi.sizeof("msda_plan_options")
    options.workspace_limit_bytes = workspace_limit_bytes
    return options


def _milliseconds(given: Any) -> float:
    try:
        return float(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"budget_ms is {given!r}: must be a finite number greater than 0"
        ) from error


def _strides_error(name: str, array: np.ndarray, wanted: Strides) -> InvalidArgumentError:
    found = tuple(f"{step / array.itemsize:g}" for step in array.strides)
    allowed = "packed" if wanted == PACKED else f"{wanted} and packed from there, as in the problem"
    return InvalidArgumentError(
        f"{name} has element strides ({', '.join(found)}): must be {allowed}"
    )


def _new_strided(shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...]) -> np.ndarray:
    """A new array; with strides, a view of one that is large enough."""
    if strides == PACKED:
        return np.empty(shape, dtype)
    extent = 1 + sum((n - 1) * s for n, s in zip(shape, (*strides, 1)))
    steps = tuple(s * dtype.itemsize for s in (*strides, 1))
    return np.lib.stride_tricks.as_strided(np.empty(extent, dtype), shape, steps)


def kernels() -> list[KernelInfo]:
    """All kernels of the library, whether or not they run on this machine."""
    return default_handle().kernels()


def explain(problem: Problem, *, handle: Handle | None = None) -> str:
    """One line a kernel: its rank and predicted time for the problem, or why it is rejected."""
    return (handle or default_handle()).explain(problem)
