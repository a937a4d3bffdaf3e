"""Patches: what they count, that they fail where nothing matches, and that undoing leaves no trace."""

import sys
import threading
import types

import libmsda
import libmsda.compat
import pytest
import torch
import transformers.models.d_fine.modeling_d_fine as d_fine
import transformers.models.deformable_detr.modeling_deformable_detr as deformable_detr
import transformers.models.mask2former.modeling_mask2former as mask2former
from transformers import DFineConfig

LEVELS = [(6, 5), (3, 4)]
TOUCHED = (
    deformable_detr,
    deformable_detr.MultiScaleDeformableAttention,
    d_fine,
    d_fine.DFineMultiscaleDeformableAttention,
    mask2former,
)


OF_COMPILER = ("__compiled_fn", "__builtins_dict", "__import_torch", "__resume_at")  # torch.compile adds these


def attributes():
    return [{name: value for name, value in vars(owner).items() if not name.startswith(OF_COMPILER)} for owner in TOUCHED]


@pytest.fixture(autouse=True)
def leaves_no_trace():
    before, modules = attributes(), dict(sys.modules)
    yield
    assert attributes() == before
    assert sys.modules.get("MultiScaleDeformableAttention") is modules.get("MultiScaleDeformableAttention")
    assert not libmsda.compat._patch._sites


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
    with libmsda.compat.enable() as patch:
        torch.testing.assert_close(run_v1(*arrays), stock)
        torch.testing.assert_close(mask2former.multi_scale_deformable_attention(value, LEVELS, coord, weight), stock)
        torch.testing.assert_close(d_fine.multi_scale_deformable_attention_v2(*ragged), stock)
        assert torch.equal(d_fine.multi_scale_deformable_attention_v2(*ragged, method="discrete"), discrete)
        report = patch.report()
    assert report.calls == 3
    assert dict(report.fallbacks) == {"method='discrete'; libmsda samples bilinearly": 1}
    assert report.seconds > 0
    assert report.kernels and all(".cpu" in kernel for kernel in report.kernels)
    module = "transformers.models.deformable_detr.modeling_deformable_detr"
    assert f"{module}.MultiScaleDeformableAttention.forward" in report.targets
    assert "method='discrete'" in str(report) and report.targets[0] in str(report)


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
    # leaves_no_trace compares


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
    stock, failures = run_v1(*arrays), []

    def work():
        try:
            for _ in range(50):
                with libmsda.compat.transformers() as patch:
                    torch.testing.assert_close(run_v1(*arrays), stock)
                    assert patch.report().calls >= 1
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


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
    with pytest.raises(LookupError, match="no modeling file of transformers"):
        libmsda.compat.transformers()
    with pytest.raises(LookupError, match="import the model's code"):
        libmsda.compat.enable()
    with pytest.raises(LookupError, match="mmcv.ops"):
        libmsda.compat.extensions()


def check_extension(module, arrays, in_place):
    value, coord, weight = arrays
    leaves = [array.clone().requires_grad_() for array in arrays]
    stock = run_v1(*leaves)
    grad_output = torch.randn_like(stock)
    wanted = torch.autograd.grad(stock, leaves, grad_output)
    given = value, torch.tensor(LEVELS), torch.tensor([0, 30]), coord, weight
    torch.testing.assert_close(module.ms_deform_attn_forward(*given, im2col_step=64), stock.detach())
    if in_place:
        gradients = [torch.full_like(array, float("nan")) for array in arrays]
        assert module.ms_deform_attn_backward(*given, grad_output, *gradients, im2col_step=64) is None
    else:
        gradients = module.ms_deform_attn_backward(*given, grad_output, 64)
    torch.testing.assert_close(list(gradients), list(wanted))


def test_compiled_module(arrays):
    with libmsda.compat.compiled_module() as patch:
        import MultiScaleDeformableAttention

        check_extension(MultiScaleDeformableAttention, arrays, in_place=False)
        with libmsda.compat.compiled_module():
            pass
        assert sys.modules["MultiScaleDeformableAttention"] is MultiScaleDeformableAttention
    assert patch.report().calls == 1
    assert patch.report().targets == ("sys.modules.MultiScaleDeformableAttention",)


def test_a_foreign_compiled_module_is_refused_by_its_file(monkeypatch):
    foreign = types.ModuleType("MultiScaleDeformableAttention")
    foreign.__file__ = "/somewhere/MultiScaleDeformableAttention.so"
    monkeypatch.setitem(sys.modules, foreign.__name__, foreign)
    with pytest.raises(ImportError, match="/somewhere/MultiScaleDeformableAttention.so"):
        libmsda.compat.compiled_module()
    assert sys.modules[foreign.__name__] is foreign


@pytest.mark.parametrize(
    ("module", "attribute", "in_place"),
    [
        ("mmcv.ops.multi_scale_deform_attn", "ext_module", True),
        ("groundingdino.models.GroundingDINO.ms_deform_attn", "_C", False),
    ],
)
def test_extensions_of_projects(module, attribute, in_place, arrays, monkeypatch):
    stand_in = types.ModuleType(module)  # a module of that name, where the project's extension is missing
    monkeypatch.setitem(sys.modules, module, stand_in)
    with libmsda.compat.extensions() as patch:
        check_extension(getattr(stand_in, attribute), arrays, in_place)
    assert patch.report().calls == 1
    assert not hasattr(stand_in, attribute)


def test_functions_of_projects(arrays, monkeypatch):
    def multi_scale_deformable_attn_pytorch(value, value_spatial_shapes, sampling_locations, attention_weights):
        raise AssertionError("stock code ran")

    def ms_deform_attn_core_pytorch(
        value, value_spatial_shapes, sampling_locations, attention_weights, value_spatial_shapes_hw=None
    ):
        raise AssertionError("stock code ran")

    stand_in = types.ModuleType("project")
    stand_in.multi_scale_deformable_attn_pytorch = multi_scale_deformable_attn_pytorch
    stand_in.ms_deform_attn_core_pytorch = ms_deform_attn_core_pytorch
    monkeypatch.setitem(sys.modules, "project", stand_in)
    value, coord, weight = arrays
    stock = run_v1(*arrays)
    merged = coord.flatten(3, 4), weight.flatten(3)
    by_channel = value.permute(0, 2, 3, 1).contiguous()
    with libmsda.compat.functions() as patch:
        for output in (
            stand_in.multi_scale_deformable_attn_pytorch(value, torch.tensor(LEVELS), coord, weight),
            stand_in.multi_scale_deformable_attn_pytorch(value, LEVELS, *merged),
            stand_in.ms_deform_attn_core_pytorch(by_channel, torch.tensor(LEVELS), coord, merged[1]),
            stand_in.ms_deform_attn_core_pytorch(by_channel, None, *merged, value_spatial_shapes_hw=LEVELS),
        ):
            torch.testing.assert_close(output, stock)
    assert patch.report().calls == 4
    assert stand_in.ms_deform_attn_core_pytorch is ms_deform_attn_core_pytorch


def test_a_function_of_other_parameters_is_left_alone(monkeypatch):
    def multi_scale_deformable_attn_pytorch(value, mask):
        raise AssertionError

    stand_in = types.ModuleType("project")
    stand_in.multi_scale_deformable_attn_pytorch = multi_scale_deformable_attn_pytorch
    monkeypatch.setitem(sys.modules, "project", stand_in)
    with pytest.raises(LookupError):
        libmsda.compat.functions()


def test_level_shapes_are_read_again_when_the_tensor_changes():
    shapes = torch.tensor(LEVELS)
    level_shapes = libmsda.compat._operator.level_shapes
    assert level_shapes(shapes) == level_shapes(shapes) == ((6, 5), (3, 4))
    shapes[0, 0] = 9
    assert level_shapes(shapes) == ((9, 5), (3, 4))
    key = id(shapes)
    del shapes
    assert key not in libmsda.compat._operator._read_back
