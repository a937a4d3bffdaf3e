"""libmsda.torch on the second GPU while the first is current; conftest.py collects these where there are two or more."""

import threading

import pytest
import torch

import libmsda
import libmsda.torch as ours
from problems import FLAT, LEVELS, call, tensors

SECOND = "cuda:1"
CASES = pytest.mark.parametrize("fused", [False, True], ids=["sampled-cuda", "fused-cuda"])


@pytest.fixture(autouse=True)
def first_is_current():
    torch.cuda.set_device(0)
    yield
    assert torch.cuda.current_device() == 0


def results(fused, device):
    """The output and all gradients, computed there."""
    given = tensors(fused, device=device, grad=True)
    output = call(fused, given)
    grad_output = torch.linspace(-1, 1, output.numel(), device=device).view_as(output)
    return [output.detach(), *torch.autograd.grad(output, given, grad_output)]


@CASES
def test_results_are_those_of_the_first_gpu(fused):
    wanted, found = results(fused, "cuda:0"), results(fused, SECOND)
    for one, other in zip(found, wanted, strict=True):
        assert one.device == torch.device(SECOND)
        assert torch.equal(one.cpu(), other.cpu())


@CASES
def test_calls_of_both_gpus_from_threads_of_their_own(fused):
    wanted, wrong = [one.cpu() for one in results(fused, "cuda:0")], []

    def work(device):
        for _ in range(50):
            found = results(fused, device)
            if not all(torch.equal(one.cpu(), other) for one, other in zip(found, wanted, strict=True)):
                wrong.append(device)

    threads = [threading.Thread(target=work, args=[device]) for device in ("cuda:0", SECOND, "cuda:0", SECOND)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_cuda_call_runs_on_the_stream_of_its_own_device():
    given = tensors(device=SECOND)
    wanted = call(False, given)
    torch.cuda.synchronize(SECOND)
    side, late = torch.cuda.Stream(SECOND), torch.zeros_like(given[0])
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        late.copy_(given[0])
        with torch.cuda.device(0):  # each device keeps a current stream
            output = call(False, [late, *given[1:]])
    side.synchronize()
    assert torch.equal(output, wanted)


@CASES
def test_graph_captured_on_the_second_gpu(fused):
    with torch.cuda.device(1):
        given = tensors(fused, device=SECOND)
        call(fused, given)
        graph = torch.cuda.CUDAGraph()
        # torch's own stream for captures is of the GPU that was current at the process's first one.
        with torch.cuda.graph(graph, stream=torch.cuda.Stream(SECOND)):
            captured = call(fused, given)
        given[0].mul_(0.9)
        graph.replay()
        assert torch.equal(captured, call(fused, given))


def test_cuda_operators_and_numpy_s_functions_take_tensors_of_it():
    value, coord, weight = tensors(device=SECOND)
    wanted = call(False, [value, coord, weight])
    assert torch.equal(torch.ops.msda.forward(value, coord, weight, FLAT), wanted)
    assert torch.equal(libmsda.forward(value, LEVELS, coord, weight), wanted)


def test_cuda_module():
    torch.manual_seed(0)
    module = ours.MSDeformAttn(12, head_count=3, level_count=2, point_count=4)
    query, reference = torch.rand(2, 36, 12), torch.rand(2, 36, 1, 2).expand(-1, -1, 2, -1)
    found = []
    for device in ("cuda:0", SECOND):
        module.to(device).zero_grad()
        output = module(query.to(device), reference.to(device), LEVELS)
        output.square().sum().backward()
        assert output.device == torch.device(device)
        found.append([output.detach().cpu(), *[one.grad.cpu() for one in module.parameters()]])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@CASES
def test_both_gpus_in_one_call_are_refused(fused):
    given = tensors(fused, device=SECOND)
    given[1] = given[1].to("cuda:0")
    name = "reference" if fused else "coord"
    with pytest.raises(libmsda.InvalidArgumentError, match=f"{name} is on CUDA device 0"):
        call(fused, given)
