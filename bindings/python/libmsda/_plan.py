"""Handle and Plan on arrays."""

from typing import Any

from ._arrays import Kind, kind_of
from ._arrays.view import View, same_strides
from ._core import handle as core_handle
from ._core import plan as core_plan
from ._core.errors import InvalidArgumentError
from ._core.handle import KernelInfo
from ._core.plan import checked_handle, slots_of, tuned_plan
from ._core.problem import PACKED, TENSORS, Problem, Strides


class Handle(core_handle.Handle):
    __doc__ = core_handle.Handle.__doc__

    def plan(self, problem: Problem, **options: Any) -> "Plan":
        """Returns Plan(problem, handle=self, **options), and raises what that does."""
        return Plan(problem, handle=self, **options)

    def tune(self, problem: Problem, **sample: Any) -> "Plan":
        """Returns Plan.tune(problem, handle=self, **sample), and raises what that does."""
        return Plan.tune(problem, handle=self, **sample)


def default_handle(threads: int = 0, device: int | None = None) -> Handle:
    """The process's handle of a device, made at the first use: the one that the functions work on.

    threads  of the CPU: how many work on one call; 0: all hardware threads.
    device   None is the CPU; a number is a CUDA device.

    Returns the Handle. Raises what Handle() raises.
    """
    number = core_handle.CPU if device is None else device
    return core_handle.default_handle(threads, number, Handle)


class Plan(core_plan.Plan):
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

    def _adopt(self, problem: Problem, handle: Any, pointer: Any) -> None:
        super()._adopt(problem, handle, pointer)
        self._tensors = Tensors(problem, handle.device)

    @classmethod
    def tune(
        cls,
        problem: Problem,
        *,
        budget_ms: float = 200,
        workspace_limit_bytes: int = 0,
        handle: Handle | None = None,
        value_scale: Any = None,
        **tensors: Any,
    ) -> "Plan":
        """The plan with the kernel that is the fastest on these very arrays.

        Times the kernels predicted to be fast, as many as `budget_ms` milliseconds allow, and takes
        the one predicted fastest unless another was clearly faster. How long a kernel takes depends
        on where the points land, so the arrays should be typical. `tensors` and `value_scale` are
        those of execute(); arrays given to write into hold the new plan's result afterwards. Kernels
        that need more than `workspace_limit_bytes` of workspace are left out; 0: no limit.

        The handle remembers the kernel: Plan(problem, tuned=True) takes it without measuring, and
        Handle.tuning_export() writes it down for another run.

        Returns the plan, on `handle`; None: the process's CPU handle. Raises what Plan() and
        execute() raise.
        """
        handle = checked_handle(handle)
        words, _arrays, kind = Tensors(problem, handle.device).words(value_scale, tensors)
        stream = kind.stream(handle.device) if handle.device != core_handle.CPU else 0
        return tuned_plan(cls, problem, handle, words, stream, budget_ms, workspace_limit_bytes)

    def workspace(self) -> Any:
        """A new numpy uint8 array for execute(), as large and aligned as the plan needs. A plan of a
        CUDA device takes one of the caller's package, of info.workspace_bytes, there."""
        if self.device != core_handle.CPU:
            raise InvalidArgumentError(
                f"the plan runs on {device_name(self.device)}: give execute() a uint8 array there of "
                f"{self._info.workspace_bytes} bytes at a multiple of {self._info.workspace_alignment}"
            )
        import numpy

        size, alignment = self._info.workspace_bytes, max(self._info.workspace_alignment, 1)
        return kind_of(numpy.empty(0)).aligned(size, alignment, numpy.dtype("u1"), (size,))

    def execute(
        self, *, value_scale: Any = None, workspace: Any = None, **tensors: Any
    ) -> dict[str, Any]:
        """Runs the plan.

        Every name of problem.inputs must be given: an array of problem.shape(name) and
        problem.dtype(name). Where the problem says packed, an input that is not is copied.
        The names of problem.outputs are the caller's arrays to write into; they must lie as the
        problem says, must be writable and must not overlap any other array. Where none is given,
        all are computed into new arrays; where some are, only those are. True asks for a new one.
        Those of problem.extras are computed only where they are given.

        value_scale [M] float32: multiplies the values of each head; float8 values only.
        workspace: from workspace(), one for each call that runs at the same time; None: a new one.

        Returns a dict of the arrays that it computed, by name. Raises InvalidArgumentError (the
        outputs are untouched then), BufferTooSmallError.
        """
        checks = self._tensors
        if checks.extras:
            extras = {name: tensors.pop(name, None) for name in checks.extras}
        words, arrays, kind = checks.words(value_scale, tensors)
        found, addresses = checks.extra_words(kind, extras) if checks.extras else ({}, [])
        if workspace is not None:
            words[-2:] = checks.workspace(workspace)
        elif self.workspace_bytes:
            workspace = add_workspace(self, words, kind)
        stream = 0 if self.device == core_handle.CPU else kind.stream(self.device)
        self.run(words, stream, addresses)
        computed = {}
        for name in checks.outputs:
            if name in arrays:
                computed[name] = arrays[name]
        return computed | found if found else computed


def add_workspace(plan: core_plan.Plan, words: list[int], kind: Kind) -> Any:
    """New memory for the plan's workspace, entered at the end of `words`; it must outlive the call."""
    info = plan.info
    memory, address = kind.memory(info.workspace_bytes + info.workspace_alignment, plan.device)
    words[-2:] = address + -address % info.workspace_alignment, info.workspace_bytes
    return memory


class Tensors:
    """Checks the arrays of a problem's tensors."""

    def __init__(self, problem: Problem, device: int):
        self._inputs, self.outputs, self._device = problem.inputs, problem.outputs, device
        self._value = problem.value_dtype, problem.head_count
        self._slots = slots_of(problem)
        self._specs = {
            name: (problem.shape(name), problem.dtype(name), problem.strides(name))
            for name in problem.inputs + problem.outputs
        }
        self.extras = problem.extras
        self._packed = None  # what Kind.enter_packed() takes, of the CPU
        if device == core_handle.CPU and all(one[2] == PACKED for one in self._specs.values()):
            self._packed = [
                (name, self._slots[name], shape, dtype, name in problem.outputs)
                for name, (shape, dtype, _) in self._specs.items()
            ]
        for name in self.extras:
            self._specs[name] = problem.shape(name), problem.dtype(name), problem.strides(name)

    def words(
        self, value_scale: Any, given: dict[str, Any]
    ) -> tuple[list[int], dict[str, Any], Kind]:
        """The words of msda_tensors without a workspace, the arrays they are of, and their kind."""
        kind, words = kind_of(given.get("value")), [0] * len(self._slots)
        if self._packed and kind.enter_packed(self._packed, given, words):
            arrays = given
        else:
            arrays = self._entered(kind, given, words)
        if value_scale is not None:
            arrays["value_scale"], words[self._slots["value_scale"]] = checked_scale(
                kind, value_scale, *self._value, self._device
            )
        return words, arrays, kind

    def extra_words(
        self, kind: Kind, given: dict[str, Any]
    ) -> tuple[dict[str, Any], list[int]]:
        """The extras that are given, and an address for each, 0 for none."""
        asked = {
            name: (None, 0) if one is None else self._output(kind, name, one)
            for name, one in given.items()
        }
        found = {name: array for name, (array, _) in asked.items() if array is not None}
        return found, [address for _, address in asked.values()]

    def _entered(self, kind: Kind, given: dict[str, Any], words: list[int]) -> dict[str, Any]:
        """The arrays that are read and written, their addresses entered into `words`."""
        if not given.keys() <= self._specs.keys():
            name = next(name for name in given if name not in self._specs)
            raise InvalidArgumentError(
                f"{name!r} is no tensor of this plan: must be one of {', '.join(self._specs)}"
            )
        arrays = {}
        for name in self._inputs:
            arrays[name], words[self._slots[name]] = self._input(kind, name, given.get(name))
        written = [name for name in self.outputs if given.get(name) is not None]
        for name in written or self.outputs:
            arrays[name], words[self._slots[name]] = self._output(kind, name, given.get(name, True))
        return arrays

    def _check(self, name: str, view: View) -> None:
        shape, dtype, _strides = self._specs[name]
        if view.dtype != dtype:
            raise InvalidArgumentError(f"{name}.dtype is {view.dtype}: must be {dtype}")
        check_shape(name, view.shape, TENSORS[name].axes, shape)
        check_device(name, view.device, self._device, "where the plan runs")

    def _input(self, kind: Kind, name: str, given: Any) -> tuple[Any, int]:
        if given is None:
            raise InvalidArgumentError(
                f"{name} is missing: this plan reads {', '.join(self._inputs)}"
            )
        array = kind.prepare(name, given)
        view = kind.view(array)
        self._check(name, view)
        wanted = self._specs[name][2]
        if same_strides(view, wanted):
            return array, view.address
        if wanted != PACKED:
            raise _strides_error(name, view, wanted)
        array = kind.packed(array)
        return array, kind.address(array)

    def _output(self, kind: Kind, name: str, given: Any) -> tuple[Any, int]:
        shape, dtype, wanted = self._specs[name]
        if given is True:
            array = kind.strided(shape, wanted, dtype, self._device)
            return array, kind.address(array)
        return given, output_address(kind, name, name, given, shape, dtype, wanted, self._device)

    def workspace(self, given: Any) -> tuple[int, int]:
        """Address and bytes of a workspace of the caller's."""
        kind = kind_of(given)
        if self._device == core_handle.CPU and (found := kind.memory_given(given)):
            return found
        kind.check_output("workspace", given)
        view = kind.view(kind.prepare("workspace", given))
        if view.dtype != "uint8":
            raise InvalidArgumentError(f"workspace.dtype is {view.dtype}: must be uint8")
        if len(view.shape) != 1 or (view.shape[0] > 1 and view.strides != (1,)):
            raise InvalidArgumentError(
                f"workspace has shape {view.shape}: must be one-dimensional and contiguous"
            )
        check_device("workspace", view.device, self._device, "where the plan runs")
        return view.address, view.shape[0]


def output_address(
    kind: Kind,
    tensor: str,
    field: str,
    given: Any,
    shape: tuple[int, ...],
    dtype: str,
    wanted: Strides,
    device: int,
) -> int:
    """The address of an array to write a tensor into, which the caller gave as `field`."""
    kind.check_output(field, given)
    view = kind.view(kind.prepare(field, given))
    if view.dtype != dtype:
        raise InvalidArgumentError(f"{field}.dtype is {view.dtype}: must be {dtype}")
    check_shape(field, view.shape, TENSORS[tensor].axes, shape)
    check_device(field, view.device, device, "where the plan runs")
    if not same_strides(view, wanted):
        raise _strides_error(field, view, wanted)
    return view.address


def checked_scale(
    kind: Kind, given: Any, value_dtype: str, head_count: int, device: int
) -> tuple[Any, int]:
    """value_scale as a packed array and its address."""
    array = kind.prepare("value_scale", given)
    view = kind.view(array)
    check_scale(view, value_dtype, head_count)
    check_device("value_scale", view.device, device, "where value is")
    if head_count > 1 and view.strides != (1,):
        array = kind.packed(array)
    return array, kind.address(array)


def check_scale(view: View, value_dtype: str, head_count: int) -> None:
    if value_dtype != "float8_e4m3fn":
        raise InvalidArgumentError(
            f"value_scale is given: must be None, as value.dtype is {value_dtype} and only "
            "float8_e4m3fn has a scale"
        )
    if view.dtype != "float32":
        raise InvalidArgumentError(f"value_scale.dtype is {view.dtype}: must be float32")
    check_shape("value_scale", view.shape, "M", (head_count,))


def check_shape(
    field: str, found: tuple[int, ...], letters: str, shape: tuple[int, ...], hint: str = ""
) -> None:
    if found != shape:
        raise InvalidArgumentError(
            f"{field} has shape {found}: must be {shape} = [{', '.join(letters)}]{hint}"
        )


def device_name(device: int) -> str:
    return "the CPU" if device == core_handle.CPU else f"CUDA device {device}"


def check_device(field: str, found: int, wanted: int, why: str) -> None:
    if found != wanted:
        raise InvalidArgumentError(
            f"{field} is on {device_name(found)}: must be on {device_name(wanted)}, {why}"
        )


def _strides_error(name: str, view: View, wanted: Strides) -> InvalidArgumentError:
    found = view.strides if view.strides is not None else "not whole"
    allowed = "packed" if wanted == PACKED else f"{wanted} and packed from there, as in the problem"
    return InvalidArgumentError(f"{name} has element strides {found}: must be {allowed}")


def kernels() -> list[KernelInfo]:
    """Returns a KernelInfo of each kernel of the library, whether or not it runs on this machine."""
    return default_handle().kernels()


