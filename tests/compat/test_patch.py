"""Patches: what they count, that they fail where nothing matches, and that undoing leaves no trace."""

import concurrent.futures
import sys

import libmsda
import libmsda.compat
import pytest
import stand_ins
import torch
import transformers.models.d_fine.modeling_d_fine as d_fine
import transformers.models.deformable_detr.modeling_deformable_detr as deformable_detr
import transformers.models.mask2former.modeling_mask2former as mask2former
from transformers import DFineConfig

LEVELS = [(6, 5), (3, 4)]


@pytest.fixture
def arrays():
    value = torch.randn(2, 42, 4, 8)
    return value, torch.rand(2, 7, 4, 2, 3, 2), torch.rand(2, 7, 4, 2, 3)


def run_v1(value, coord, weight):
    return deformable_detr.MultiScaleDeformableAttention()(value, None, LEVELS, None, coord, weight, 64)


def test_counts_calls_and_fallbacks_with_their_reason(arrays):
    value, coord, weight = arrays
    stock = run_v1(*arrays)
    ragged = value, LEVELS, coord.flatten(3, 4), weight.flatten(3), [3, 3]
    discrete = d_fine.multi_scale_deformable_attention_v2(*ragged, method="discrete")
    halves = [one.half() if isinstance(one, torch.Tensor) else one for one in ragged]
    discrete_halves = d_fine.multi_scale_deformable_attention_v2(*halves, method="discrete")
    with libmsda.compat.enable() as patch:
        torch.testing.assert_close(run_v1(*arrays), stock)
        torch.testing.assert_close(mask2former.multi_scale_deformable_attention(value, LEVELS, coord, weight), stock)
        torch.testing.assert_close(d_fine.multi_scale_deformable_attention_v2(*ragged), stock)
        torch.testing.assert_close(d_fine.multi_scale_deformable_attention_v2(*ragged, method="discrete"), discrete)
        assert torch.equal(d_fine.multi_scale_deformable_attention_v2(*halves, method="discrete"), discrete_halves)
        report = patch.report()
    assert report.calls == 4
    reason = "method='discrete' rounds float16 positions to float16, libmsda to float32"
    assert dict(report.fallbacks) == {reason: 1}
    assert report.seconds > 0
    assert report.kernels and all(".cpu" in kernel for kernel in report.kernels)
    module = "transformers.models.deformable_detr.modeling_deformable_detr"
    assert f"{module}.MultiScaleDeformableAttention.forward" in report.targets
    assert "method='discrete'" in str(report) and report.targets[0] in str(report)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_discrete_sampling_reads_the_pixels_of_stock_code(dtype):
    """On lines between pixels, beside them by one rounding, and outside of the maps."""
    levels, points = [(6, 5), (3, 4)], [3, 3]
    value = torch.arange(42.0, dtype=dtype).view(1, 42, 1, 1).repeat(2, 1, 4, 3).requires_grad_()
    sizes = torch.tensor([[5, 6], [4, 3]]).repeat_interleave(3, 0)
    coord = (torch.randint(-9, 20, (2, 70, 4, 6, 2)) + 0.5).to(dtype) / sizes
    weight = torch.rand(2, 70, 4, 6, dtype=dtype, requires_grad=True)
    for moved in (coord.nextafter(coord - 1), coord, coord.nextafter(coord + 1), 1e6 * coord):
        given = value, levels, moved, weight, points, "discrete"
        stock = d_fine.multi_scale_deformable_attention_v2(*given)
        wanted = torch.autograd.grad(stock.square().sum(), (value, weight))
        with libmsda.compat.enable() as patch:
            ours = d_fine.multi_scale_deformable_attention_v2(*given)
        assert (patch.report().calls, patch.report().fallbacks.total()) == (1, 0)
        torch.testing.assert_close(ours, stock)
        torch.testing.assert_close(torch.autograd.grad(ours.square().sum(), (value, weight)), wanted)


def test_report_names_the_kernel_that_ran(arrays, monkeypatch):
    """By the plans of the calls, which work with torch's number of threads and with autocast's type of value."""
    value, coord, weight = arrays
    planned, plans = libmsda.torch._calls.call_of, []

    def spy(*signature):
        found = planned(*signature)
        plans.append(found.call.plan)
        assert found.call.handle.threads == torch.get_num_threads()
        return found

    monkeypatch.setattr(libmsda.torch._calls, "call_of", spy)
    with libmsda.compat.transformers() as patch:
        run_v1(*arrays)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            run_v1(value, coord, weight)
    assert {plan.info.kernel_id for plan in plans} == {*patch.report().kernels}
    assert len(patch.report().kernels) == 2


def test_uneven_points_per_level_match_stock(arrays):
    value, coord, weight = arrays
    ragged = value, LEVELS, coord.flatten(3, 4), weight.flatten(3), [1, 5]
    stock = d_fine.multi_scale_deformable_attention_v2(*ragged)
    with libmsda.compat.transformers() as patch:
        torch.testing.assert_close(d_fine.multi_scale_deformable_attention_v2(*ragged), stock)
    assert patch.report().calls == 1


def test_a_dtype_that_libmsda_does_not_take_runs_stock_code():
    shapes = (1, 42, 1, 8), (1, 1, 1, 2, 1, 2), (1, 1, 1, 2, 1)
    with libmsda.compat.transformers() as patch, pytest.raises(RuntimeError):  # grid_sample's own
        run_v1(*(torch.zeros(shape, dtype=torch.complex64) for shape in shapes))
    assert patch.report().calls == 0
    assert [reason.split(";")[0] for reason in patch.report().fallbacks] == ["value has dtype torch.complex64"]


def test_a_problem_that_libmsda_refuses_runs_stock_code(arrays, monkeypatch):
    def refuse(_call):
        raise libmsda.UnsupportedError("no kernel takes it")

    stock = run_v1(*arrays)
    monkeypatch.setattr(libmsda.compat._operator.Call, "forward", refuse)
    with libmsda.compat.transformers() as patch:
        assert torch.equal(run_v1(*arrays), stock)
    assert dict(patch.report().fallbacks) == {"no kernel takes it": 1}


def test_a_compiled_model_runs_libmsda_in_between(arrays):
    layer = deformable_detr.MultiScaleDeformableAttention()

    def model(value, coord, weight):
        return 2 * layer(1 * value, None, LEVELS, None, coord, weight, 64)

    stock = model(*arrays)
    compiled = torch.compile(model, backend="eager")
    with libmsda.compat.transformers() as patch:
        for calls in (1, 2):
            torch.testing.assert_close(compiled(*arrays), stock)
            assert patch.report().calls == calls
    assert torch.equal(compiled(*arrays), stock)
    assert patch.report().calls == 2


def test_tracing_and_tensors_without_memory_run_stock_code(arrays):
    with libmsda.compat.transformers() as patch:
        traced = torch.jit.trace(run_v1, arrays, check_trace=False)
        with torch._subclasses.FakeTensorMode() as mode:
            run_v1(*(mode.from_tensor(array) for array in arrays))
        run_v1(*(array.to("meta") for array in arrays))
    assert "grid_sampler" in str(traced.graph)
    assert patch.report().calls == 0
    assert {reason.split(";")[0] for reason in patch.report().fallbacks} == {
        "torch.jit.trace records PyTorch's own operators only",
        "value is a FakeTensor",
        "value is on device meta",
    }


def test_an_exception_inside_the_context_undoes(arrays):
    with pytest.raises(KeyError), libmsda.compat.enable():
        raise KeyError


def test_overlapping_patches_count_on_their_own_and_undo_in_any_order(arrays):
    first = libmsda.compat.enable()
    run_v1(*arrays)
    second = libmsda.compat.enable()
    run_v1(*arrays)
    first.undo()
    first.undo()
    run_v1(*arrays)
    assert deformable_detr.MultiScaleDeformableAttention.forward.__wrapped__
    second.undo()
    run_v1(*arrays)
    assert (first.report().calls, second.report().calls) == (2, 2)


def test_threads_patch_run_and_undo_at_once(arrays):
    stock = run_v1(*arrays)

    def work():
        for _ in range(50):
            with libmsda.compat.transformers() as patch:
                torch.testing.assert_close(run_v1(*arrays), stock)
                assert patch.report().calls >= 1

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work) for _ in range(2)]:
            done.result()


def test_functions_kept_in_instances():
    make = lambda: d_fine.DFineMultiscaleDeformableAttention(DFineConfig(d_model=32, decoder_attention_heads=4))
    stock = d_fine.multi_scale_deformable_attention_v2
    before = make()
    with libmsda.compat.transformers():
        during = make()
        ours = d_fine.multi_scale_deformable_attention_v2
        assert before.ms_deformable_attn_core is during.ms_deformable_attn_core is ours is not stock
    assert before.ms_deformable_attn_core is during.ms_deformable_attn_core is stock
    assert vars(before)["ms_deformable_attn_core"] is vars(during)["ms_deformable_attn_core"] is stock


def test_kernelize_finds_no_layer_name_while_active(monkeypatch):
    layer = deformable_detr.MultiScaleDeformableAttention
    had = vars(layer).get("kernel_layer_name")
    if had is None:
        layer.kernel_layer_name = "MultiScaleDeformableAttention"  # as the package `kernels` leaves it
    try:
        with libmsda.compat.transformers():
            assert layer.kernel_layer_name is None
        assert layer.kernel_layer_name == "MultiScaleDeformableAttention"
    finally:
        if had is None:
            del layer.kernel_layer_name


def test_what_somebody_else_replaced_meanwhile_is_left(arrays):
    layer = deformable_detr.MultiScaleDeformableAttention
    stock = layer.forward
    patch = libmsda.compat.transformers()
    layer.forward = theirs = lambda *_: None
    with pytest.warns(UserWarning, match=r"MultiScaleDeformableAttention\.forward was replaced by somebody else"):
        patch.undo()
    assert layer.forward is theirs
    layer.forward = stock


def test_fails_where_nothing_matches(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("transformers.models.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(LookupError, match="transformers is imported, without a module that has the operator"):
        libmsda.compat.transformers()
    with pytest.raises(LookupError, match="mmcv is not installed.*Import the model's code"):
        libmsda.compat.enable()
    monkeypatch.delitem(sys.modules, "transformers")
    with pytest.raises(LookupError, match="transformers is not imported"):
        libmsda.compat.transformers()


def test_a_layer_with_other_parameters_is_left_alone_and_named(monkeypatch):
    class MultiScaleDeformableAttention(torch.nn.Module):
        def forward(self, value, attention_mask):
            raise AssertionError

    name = "transformers.models.newer.modeling_newer"
    stand_ins.module(monkeypatch, name, MultiScaleDeformableAttention=MultiScaleDeformableAttention)
    forward = MultiScaleDeformableAttention.forward
    with libmsda.compat.transformers() as patch:
        assert MultiScaleDeformableAttention.forward is forward
    ((target, reason),) = patch.report().skipped.items()
    assert target.startswith(name) and target.endswith("MultiScaleDeformableAttention.forward")
    assert reason.startswith("has parameters (self, value, attention_mask); libmsda takes (self, value, value_spatial")


def test_level_shapes_are_read_again_when_the_tensor_changes():
    shapes = torch.tensor(LEVELS)
    level_shapes = libmsda.torch._levels.level_shapes
    assert level_shapes(shapes) == level_shapes(shapes) == ((6, 5), (3, 4))
    shapes[0, 0] = 9
    assert level_shapes(shapes) == ((9, 5), (3, 4))
    key = id(shapes)
    del shapes
    assert key not in libmsda.torch._levels._read_back
