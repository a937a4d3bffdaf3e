"""The handlers of libmsda_jax.so on two devices: where they compute, on which stream, and in which stage."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import libmsda
from device_arrays import DEVICES, Device, Memory, Stream, cuda, current
from libmsda import Problem
from test_devices import FUSED, LEVELS, POINTS, SIZES, assert_forward, exact, numbers
from xla_frames import INITIALIZE, Failed, Xla, attributes_of, metadata

NAMES = [f"{operation}{suffix}" for operation in ("forward", "backward") for suffix in ("", "_fused")]


def buffer(array, dtype="float32"):
    return array.address, array.host.shape, dtype


class Call:
    """A call of a handler on a device, its results not yet computed."""

    def __init__(self, device, fused, backward, seed=1, stream=None):
        self.given, self.device = numbers(fused, seed), device
        self.grad_output = np.linspace(-1, 1, 160, dtype=np.float32).reshape(2, 5, 2, 8)
        self.stream = stream or Stream(device)
        operation = "backward" if backward else "forward"
        self.name = f"cuda_{operation}" + "_fused" * fused
        mode = {"input_mode": "fused", "reference_dim": 2} if fused else {}
        problem = Problem(level_hw=LEVELS, points=POINTS, operation=operation, **SIZES, **mode)
        hosts = [*self.given.values(), *([self.grad_output] if backward else [])]
        self.arrays = [Device(host, device) for host in hosts]
        self.results = [Device(np.full(problem.shape(name), 7, np.float32), device) for name in problem.outputs]
        info = libmsda.Plan(problem, handle=libmsda.default_handle(device=device)).info
        self.workspace_bytes = info.workspace_bytes + info.workspace_alignment
        self.workspace = Memory(device, self.workspace_bytes)
        self.attributes = attributes_of(LEVELS, POINTS)
        if backward:
            self.attributes["wanted"] = (1 << len(self.given)) - 1

    def run(self, xla=None, **settings):
        results = [*map(buffer, self.results), (self.workspace.address, (self.workspace_bytes,), "uint8")]
        xla = xla or Xla(self.device, self.stream.number)
        xla.call(self.name, [*map(buffer, self.arrays)], results, self.attributes, **settings)

    def found(self):
        with current(self.device):
            cuda("cudaDeviceSynchronize")
        return [array.numpy() for array in self.results]

    def check(self):
        if "wanted" not in self.attributes:
            assert_forward(self.given, self.found()[0])
            return
        for one, other in zip(self.found(), exact(self.given, self.grad_output), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.parametrize("device", DEVICES)
def test_a_call_computes_on_the_device_that_xla_names(device, fused, backward):
    call = Call(device, fused, backward)
    with current(1 - device):
        call.run()
    call.check()


def test_a_call_is_enqueued_on_the_stream_that_xla_names():
    call = Call(1, False, False)
    call.given["value"][...] = numbers(seed=2)["value"]
    call.arrays[0].write(call.stream.number)
    call.run()
    with current(1):
        cuda("cudaStreamSynchronize", None)  # the default stream's work is done before the numbers are there
    call.check()


def test_a_stream_of_another_device_is_refused():
    call = Call(1, False, False)
    with pytest.raises(Failed, match="13: .*stream"):
        call.run(Xla(1, Stream(0).number))
    assert (call.found()[0] == 7).all()


def test_the_stage_before_the_execution_plans_and_computes_nothing():
    call = Call(0, False, True)
    call.run(stage=INITIALIZE)
    assert all((array == 7).all() for array in call.found())
    Xla(0, 0).call(call.name, [], [], {"level_hw": 0}, stage=INITIALIZE)  # a release without arguments there
    call.attributes["kernel_id"] = "nothing.sm75@1"
    with pytest.raises(Failed, match="3: .*kernel_id"):
        call.run(stage=INITIALIZE)


def test_gradients_that_are_not_wanted_have_no_buffers():
    call = Call(0, False, True)
    call.attributes["wanted"] = 0b101
    wanted = exact(call.given, call.grad_output)
    del call.results[1]
    call.run()
    for one, other in zip(call.found(), (wanted[0], wanted[2]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_buffers_that_do_not_fit_are_refused_before_anything_runs():
    for index, shape, words in [
        (0, (2, 15, 2, 8), "3: .*token_count"),
        (1, (2, 5, 2, 3, 2), "axis 3 of coord is 3: must be 4"),
        (2, (2, 4, 2, 4), "axis 1 of weight is 4: must be 5"),
        (2, (2, 5, 8), "weight has 3 axes: must have 4"),
    ]:
        call = Call(0, False, False)
        host = call.arrays[index].host
        call.arrays[index].host = np.zeros(shape, np.float32)
        with pytest.raises(Failed, match=words):
            call.run()
        call.arrays[index].host = host
        assert (call.found()[0] == 7).all()
    call = Call(0, True, True)  # of fused input, whose reference gradients take a workspace
    call.workspace_bytes = 1
    with pytest.raises(Failed, match="the workspace has 1 bytes, and .* needs .* compiled for another device"):
        call.run()
    call = Call(0, False, False)
    del call.attributes["math_mode"]
    with pytest.raises(Failed, match="there is no attribute 'math_mode' of the right kind"):
        call.run()
    call = Call(0, False, False)
    with pytest.raises(Failed, match="13: libmsda.jax: this release of JAX does not tell which GPU"):
        call.run(Xla(0, call.stream.number, functions=17))


def test_threads_call_both_devices_at_once():
    calls = [Call(device, fused, backward) for device in DEVICES for fused in (False, True) for backward in (False, True)]
    with ThreadPoolExecutor(len(calls)) as pool:
        for _ in range(3):
            for future in [pool.submit(call.run) for call in calls]:
                future.result()
    for call in calls:
        call.check()


@pytest.mark.parametrize("name", NAMES)
def test_handlers_of_gpus_may_be_in_command_buffers(name):
    assert metadata(f"cuda_{name}").traits == 1 and metadata(f"cpu_{name}").traits == 0
    version = metadata(f"cuda_{name}").version
    assert (version.major, version.minor) == (0, 3)
