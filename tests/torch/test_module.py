"""libmsda.torch.MSDeformAttn beside the modules that it replaces.

Tests with `cuda` in their names run where MSDA_TEST_DEVICE is cuda."""

import contextlib
import copy
import os

import pytest
import torch
from module_cases import LEVELS, DeformableDetr, Mmcv, Ultralytics, calls_of, of_transformers, peak_bytes, randomized
from torch.autograd import gradcheck
from torch.utils.checkpoint import checkpoint

import libmsda
import libmsda.compat
from libmsda.torch import MSDeformAttn, _attend, _node, _wide, from_module

DEVICES = ["cpu"]
if os.environ.get("MSDA_TEST_DEVICE") == "cuda":
    DEVICES.append("cuda")
cuda = pytest.mark.skipif("cuda" not in DEVICES, reason="MSDA_TEST_DEVICE is not cuda")
TOKENS = sum(height * width for height, width in LEVELS)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(11)


@pytest.fixture(params=[1, 2])
def products(request, monkeypatch):
    """How many products give offsets and logits: two on CUDA, where autocast's products have gradients in float32."""
    if request.param == 1:
        yield 1
        return
    monkeypatch.setattr(_node, "is_cuda", lambda _tensor: True)
    with contextlib.ExitStack() as stack:
        if _wide._HAS_OUT_DTYPE:  # which torch has for CUDA alone
            library = torch.library.Library("aten", "IMPL")
            stack.callback(library._destroy)
            library.impl("mm.dtype", wide_mm, "CPU")
            library.impl("addmm.dtype", wide_addmm, "CPU")
            library.impl("addmm.dtype_out", wide_addmm, "CPU")
        yield 2


def wide_mm(left, right, dtype):
    return left.to(dtype) @ right.to(dtype)


def wide_addmm(total, left, right, dtype, *, beta=1, alpha=1, out=None):
    return torch.addmm(total, left.to(dtype), right.to(dtype), beta=beta, alpha=alpha, out=out)


def inputs(dims=2, queries=TOKENS, dtype=torch.float32, device="cpu", batch=2, levels=2):
    """query, position, reference, padding_mask"""
    query, position = torch.randn(2, batch, queries, 16, dtype=torch.float64).to(device, dtype)
    reference = torch.rand(batch, queries, levels, dims, dtype=torch.float64).to(device, dtype)
    return query, position, reference, (torch.rand(batch, TOKENS) < 0.2).to(device)


def autocast(dtype, device="cpu"):
    return torch.autocast(device, dtype=dtype, enabled=dtype is not None)


def run_ours(module, query, position, reference, mask):
    return module(query, reference, LEVELS, position=position, padding_mask=mask, return_weights=True)


def run_stock(module, query, position, reference, mask):
    return module(
        hidden_states=query,
        attention_mask=~mask,
        encoder_hidden_states=query,
        position_embeddings=position,
        reference_points=reference,
        spatial_shapes=torch.tensor(LEVELS, device=query.device),
        spatial_shapes_list=LEVELS,
    )


def results(run, module, given, region=None):
    """Output, weights and all gradients of a random sum of both."""
    *given, mask = given
    given = [tensor.detach().clone().requires_grad_() for tensor in given]
    module.zero_grad()
    with region or contextlib.nullcontext():
        output, weights = run(module, *given, mask)
    make = torch.Generator().manual_seed(5)
    rand = lambda like: torch.randn(like.shape, generator=make).to(like)
    torch.autograd.backward([output, weights], [rand(output), rand(weights)])
    gradients = [tensor.grad for tensor in (*given, *dict(sorted(module.named_parameters())).values())]
    return [output.detach(), weights.detach(), *gradients]


def pair(dtype=torch.float32, device="cpu", **sizes):
    """transformers' module and ours of the same parameters."""
    stock = of_transformers(**sizes).to(device, dtype)
    ours = MSDeformAttn(16, 2, len(LEVELS), 3, device=device, dtype=dtype)
    ours.load_state_dict(stock.state_dict())
    return stock, ours


def errors(found, wanted):
    return [((one.double() - other.double()).norm() / other.double().norm()).item() for one, other in zip(found, wanted)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("dims, levels", [(2, 2), (4, 2), (4, 1)])
def test_equals_transformers(dims, levels, dtype, device, products):
    stock, ours = pair(dtype, device)
    given = inputs(dims, dtype=dtype, device=device, levels=levels)
    found, wanted = results(run_ours, ours, given), results(run_stock, stock, given)
    assert max(errors(found, wanted)) < 20 * torch.finfo(dtype).eps
    assert all(one.dtype == dtype and one.shape == other.shape for one, other in zip(found, wanted))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dims", [2, 4])
def test_autocast_is_as_exact_as_stock(dims, dtype, device, products):
    """By the median of draws: rounding may move a location across a pixel line, where gradients jump."""
    region = lambda: torch.autocast(device, dtype=dtype)
    draws = []
    for seed in range(5):
        torch.manual_seed(seed)
        stock, ours = pair(device=device)
        given = inputs(dims, device=device)
        found, theirs = results(run_ours, ours, given, region()), results(run_stock, stock, given, region())
        assert found[0].dtype == dtype and found[1].dtype == torch.float32
        assert all(gradient.dtype == torch.float32 for gradient in found[2:])
        exact = results(run_stock, stock.double(), [t.double() if t.is_floating_point() else t for t in given])
        draws.append([errors(found, exact), errors(theirs, exact)])
    ours_is, theirs_is = torch.tensor(draws).median(0).values
    assert (ours_is < 1.5 * theirs_is + torch.finfo(dtype).eps / 4).all(), (ours_is, theirs_is)


def test_half_modules_compute_locations_in_float32(products):
    _, ours = pair()
    given = inputs(2)
    exact = results(run_ours, ours, given)
    half = results(run_ours, ours.bfloat16(), [t.bfloat16() if t.is_floating_point() else t for t in given])
    assert half[0].dtype == torch.bfloat16 and half[2].dtype == torch.bfloat16
    assert errors(half, exact)[0] < 0.05


@pytest.mark.parametrize("dims", [2, 4])
def test_gradcheck(dims, products):
    ours = randomized(MSDeformAttn(4, 2, 2, 1, dtype=torch.float64))
    rand = lambda *shape: torch.rand(shape, dtype=torch.float64, requires_grad=True)
    names = list(dict(ours.named_parameters()))

    def run(query, position, value, reference, *parameters):
        given = query, reference, ((2, 3), (2, 1)), value
        options = dict(position=position, return_weights=True)
        return torch.func.functional_call(ours, dict(zip(names, parameters)), given, options)

    given = rand(2, 3, 4), rand(3, 4), rand(2, 8, 4), rand(1, 3, 2, dims)
    assert gradcheck(run, (*given, *ours.parameters()), fast_mode=True)


def test_gradients_of_gradients_are_refused():
    _, ours = pair()
    query, _, reference, _ = inputs()
    query.requires_grad_()
    (gradient,) = torch.autograd.grad(ours(query, reference, LEVELS).square().sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_a_graph_that_is_kept_can_be_used_again(dtype, products):
    """The node writes over what it saved, but not where the graph is kept."""
    _, ours = pair()
    query, position, reference, mask = inputs()
    query.requires_grad_()
    with autocast(dtype):
        output, _ = run_ours(ours, query, position, reference, mask)
    first, second, last = (
        torch.autograd.grad(output.square().sum(), [query, *ours.parameters()], retain_graph=keep) for keep in (True, True, False)
    )
    assert all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(first, second, last))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(output.square().sum(), query)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_checkpointing_gives_the_same_bits(dtype, products):
    _, ours = pair()
    query, position, reference, mask = inputs()
    query.requires_grad_()
    gradients = []
    for run in (run_ours, lambda *given: checkpoint(run_ours, *given, use_reentrant=False)):
        with autocast(dtype):
            output, weights = run(ours, query, position, reference, mask)
        gradients.append(torch.autograd.grad(output.square().sum() + weights.square().sum(), [query, *ours.parameters()]))
    assert all(torch.equal(one, other) for one, other in zip(*gradients))


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("batch, queries", [(0, 5), (2, 0)])
def test_nothing_asked_gives_gradients_of_zero(batch, queries, dtype, products):
    _, ours = pair()
    query, value = torch.randn(batch, queries, 16), torch.randn(batch, TOKENS, 16, requires_grad=True)
    with autocast(dtype):
        output = ours(query, torch.rand(batch, queries, 2, 2), LEVELS, value)
    output.sum().backward()
    assert output.shape == query.shape and not value.grad.any() and not ours.value_proj.weight.grad.any()


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("trained", ["query", "value", "parameters"])
def test_gradients_of_what_is_wanted_alone(trained, dtype, products):
    of = torch.float32 if dtype else torch.float64
    _, ours = pair(of)
    query, position, reference, mask = inputs(queries=7, dtype=of)
    value = torch.randn(2, TOKENS, 16, dtype=of)
    leaves = dict(query=query, value=value)

    def call():
        with autocast(dtype):
            return ours(query, reference, LEVELS, value, position=position, padding_mask=mask).square().sum()

    for leaf in leaves.values():
        leaf.requires_grad_()
    wanted = dict(zip([*leaves, "parameters"], torch.autograd.grad(call(), [*leaves.values(), ours.value_proj.bias])))
    ours.requires_grad_(trained == "parameters")
    for name, leaf in leaves.items():
        leaf.requires_grad_(name == trained)
    call().backward()
    found = {name: leaf.grad for name, leaf in leaves.items()} | {"parameters": ours.value_proj.bias.grad}
    assert [name for name, gradient in found.items() if gradient is not None] == [trained]
    torch.testing.assert_close(found[trained], wanted[trained])


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_gradients_of_two_passes_add_up(dtype, products):
    """query and position have the same gradient, and memory of their own for it."""
    of = torch.float32 if dtype else torch.float64
    _, ours = pair(of)
    query, position, reference, _ = inputs(queries=7, dtype=of)
    value, leaves = torch.randn(2, TOKENS, 16, dtype=of), [query.requires_grad_(), position.requires_grad_()]

    def run():
        with autocast(dtype):
            return ours(query, reference, LEVELS, value, position=position).sum()

    once = torch.autograd.grad(run(), leaves)
    for _ in range(3):
        run().backward()
    for leaf, gradient in zip(leaves, once):
        torch.testing.assert_close(leaf.grad, 3 * gradient)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_compiles_into_one_graph(dtype, products):
    _, ours = pair()
    given = inputs()
    compiled = torch.compile(run_ours, backend="aot_eager", fullgraph=True)
    found, wanted = (results(run, ours, given, autocast(dtype)) for run in (compiled, run_ours))
    assert max(errors(found, wanted)) < (1e-6 if dtype is None else 1e-2)


@cuda
@pytest.mark.parametrize("dtype", [None, torch.float16])
def test_cuda_graph_gives_the_same_bits(dtype):
    _, ours = pair(device="cuda")
    query, position, reference, mask = inputs(device="cuda")
    query.requires_grad_()
    parameters = [query, *ours.parameters()]

    def step():
        with autocast(dtype, "cuda"):
            output, _ = run_ours(ours, query, position, reference, mask)
        return torch.autograd.grad(output.float().square().sum(), parameters)

    torch.use_deterministic_algorithms(True)
    try:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            wanted = step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            found = step()
        graph.replay()
        torch.cuda.synchronize()
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(one, other) for one, other in zip(found, wanted))


@pytest.mark.skipif(not _wide._HAS_OUT_DTYPE, reason="this torch has no out_dtype")
def test_products_without_out_dtype_give_the_same_gradients(monkeypatch, products):
    """As before torch 2.8, up to what rounding of products to 16 bits moves."""
    calls, mm = [], torch.mm
    monkeypatch.setattr(torch, "mm", lambda *given, **more: calls.append(more) or mm(*given, **more))
    _, ours = pair()
    given = inputs()
    found = {}
    for has in (True, False):
        monkeypatch.setattr(_wide, "_HAS_OUT_DTYPE", has)
        calls.clear()
        found[has] = results(run_ours, ours, given, torch.autocast("cpu", dtype=torch.bfloat16))
        assert any("out_dtype" in more for more in calls) == (has and products == 2)
    limit = torch.finfo(torch.bfloat16).eps
    assert max(errors(found[False], found[True])) < limit
    assert all(one.dtype == other.dtype for one, other in zip(found[False], found[True]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dims, levels", [(2, 2), (4, 1)])
def test_short_ways_give_the_same_bits(dims, levels, dtype, device, products, monkeypatch):
    """Gradients by one call of the library, operators past the dispatcher, and results without a node."""
    _, ours = pair(device=device)
    query, position, reference, mask = inputs(dims, device=device, batch=1, levels=levels)
    leaves, asked = [query.requires_grad_(), position.requires_grad_(), *ours.parameters()], []
    is_simple = _attend._is_simple

    def step():
        with autocast(dtype, device):
            output = ours(query, reference, LEVELS, position=position, padding_mask=mask)
        return output, *torch.autograd.grad(output.float().square().sum(), leaves)

    torch.use_deterministic_algorithms(True)
    try:
        monkeypatch.setattr(_attend, "_is_simple", lambda *given: asked.append(is_simple(*given)) or False)
        wanted = step()
        monkeypatch.setattr(_attend, "_is_simple", is_simple)
        found, watched = step(), []
        assert "msda::attend" in calls_of(lambda: watched.extend(step()))
        with autocast(dtype, device), torch.no_grad():
            output = ours(query, reference, LEVELS, position=position, padding_mask=mask)
    finally:
        torch.use_deterministic_algorithms(False)
    assert asked == [True] * (products == 2 or device == "cuda")
    for others in (found, watched, [output]):
        assert all(torch.equal(one, other) for one, other in zip(others, wanted))


@pytest.mark.parametrize("position_wanted", [False, True])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_number_of_operators(dtype, position_wanted, products):
    _, ours = pair()
    query, position, reference, _ = inputs()
    query.requires_grad_()
    position.requires_grad_(position_wanted)
    wanted = [query, *([position] if position_wanted else []), *ours.parameters()]
    outputs = []
    with autocast(dtype):
        forward = calls_of(lambda: outputs.append(ours(query, reference, LEVELS, position=position)))
    gradient = torch.randn_like(outputs[0])
    backward = calls_of(lambda: torch.autograd.grad(outputs[0], wanted, gradient))
    print(f"\n{len(forward)} {forward}\n{len(backward)} {backward}")
    assert "msda::attend" in forward and ("msda::attend_backward_", "msda::attend_backward")[products - 1] in backward
    # One more with the position's gradient; torch before 2.8 casts gradients behind the products.
    most = 22 + (position_wanted or not _wide._HAS_OUT_DTYPE)
    assert len(forward) <= 14 and len(backward) <= most  # with views


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_peak_memory_is_at_most_four_fifths_of_the_drop_ins(dtype):
    levels = ((34, 34), (17, 17), (9, 9), (5, 5))
    tokens = sum(height * width for height, width in levels)
    stock = of_transformers(64, 8, 4, len(levels))
    ours = MSDeformAttn(64, 8, len(levels), 4)
    ours.load_state_dict(stock.state_dict())
    query = torch.randn(2, tokens, 64, requires_grad=True)
    position, reference = torch.randn(2, tokens, 64), torch.rand(2, tokens, len(levels), 2)
    gradient, shapes = torch.randn(2, tokens, 64), torch.tensor(levels)

    def step(module):
        with autocast(dtype):
            if module is ours:
                output = ours(query, reference, levels, position=position)
            else:
                given = dict(hidden_states=query, encoder_hidden_states=query, position_embeddings=position)
                output, _ = stock(
                    **given, reference_points=reference, spatial_shapes=shapes, spatial_shapes_list=levels
                )
        output.backward(gradient.to(output.dtype))

    def peak(module):
        step(module)
        module.zero_grad()
        query.grad = None
        return peak_bytes(lambda: step(module))

    with libmsda.compat.transformers() as patch:
        drop_in = peak(stock)
        assert patch.report().calls == 2 and not patch.report().fallbacks
    assert 0.3 * drop_in < peak(ours) <= 0.8 * drop_in


def test_bad_state_dicts_are_named():
    state = of_transformers().state_dict()
    ours = MSDeformAttn(16, 2, 2, 3)
    ours.load_state_dict(state | {"n_points_scale": torch.full((6,), 1 / 3)})  # of RT-DETR v2
    with pytest.raises(RuntimeError, match='Missing key.*"value_proj.bias"'):
        ours.load_state_dict({name: one for name, one in state.items() if name != "value_proj.bias"})
    with pytest.raises(RuntimeError, match='Unexpected key.*"in_proj"'):
        ours.load_state_dict(state | {"in_proj": torch.zeros(1)})
    with pytest.raises(RuntimeError, match=r"size mismatch for sampling_offsets.weight: .*\[24, 16\].*\[16, 16\]"):
        MSDeformAttn(16, 2, 2, 2).load_state_dict(state)


def test_bad_arguments_are_named():
    ours = MSDeformAttn(16, 2, 2, 3)
    query, position, reference, mask = inputs()
    refused = [
        (dict(query=query[0]), r"query has shape \(36, 16\): must be \[any, any, 16\]"),
        (dict(level_hw=LEVELS[:1]), "level_hw has 1 levels: must have 2"),
        (dict(level_hw=((6, 5), (3, 3))), r"query, which is the value, has shape .*: must be \[2, 39, 16\]"),
        (dict(value=query[:, 1:]), r"value has shape \(2, 35, 16\): must be \[2, 36, 16\]"),
        (dict(reference=reference[..., :1]), r"reference has shape .*: must be \[2, 36, \(1 or 2\), \(2 or 4\)\]"),
        (dict(padding_mask=mask[:, 1:]), r"padding_mask has shape \(2, 35\): must be \[2, 36\]"),
        (dict(query=query.double()), r"query.dtype is torch.float64: must be torch.float32, as the module's weights"),
    ]
    for change, words in refused:
        with pytest.raises(libmsda.InvalidArgumentError, match=words):
            ours(**(dict(query=query, reference=reference, level_hw=LEVELS) | change))
    with pytest.raises(libmsda.InvalidArgumentError, match="embed_dim a multiple of head_count"):
        MSDeformAttn(16, 3)


def call_of(module, query, position, value, mask, reference):
    """A call of a stand-in of another project."""
    shapes = torch.tensor(LEVELS)
    starts = torch.tensor([0, 30])
    if isinstance(module, Mmcv):
        turn = lambda t: t if module.batch_first else t.transpose(0, 1)
        given = dict(query=turn(query), value=turn(value), query_pos=turn(position), key_padding_mask=mask)
        return turn(module(**given, reference_points=reference, spatial_shapes=shapes, level_start_index=starts))
    if isinstance(module, DeformableDetr):
        return module(query, reference, value, shapes, starts, mask)
    return module(query, reference, value, LEVELS, mask)


@pytest.mark.parametrize("make", [DeformableDetr, Ultralytics, Mmcv, lambda: Mmcv(batch_first=True)])
@pytest.mark.parametrize("dims", [2, 4])
def test_modules_of_other_projects_convert(make, dims):
    module = make().double().eval()
    query, position, reference, mask = inputs(dims, queries=7, dtype=torch.float64)
    value = torch.randn(2, TOKENS, 16, dtype=torch.float64, requires_grad=True)

    def run():
        module.zero_grad()
        value.grad = None
        output = call_of(module, query, position, value, mask, reference)
        output.square().sum().backward()
        return [output.detach(), value.grad, *[parameter.grad for parameter in module.parameters()]]

    stock = run()
    with from_module(module) as conversion:
        assert conversion.converted == ("",) and isinstance(module, MSDeformAttn)
        found = []
        assert "msda::attend" in calls_of(lambda: found.extend(run()))
        assert max(errors(found, stock)) < 1e-12


def attributes(model):
    return {name: (type(one), dict(vars(one)), list(vars(one))) for name, one in model.named_modules(remove_duplicate=False)}


def test_undo_leaves_no_trace():
    model = torch.nn.ModuleDict(dict(a=of_transformers(), b=DeformableDetr(), c=torch.nn.Linear(2, 2)))
    before, state = attributes(model), copy.deepcopy(model.state_dict())
    with pytest.raises(KeyError), from_module(model) as conversion:
        assert conversion.converted == ("a", "b") and conversion.left == {}
        assert str(conversion).splitlines() == ["2 modules by MSDeformAttn, 0 left as they are", "  a", "  b"]
        assert "MSDeformAttn" in str(model) and type(model["a"]) is not before["a"][0]
        again = from_module(model)
        assert again.converted == () and set(again.left) == {"a", "b"}
        again.undo()
        copied = copy.deepcopy(model)
        assert isinstance(copied["a"], MSDeformAttn)
        raise KeyError
    assert attributes(model) == before
    assert all(torch.equal(one, other) for one, other in zip(model.state_dict().values(), state.values()))
    conversion.undo()
    assert attributes(model) == before


def test_modules_that_differ_are_left_and_named():
    class Low(torch.nn.Linear):
        pass

    class Steeper(DeformableDetr):
        def attend(self, query, *rest):
            return super().attend(1.1 * query, *rest)

    class Foreign(DeformableDetr):
        def forward(self, tokens):
            return tokens

    broken = {name: DeformableDetr() for name in ("subclass", "bias", "hooks", "sizes", "dtype", "device")}
    broken["subclass"].value_proj = Low(16, 16)
    broken["bias"].output_proj = torch.nn.Linear(16, 16, bias=False)
    broken["hooks"].value_proj.register_forward_hook(lambda *_: None)
    broken["sizes"].num_points = 4
    broken["dtype"].to(torch.float8_e4m3fn)
    broken["device"].to("meta")
    broken |= dict(steeper=Steeper(), foreign=Foreign(), layers=DeformableDetr())
    del broken["layers"].value_proj
    model = torch.nn.ModuleDict(broken | dict(good=DeformableDetr()))
    conversion = from_module(model)
    conversion.undo()
    assert conversion.converted == ("good",)
    expected = dict(
        subclass="value_proj is a Low, not a torch.nn.Linear",
        bias="output_proj has no bias",
        hooks="value_proj has hooks",
        sizes="sampling_offsets has 24 features where M 2, L 2, P 4 need 32",
        dtype="value_proj is of torch.float8_e4m3fn",
        device="value_proj is on meta",
        steeper="its output differs from MSDeformAttn's by",
        foreign="its forward(tokens) is of no known project",
        layers="it has no layer value_proj",
    )
    assert conversion.left.keys() == expected.keys()
    for name, words in expected.items():
        assert conversion.left[name].startswith(words), (name, conversion.left[name])
    with pytest.raises(LookupError, match="Linear has no module with layers sampling_offsets"):
        from_module(torch.nn.Linear(2, 2))
