"""Which device and stream a call takes, on tensors of two CUDA devices that are not there: handle and plan record."""

import types

import pytest
import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import libmsda
from libmsda import _functions
from libmsda.torch import _calls
from problems import LEVELS, tensors

NAMES = {False: _calls.SAMPLED, True: _calls.FUSED}


class Handle:
    def __init__(self, threads, device):
        self.threads, self.device = threads, device


class Plan:
    """Records the stream of each call."""

    workspace_bytes = 64
    info = types.SimpleNamespace(workspace_bytes=64, workspace_alignment=256)

    def __init__(self, device, calls):
        self.device, self.calls = device, calls

    def run(self, words, stream, extras):
        self.calls.append((self.device, stream, len(words)))


@pytest.fixture
def calls(monkeypatch):
    """The calls (device, stream, number of addresses) made on devices whose stream is a thousand more than their number."""
    made = []
    monkeypatch.setattr(_functions, "default_handle", Handle)
    monkeypatch.setattr(_calls, "cached_plan", lambda _plan, _problem, _kernel, handle: Plan(handle.device, made))
    monkeypatch.setattr(_calls, "_calls", type(_calls._calls)(16))  # no call of these tests is remembered
    monkeypatch.setattr(_calls.KIND, "_raw_stream", lambda device: 1000 + device)
    # torch's own makes a tensor on the device where there is a GPU, and the second device may not be there.
    monkeypatch.setattr(fake_tensor, "init_gpu_context", lambda _device: None, raising=False)
    return made


def on(device, fused):
    return [torch.empty(one.shape, device=device) for one in tensors(fused)]


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
@pytest.mark.parametrize("fused", [False, True])
def test_a_call_takes_the_device_of_its_tensors_and_that_one_s_stream(calls, fused):
    with FakeTensorMode():
        for device in (1, 0, 1):
            given = on(f"cuda:{device}", fused)
            output = _calls.forward(NAMES[fused], given, LEVELS, _calls.Settings(), None, None)
            assert output.device == torch.device("cuda", device)
            wanted = [True] * len(given)
            found = _calls.backward(
                NAMES[fused], torch.empty_like(output), given, LEVELS, _calls.Settings(), None, wanted
            )
            assert all(one.device == output.device for one in found)
    assert [call[:2] for call in calls] == [(1, 1001)] * 2 + [(0, 1000)] * 2 + [(1, 1001)] * 2


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_tensors_of_two_devices_are_refused_by_name(calls):
    with FakeTensorMode():
        value, coord, weight = on("cuda:1", False)
        for given, name in (((value, coord.to("cuda:0"), weight), "coord"), ((value, coord, weight.to("cpu")), "weight")):
            with pytest.raises(libmsda.InvalidArgumentError, match=f"^{name} is on .*: must be on CUDA device 1"):
                _calls.forward(_calls.SAMPLED, given, LEVELS, _calls.Settings(), None, None)
    assert calls == []
