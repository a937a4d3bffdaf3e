"""Plan: a problem with the kernel chosen for it, run on addresses."""

import ctypes
import functools
import struct
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from .errors import InvalidArgumentError, check
from .handle import Handle, Unpicklable, default_handle, destroy
from .library import ffi, lib, text
from .problem import Problem


class PlanInfo(NamedTuple):
    """What a plan is.

    kernel_id            the kernel that it runs.
    workspace_bytes      memory that a call needs beside its tensors.
    workspace_alignment  of that memory's address, in bytes.
    predicted_us         microseconds that a call is predicted to take.
    launch_count         kernels of the GPU that a call launches; 0 on the CPU.
    is_deterministic     whether every run gives the same bits.
    """

    kernel_id: str
    workspace_bytes: int
    workspace_alignment: int
    predicted_us: float
    launch_count: int
    is_deterministic: bool


# msda_tensors is a row of 8-byte words, so one struct.pack() makes it.
_TENSORS_BYTES = ffi.sizeof("msda_tensors")
_FIELDS = [name for name, _ in ffi.typeof("msda_tensors").fields[1:]]  # all but struct_size
_tensors_type = ffi.typeof("msda_tensors*")
_stream_type = ffi.typeof("msda_stream")
_address_type, _bytes_type = ffi.typeof("uintptr_t"), ffi.typeof("char[]")
_new_memory = ffi.new_allocator(should_clear_after_alloc=False)
char_at, addressof = ctypes.c_char.from_buffer, ctypes.addressof
_cast, _from_buffer = ffi.cast, ffi.from_buffer
# _execute is msda_execute with arguments of bytes and a number, for which cffi makes no objects of its own.
_execute = _cast("msda_status(*)(const msda_plan*, const void*, uintptr_t)", lib.msda_execute)


def slots_of(problem: Problem) -> dict[str, int]:
    """The fields of msda_tensors that a problem uses, in their order, as indices of Plan.run()'s words."""
    used = {*problem.inputs, *problem.outputs, "value_scale", "workspace", "workspace_bytes"}
    return {name: slot for slot, name in enumerate(name for name in _FIELDS if name in used)}


def _packer(problem: Problem) -> Callable[..., bytes]:
    """A function that makes a msda_tensors of its size, the words of slots_of() and those of extras."""
    return _packer_of({*slots_of(problem), *problem.extras})  # the extras are the last fields


def _packer_of(used: AbstractSet[str]) -> Callable[..., bytes]:
    """A function that makes a msda_tensors of its size and the fields that are used, in their order."""
    return struct.Struct("=Q" + "".join("Q" if name in used else "8x" for name in _FIELDS)).pack


def address_of_buffer(array: Any) -> int:
    """Address of the memory of a contiguous object that has Python's buffer protocol."""
    try:
        return addressof(char_at(array))
    except (TypeError, ValueError):  # ctypes is quicker than cffi, but takes no memory that is read-only or empty
        return int(_cast(_address_type, _from_buffer(array)))


def host_memory(size: int) -> tuple[Any, int]:
    """New memory of the process, its content arbitrary, and its address."""
    memory = _new_memory(_bytes_type, size)
    return memory, int(_cast(_address_type, memory))


class Plan(Unpicklable):
    """A problem with the kernel chosen for it. Immutable; any thread may run it."""

    _instead = "Plan.serialize() gives bytes for Plan.deserialize()"

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
        if kernel is not None and not isinstance(kernel, str):
            raise InvalidArgumentError(f"kernel is {kernel!r}: must be a kernel id, such as ref.cpu@1")
        handle = checked_handle(handle)
        c_problem, _keep = problem.to_c()
        options = _plan_options(workspace_limit_bytes)
        if tuned:
            options.mode = lib.MSDA_PLAN_TUNED
        if kernel is not None:
            kernel_id = ffi.new("char[]", kernel.encode())
            options.mode, options.kernel_id = lib.MSDA_PLAN_FORCED, kernel_id
        out = ffi.new("msda_plan**")
        check(lib.msda_plan_create(handle._c, c_problem, options, out))
        self._adopt(problem, handle, out[0])

    @classmethod
    def of_pointer(cls, problem: Problem, handle: Handle, pointer: Any) -> Any:
        """Returns the plan object of a msda_plan, `pointer`, which it owns from now on; `problem` and
        `handle` are those that it was made with. Raises nothing."""
        plan = cls.__new__(cls)
        plan._adopt(problem, handle, pointer)
        return plan

    def _adopt(self, problem: Problem, handle: Handle, pointer: Any) -> None:
        self._problem, self.device = problem, handle.device
        self._pack, self._no_extras = _packer(problem), (0,) * len(problem.extras)
        self._c = ffi.gc(pointer, functools.partial(destroy, lib.msda_plan_destroy, handle._keep))
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
        self.workspace_bytes = info.workspace_bytes  # of info, quicker
        workspace = ("workspace", "workspace_bytes") if self.workspace_bytes else ()
        self._pack_few = _packer_of({*problem.inputs, *problem.outputs, *workspace})

    @property
    def problem(self) -> Problem:
        """What is computed."""
        return self._problem

    @property
    def info(self) -> PlanInfo:
        """The kernel, and what it needs."""
        return self._info

    def __repr__(self) -> str:
        return f"<libmsda.Plan {self._info.kernel_id} of {self._problem}>"

    def run(self, words: Sequence[int], stream: int = 0, extras: Sequence[int] = ()) -> None:
        """Runs on `words`: addresses and the workspace's bytes, one for each of slots_of(), 0 for none; on a CUDA
        `stream` given as a number, 0 for the default stream. `extras`: an address for each of problem.extras, or
        none. Raises InvalidArgumentError, BufferTooSmallError and CudaError."""
        tensors = self._pack(_TENSORS_BYTES, *words, *(extras or self._no_extras))
        if status := _execute(self._c, tensors, stream):
            check(status)

    def run_few(self, words: Iterable[int], stream: int = 0) -> None:
        """run() on fewer `words`, which is quicker: without value_scale, and with the workspace's only where the plan has
        one; on a `stream`, without extras. Raises what run() does."""
        tensors = self._pack_few(_TENSORS_BYTES, *words)
        if status := _execute(self._c, tensors, stream):
            check(status)

    def serialize(self) -> bytes:
        """Returns the plan as bytes, for deserialize() with the same library on the same kind of device."""
        size = ffi.new("size_t*")
        check(lib.msda_plan_serialize(self._c, ffi.NULL, size))
        blob = ffi.new("char[]", size[0])
        check(lib.msda_plan_serialize(self._c, blob, size))
        return ffi.buffer(blob, size[0])[:]

    @classmethod
    def deserialize(cls, blob: bytes, problem: Problem, *, handle: Handle | None = None) -> Any:
        """Returns the plan that serialize() wrote as `blob`, with the same kernel. `problem` is its
        problem, `handle` where it runs; None: the process's CPU handle.

        Raises InvalidArgumentError for bytes that are damaged or of another problem, StalePlanError
        for those of another library version or device."""
        handle = checked_handle(handle)
        out = ffi.new("msda_plan**")
        check(lib.msda_plan_deserialize(handle._c, ffi.from_buffer(blob), len(blob), out))
        plan = cls.of_pointer(problem, handle, out[0])
        # Arrays are checked against `problem`, so it has to be what the bytes were written for: a
        # plan of that problem and kernel has the same bytes.
        if cls(problem, kernel=plan.info.kernel_id, handle=handle).serialize() != blob:
            raise InvalidArgumentError("blob is the plan of another problem")
        return plan


def tuned_plan(
    kind: type[Plan],
    problem: Problem,
    handle: Handle,
    words: Sequence[int],
    stream: int,
    budget_ms: Any,
    workspace_limit_bytes: int,
) -> Any:
    """A `kind` of plan with the kernel that is fastest on the tensors, by msda_plan_tune()."""
    try:
        budget = float(budget_ms)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"budget_ms is {budget_ms!r}: must be a finite number greater than 0"
        ) from error
    data = _packer(problem)(_TENSORS_BYTES, *words)
    tensors, on_stream = _from_buffer(_tensors_type, data), _cast(_stream_type, stream)
    c_problem, _keep = problem.to_c()
    options = _plan_options(workspace_limit_bytes)
    out = ffi.new("msda_plan**")
    check(lib.msda_plan_tune(handle._c, c_problem, options, tensors, on_stream, budget, out))
    return kind.of_pointer(problem, handle, out[0])


def _plan_options(workspace_limit_bytes: int) -> Any:
    options = ffi.new("msda_plan_options*")
    options.struct_size = ffi.sizeof("msda_plan_options")
    try:
        options.workspace_limit_bytes = workspace_limit_bytes
    except (OverflowError, TypeError) as error:
        raise InvalidArgumentError(
            f"workspace_limit_bytes is {workspace_limit_bytes!r}: must be an integer, 0 or more"
        ) from error
    return options


def checked_handle(handle: Any) -> Handle:
    """The handle, or the process's of the CPU for None."""
    if handle is None:
        return default_handle()
    if not isinstance(handle, Handle):
        raise InvalidArgumentError(f"handle is {handle!r}: must be a libmsda.Handle or None")
    return handle


def cached_plan(make: type[Plan], problem: Problem, kernel: str | None, handle: Handle) -> Any:
    """The plan of a problem with a kernel on a handle's device, made at the first use."""
    key = make, problem, kernel
    return handle.plans.find(key, lambda: make(problem, kernel=kernel, handle=handle))
