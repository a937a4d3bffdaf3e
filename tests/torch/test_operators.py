"""libmsda.torch: the operators in all that torch does with operators, against libmsda's own results.

Tests with `cuda` in their names run where MSDA_TEST_DEVICE is cuda."""

import pathlib
import re

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.testing import CompileCounterWithBackend
from torch._inductor import config as inductor
from torch.autograd import gradcheck, gradgradcheck
from torch.utils.checkpoint import checkpoint

import libmsda
import libmsda.torch as ours
from problems import DEVICES, FLAT, FUSED, LEVELS, call, expected, tensors

cuda = pytest.mark.skipif("cuda" not in DEVICES, reason="MSDA_TEST_DEVICE is not cuda")


@pytest.fixture(autouse=True)
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def assert_gradients(fused, given, grad_output):
    for tensor, wanted in zip(given, expected(fused, given, grad_output)):
        assert torch.equal(tensor.grad, wanted)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fused", FUSED)
def test_the_bits_of_libmsda(fused, device):
    given = tensors(fused, device=device, grad=True)
    output = call(fused, given)
    grad_output = torch.rand_like(output)
    output.backward(grad_output)
    assert torch.equal(output, expected(fused, given))
    assert_gradients(fused, given, grad_output)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("boxes", [2, 4])
def test_references_beside_offsets_of_16_bits(boxes, device):
    """As autocast leaves them: the gradients of each are of its type."""
    value, reference, offset, logit = tensors(True, device=device, boxes=boxes)
    given = [value, reference, offset.half(), logit.half()]
    given = [t.requires_grad_() for t in given]
    output = call(True, given)
    grad_output = torch.rand_like(output)
    output.backward(grad_output)
    wide = expected(True, [t.float() for t in given])
    assert output.dtype == torch.float32 and torch.allclose(output, wide, atol=1e-6)
    assert [t.grad.dtype for t in given] == [t.dtype for t in given]
    assert_gradients(True, given, grad_output)
    assert torch.allclose(given[1].grad, expected(True, [t.float() for t in given], grad_output)[1], atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.parametrize("layout", ["packed", "permuted", "spread"])
def test_opcheck(fused, layout, device):
    given = tensors(fused, device=device)
    if layout == "permuted":
        given = [t.transpose(0, 1).contiguous().transpose(0, 1) for t in given]
    if layout == "spread":
        given = [t.repeat_interleave(2, -1)[..., ::2] for t in given]
    name = "_fused" if fused else ""
    forward, backward = (getattr(torch.ops.msda, n + name).default for n in ("forward", "backward"))
    leaves = [t.detach().requires_grad_() for t in given]
    grad_output = torch.rand_like(forward(*given, FLAT))
    wanted = [True] * len(given)
    checked = [
        torch.library.opcheck(forward, (*leaves, FLAT)),
        torch.library.opcheck(backward, (grad_output, *given, FLAT, wanted)),
        torch.library.opcheck(backward, (grad_output, *given, FLAT, [*wanted[1:], False])),
    ]
    for results in checked:
        assert len(results) >= 4 and {*results.values()} == {"SUCCESS"}


@pytest.mark.parametrize("boxes", [2, 4])
@pytest.mark.parametrize("fused", FUSED)
def test_gradients_are_those_of_differences(fused, boxes):
    given = tensors(fused, torch.float64, batch=1, queries=2, boxes=boxes, grad=True)
    assert gradcheck(lambda *t: call(fused, t), given, eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_attention_weights(device):
    """Plain, by the dispatcher, compiled, mapped, in torch.func and under autocast; their gradient is a softmax's."""
    given = tensors(True, torch.float64, device, batch=1, queries=2, grad=True)
    run = lambda *t: call(True, t, attention=True)
    operator = torch.ops.msda.forward_fused_attention
    output, attention = run(*given)
    softmax = lambda logit: logit.flatten(3).softmax(-1).view_as(logit)
    assert torch.equal(output, call(True, given))
    assert torch.allclose(attention, softmax(given[3]), rtol=1e-14, atol=0)
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    for found in (operator(*given, FLAT), compiled(*given)):
        assert torch.equal(found[0], output) and torch.equal(found[1], attention)
    assert gradcheck(run, given, eps=1e-7, atol=1e-5)
    of_both = torch.autograd.grad(output.sum() + attention.square().sum(), given)
    of_output = torch.autograd.grad(run(*given)[0].sum(), given)
    of_attention = torch.autograd.grad(run(*given)[1].square().sum(), given, allow_unused=True)
    assert of_attention[:3] == (None,) * 3 and torch.equal(of_both[3], of_output[3] + of_attention[3])
    assert all(map(torch.equal, of_output, torch.autograd.grad(call(True, given).sum(), given)))
    by_compiled = torch.autograd.grad(compiled(*given)[1].square().sum(), given[3])
    assert torch.equal(by_compiled[0], of_attention[3])
    assert {*torch.library.opcheck(operator.default, (*given, FLAT)).values()} == {"SUCCESS"}
    plain = [t.detach() for t in given]
    both = [torch.stack([t, t.flip(1)]) for t in plain[1:]]
    mapped = torch.func.vmap(lambda *t: run(plain[0], *t))(*both)
    for i in range(2):
        assert all(map(torch.equal, run(plain[0], *[t[i] for t in both]), [one[i] for one in mapped]))
    loss = lambda logit: run(*plain[:3], logit)[1].square().sum()
    expected_gradient = torch.func.grad(lambda logit: softmax(logit).square().sum())(plain[3])
    assert torch.allclose(torch.func.grad(loss)(plain[3]), expected_gradient, atol=1e-12)
    assert torch.func.vmap(torch.func.grad(loss))(both[2]).shape == both[2].shape
    with torch.autocast(device, dtype=torch.bfloat16):
        found = run(*[t.float() for t in plain])
    assert [one.dtype for one in found] == [torch.bfloat16, torch.float32]
    with pytest.raises(libmsda.InvalidArgumentError, match="attention is 1: must be True or False"):
        call(True, plain, attention=1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fused", FUSED)
def test_nearest_sampling(fused, device):
    """By the dispatcher, compiled and plain: gradients of differences, those by points zero."""
    given = tensors(fused, torch.float64, device, batch=1, queries=2, grad=True)
    run = lambda *t: call(fused, t, sampling_mode="nearest")
    assert gradcheck(run, given, eps=1e-7, atol=1e-5)
    output = run(*given)
    gradients = torch.autograd.grad(output.sum(), given)
    assert [bool(one.any()) for one in gradients] == ([True, False, False, True] if fused else [True, False, True])
    assert not torch.equal(output, call(fused, given))
    name = "forward_fused" if fused else "forward"
    operator = getattr(torch.ops.msda, name)
    assert torch.equal(operator(*given, FLAT, sampling_mode="nearest"), output)
    assert torch.equal(torch.compile(run, fullgraph=True, backend="aot_eager")(*given), output)
    with pytest.raises(libmsda.InvalidArgumentError, match="sampling_mode is 'cubic': must be one of bilinear, nearest"):
        call(fused, given, sampling_mode="cubic")


@pytest.mark.parametrize("fused", FUSED)
def test_gradients_of_gradients_are_refused(fused):
    given = tensors(fused, torch.float64, batch=1, queries=2, grad=True)
    words = "gradients of gradients are not computed"
    with pytest.raises(libmsda.UnsupportedError, match=words):
        gradgradcheck(lambda *t: call(fused, t), given)
    first = torch.func.grad(lambda v: call(fused, [v, *given[1:]]).sum())
    with pytest.raises(libmsda.UnsupportedError, match=words):
        torch.func.grad(lambda v: first(v).sum())(given[0].detach())


@pytest.mark.parametrize("fused", FUSED)
def test_only_gradients_that_are_asked_for(fused):
    for index in range(3 + fused):
        given = tensors(fused)
        given[index].requires_grad_()
        call(fused, given).sum().backward()
        ones = torch.ones_like(call(fused, given).detach())
        assert torch.equal(given[index].grad, expected(fused, given, ones)[index])
        assert [t.grad is not None for t in given] == [i == index for i in range(3 + fused)]


def test_one_reference_for_all_levels():
    value, reference, *rest = tensors(True)
    one = reference[:, :, :1].clone().requires_grad_()
    wide = one.detach().expand(-1, -1, 2, -1)
    output = ours.forward_fused(value, LEVELS, one, *rest)
    assert torch.equal(output, expected(True, [value, wide, *rest]))
    grad_output = torch.rand_like(output)
    output.backward(grad_output)
    wanted = expected(True, [value, wide, *rest], grad_output).reference
    assert torch.equal(one.grad, wanted.sum(2, keepdim=True))


def assert_compiles_for_all_batches(fused, backend):
    """Without a graph break, and with the bits of the eager call; the outer axes come in another order."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda *t: call(fused, t), fullgraph=True, backend=backend)
    for batch in (2, 3, 5):
        given = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in tensors(fused, batch=batch)]
        for tensor in given:
            torch._dynamo.mark_dynamic(tensor.requires_grad_(), 0)
        output = compiled(*given)
        grad_output = torch.rand_like(output)
        output.backward(grad_output)
        assert torch.equal(output, expected(fused, given))
        assert_gradients(fused, given, grad_output)


@pytest.mark.parametrize("fused", FUSED)
def test_compile_makes_one_graph_for_all_batches(fused):
    made = []

    def compiler(name):
        return lambda graph, inputs: made.append(name) or make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"))
    assert_compiles_for_all_batches(fused, backend)
    assert made == ["forward", "backward"]


@pytest.mark.filterwarnings("ignore:dynamo_pgo")
@pytest.mark.parametrize("fused", FUSED)
def test_compile_by_inductor(fused):
    counted = CompileCounterWithBackend("inductor")
    with inductor.patch(force_disable_caches=True):
        assert_compiles_for_all_batches(fused, counted)
    assert counted.frame_count == 1


class Module(torch.nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.fused = fused

    def forward(self, *given):
        return call(self.fused, given, points=4, point_locality="local")


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("fused", FUSED)
def test_export_with_a_dynamic_batch(fused, strict):
    batch = torch.export.Dim("batch", min=2, max=64)
    given = tensors(fused)
    shapes = (tuple({0: batch} for _ in given),)
    program = torch.export.export(
        Module(fused), tuple(given), dynamic_shapes=shapes, strict=strict
    )
    targets = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert targets == ["msda.forward_fused.default" if fused else "msda.forward.default"]
    more = tensors(fused, batch=5)
    assert torch.equal(program.module()(*more), expected(fused, more))


@pytest.mark.parametrize("fused", FUSED)
def test_fake_tensors_have_the_real_shapes_and_checks(fused):
    given = tensors(fused)
    with torch._subclasses.FakeTensorMode() as mode:
        fakes = [mode.from_tensor(t) for t in given]
        output = call(fused, fakes)
        half = call(fused, fakes, out_dtype=torch.float16)
        with pytest.raises(libmsda.InvalidArgumentError, match="value has shape"):
            call(fused, [fakes[0][:, 1:], *fakes[1:]])
        with pytest.raises(libmsda.InvalidArgumentError, match="value.dtype is 'int64'"):
            call(fused, [fakes[0].long(), *fakes[1:]])
    real = expected(fused, given)
    assert (output.shape, output.stride(), output.dtype) == (real.shape, real.stride(), real.dtype)
    assert half.dtype is torch.float16


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("fused", FUSED)
def test_checkpoint(fused, reentrant):
    given = tensors(fused, grad=True)
    output = checkpoint(lambda *t: call(fused, t), *given, use_reentrant=reentrant)
    output.sum().backward()
    assert_gradients(fused, given, torch.ones_like(output))


@pytest.mark.parametrize("fused", FUSED)
def test_vmap(fused):
    sets = [tensors(fused, batch=b) for b in (2,) * 3]
    sets = [[t + i / 10 for t in one] for i, one in enumerate(sets)]
    stacked = [torch.stack(ts) for ts in zip(*sets)]
    found = torch.vmap(lambda *t: call(fused, t))(*stacked)
    assert torch.equal(found, torch.stack([expected(fused, one) for one in sets]))
    # value is the same for all; its gradients are not.
    gradient = torch.func.grad(lambda v, *t: call(fused, [v, *t]).sum())
    found = torch.vmap(gradient, in_dims=(None, *[0] * (len(stacked) - 1)))(sets[0][0], *stacked[1:])
    for one, gradients in zip(sets, found):
        alone = [sets[0][0], *one[1:]]
        ones = torch.ones_like(expected(fused, alone))
        assert torch.equal(gradients, expected(fused, alone, ones)[0])


@pytest.mark.parametrize("fused", FUSED)
def test_jacobians_and_vmap_in_vmap(fused):
    given = tensors(fused, torch.float64, batch=1, queries=2)
    function = lambda *t: call(fused, t)
    jacobians = torch.func.jacrev(function, argnums=(*range(len(given)),))(*given)
    for found, wanted in zip(jacobians, torch.autograd.functional.jacobian(function, (*given,))):
        assert torch.equal(found, wanted)
    sets = [torch.stack([torch.stack([t, 0.9 * t])] * 3) for t in given]
    found = torch.vmap(torch.vmap(function))(*sets)
    for which in (0, 1):
        assert torch.equal(found[2, which], function(*[s[2, which] for s in sets]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.parametrize("compiled", [False, True])
def test_autocast_casts_the_values_alone(compiled, fused, device):
    given = tensors(fused, device=device, grad=True)
    function = lambda *t: call(fused, t)
    if compiled:
        torch._dynamo.reset()
        function = torch.compile(function, fullgraph=True, backend="aot_eager")
    with torch.autocast(device, torch.bfloat16):
        output = function(*given)
    assert output.dtype is torch.bfloat16
    cast = [given[0].bfloat16(), *given[1:]]
    assert torch.equal(output, expected(fused, cast))
    grad_output = torch.rand_like(output)
    output.backward(grad_output)
    for tensor, wanted in zip(given, expected(fused, cast, grad_output)):
        assert torch.equal(tensor.grad, wanted.float())


@pytest.mark.parametrize(
    "given, found",
    [
        (torch.float64, torch.float64),
        (torch.float8_e4m3fn, torch.float32),
        (torch.float16, torch.bfloat16),
        (torch.bfloat16, torch.bfloat16),
    ],
)
def test_autocast_leaves_float64_and_float8(given, found):
    value, coord, weight = tensors()
    value, coord, weight = value.to(given), coord.half(), weight.double()
    with torch.autocast("cpu", torch.bfloat16):
        output = call(False, (value, coord, weight))
        with torch.autocast("cpu", enabled=False):
            plain = call(False, (value, coord, weight))
    cast = value.to(found) if found is torch.bfloat16 else value
    assert output.dtype is found and torch.equal(output, expected(False, (cast, coord, weight)))
    assert torch.equal(plain, expected(False, (value, coord, weight)))


def seen_of_calls(see, monkeypatch):
    """A list to which see(call) of each call that is made will be added, those that are known among them."""
    seen, run, compute = [], ours._calls.run_call, ours._known.Known.compute
    monkeypatch.setattr(ours._calls, "run_call", lambda call, *rest: seen.append(see(call)) or run(call, *rest))
    known = lambda self, tensors: seen.append(see(self.call)) or compute(self, tensors)
    monkeypatch.setattr(ours._known.Known, "compute", known)
    return seen


@pytest.mark.parametrize("compiled", [False, True])
def test_determinism_is_read_at_the_call(compiled, monkeypatch):
    seen = seen_of_calls(lambda call: call.problem, monkeypatch)
    function = lambda *t: call(False, t)
    if compiled:
        torch._dynamo.reset()
        function = torch.compile(function, fullgraph=True, backend="aot_eager")
    for wanted in (True, False, True):
        torch.use_deterministic_algorithms(wanted)
        function(*tensors(grad=True)).sum().backward()
    backward = [problem.deterministic for problem in seen if problem.operation == "backward"]
    assert backward == [True, False, True]


def test_calls_work_with_the_threads_of_pytorch(monkeypatch):
    before, seen = torch.get_num_threads(), seen_of_calls(lambda call: call.handle.threads, monkeypatch)
    given = tensors(grad=True)
    try:
        for count in (3, 1, 3):
            torch.set_num_threads(count)
            call(False, given).sum().backward()
        call(False, given, threads=2).sum().backward()
    finally:
        torch.set_num_threads(before)
    assert seen == [3, 3, 1, 1, 3, 3, 2, 2]


def test_few_numbers_of_threads_are_remembered(monkeypatch):
    for count in range(1, 25):
        monkeypatch.setattr(ours._calls, "_get_num_threads", lambda count=count: count)
        call(False, tensors())
    assert len(ours._calls._calls) <= 16


def test_bad_arguments_name_the_callers_argument():
    value, coord, weight = tensors()
    for change, words in [
        ({"value": value.to("meta")}, "value is a torch.strided tensor on meta"),
        ({"coord": coord.to("meta")}, "coord is a torch.strided tensor on meta"),
        ({"value": value.to_sparse()}, "value is a torch.sparse_coo tensor"),
        ({"value": value.long()}, "value.dtype is 'int64': must be one of"),
        ({"value": value.numpy()}, "value is ndarray: must be a torch.Tensor"),
        ({"value": value[0]}, r"value has shape \(36, 3, 4\): must be"),
        ({"value": value[:, 1:]}, r"have 6 x 5 \+ 3 x 2 pixels, not 35"),
        ({"coord": coord[..., 0]}, "coord has shape"),
        ({"weight": weight[:, 1:]}, "weight has shape"),
        ({"level_hw": FLAT}, r"\[\(6, 5\), \(3, 2\)\] is meant"),
        ({"points": "3"}, "points is '3': must be an integer"),
        ({"math_mode": "swift"}, "math_mode is 'swift': must be one of"),
        ({"level_start_index": (0, 31)}, r"level_start_index\[1\] is 31: must be 0 to 30"),
        ({"kernel": "none"}, "none"),
    ]:
        given = {"value": value, "level_hw": LEVELS, "coord": coord, "weight": weight} | change
        with pytest.raises(libmsda.Error, match=words):
            ours.forward(**given)
    with pytest.raises(TypeError, match="unexpected keyword argument 'pints'"):
        ours.forward(value, LEVELS, coord, weight, pints=3)


@cuda
def test_cuda_and_cpu_tensors_are_not_mixed():
    value, coord, weight = tensors()
    with pytest.raises(libmsda.InvalidArgumentError, match="coord is on CUDA device 0"):
        ours.forward(value, LEVELS, coord.cuda(), weight)


@cuda
@pytest.mark.parametrize("fused", FUSED)
def test_cuda_graph_of_forward_and_backward(fused):
    given = tensors(fused, device="cuda", grad=True)
    grad_output = torch.rand_like(call(fused, given).detach())

    def step():
        return torch.autograd.grad(call(fused, given), given, grad_output)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        for tensor in given:
            tensor.mul_(0.9)
    graph.replay()
    for one, wanted in zip(captured, step()):
        assert torch.equal(one, wanted)


@cuda
def test_cuda_call_runs_on_the_current_stream():
    given = tensors(device="cuda")
    wanted = call(False, given)
    torch.cuda.synchronize()
    side, late = torch.cuda.Stream(), torch.zeros_like(given[0])
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        late.copy_(given[0])
        output = call(False, [late, *given[1:]])
    side.synchronize()
    assert torch.equal(output, wanted)


def test_readme_runs_as_written(capsys):
    page = (pathlib.Path(__file__).parents[2] / "README.md").read_text()
    names = {}
    exec(*re.findall("```python\n(.*?)```", page, re.DOTALL), names)
    assert re.findall("[0-9.]+", capsys.readouterr().out) == ["2.5", *["0.25"] * 4]
    assert names["value"].grad.flatten().tolist() == [0.25] * 4
    assert names["coord"].grad.flatten().tolist() == [2, 4] and names["weight"].grad.flatten().tolist() == [2.5]


def test_the_document_runs_as_written(capsys):
    document = pathlib.Path(__file__).parents[2] / "docs" / "python.md"
    first, *others = re.findall("```python\n(.*?)```", document.read_text(), re.DOTALL)
    names = {}
    exec(first, names)
    assert names["output"].shape == (2, 100, 8, 32)
    assert names["value"].grad.shape == names["value"].shape
    for block in others:
        exec(block, names)
    shapes, *kernels = capsys.readouterr().out.splitlines()
    assert shapes == "(2, 5120, 8, 32) (2, 100, 8, 2, 4, 2) (2, 100, 8, 2, 4)"
    assert any("ref.cpu@1" in line for line in kernels)
