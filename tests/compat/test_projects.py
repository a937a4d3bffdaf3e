"""Drop-ins for projects other than transformers, on modules of their shape: ours against stock, forward and backward."""

import concurrent.futures
import importlib.machinery
import sys
import types

import libmsda.compat
import pytest
import stand_ins
import torch
from stand_ins import LEVELS, POINTS, STARTS
from traces import changes, snapshot

FUNCTIONS = {
    "mmcv": stand_ins.mmcv,
    "groundingdino": stand_ins.groundingdino,
    "detrex": stand_ins.detrex,
    "ultralytics": stand_ins.ultralytics,
    "rf-detr": stand_ins.rf_detr,
    "RT-DETR": stand_ins.rt_detr,
    "RT-DETR v2": stand_ins.rt_detr_v2,
    "D-FINE": stand_ins.d_fine_repository,
    "DEIM": stand_ins.deim,
    "DEIM's RT-DETR v2": lambda monkeypatch: stand_ins.deim(monkeypatch, value_shape="reshape"),
}
EXTENSIONS = {
    "mmcv": (stand_ins.mmcv, "mmcv.ops.multi_scale_deform_attn.ext_module"),
    "groundingdino": (stand_ins.groundingdino, "groundingdino.models.GroundingDINO.ms_deform_attn._C"),
    "detrex": (stand_ins.detrex, "detrex.layers.multi_scale_deform_attn._C"),
}


@pytest.fixture
def inputs():
    """value, coord, weight and the gradient of the output."""
    shapes = (2, 42, 4, 8), (2, 7, 4, 2, POINTS, 2), (2, 7, 4, 2, POINTS)
    return [torch.rand(shape, requires_grad=True) for shape in shapes] + [torch.rand(2, 7, 32)]


def run(layer, inputs, **options):
    """The output and the gradients of value, coord and weight."""
    *leaves, grad_output = inputs
    output = layer(*leaves, **options)
    return [output.detach(), *torch.autograd.grad(output, leaves, grad_output)]


def wanted(inputs):
    return run(lambda value, coord, weight: stand_ins.stock(value, LEVELS, coord, weight), inputs)


@pytest.mark.parametrize("project", FUNCTIONS)
def test_functions(project, inputs, monkeypatch):
    make = FUNCTIONS[project](monkeypatch)
    before = make()
    stock, found = run(before, inputs), snapshot()
    with libmsda.compat.functions() as patch:
        during = make()
        ours = [run(layer, inputs) for layer in (before, during)]
    report = patch.report()
    assert (report.calls, report.fallbacks) == (2, {}), report
    for results in ours:
        torch.testing.assert_close(results, stock)
    assert changes(found) == []
    for layer in (before, during):
        assert [torch.equal(*pair) for pair in zip(run(layer, inputs), stock)] == [True] * 4
    assert patch.report().calls == 2


@pytest.mark.parametrize("project", EXTENSIONS)
def test_autograd_functions_of_extensions_run_on_the_cpu_too(project, inputs, monkeypatch):
    make, _target = EXTENSIONS[project]
    layer = make(monkeypatch)()
    with pytest.raises(RuntimeError, match="Not implemented on the CPU"):
        run(layer, inputs, as_on_gpu=True)
    with libmsda.compat.functions() as patch:
        torch.testing.assert_close(run(layer, inputs, as_on_gpu=True), wanted(inputs))
    assert patch.report().calls == 1


@pytest.mark.parametrize("project", EXTENSIONS)
def test_extensions(project, inputs, monkeypatch):
    make, target = EXTENSIONS[project]
    layer = make(monkeypatch)()
    found = snapshot()
    with libmsda.compat.extensions() as patch:
        torch.testing.assert_close(run(layer, inputs, as_on_gpu=True), wanted(inputs))
        module, _, attribute = target.rpartition(".")
        assert getattr(sys.modules[module], attribute).version == 7  # what else the extension has
    assert (patch.report().calls, patch.report().targets) == (1, (target,))
    assert changes(found) == []


def test_an_extension_that_is_missing_is_not_missed(inputs, monkeypatch):
    layer = stand_ins.groundingdino(monkeypatch)()
    del sys.modules["groundingdino.models.GroundingDINO.ms_deform_attn"]._C  # as where it was not compiled
    with libmsda.compat.extensions() as patch:
        torch.testing.assert_close(run(layer, inputs, as_on_gpu=True), wanted(inputs))
    assert patch.report().calls == 1
    assert not hasattr(sys.modules["groundingdino.models.GroundingDINO.ms_deform_attn"], "_C")


class Marked(torch.Tensor):
    """Tensors of a type that libmsda does not take."""


@pytest.mark.parametrize("enable", [libmsda.compat.enable, libmsda.compat.functions, libmsda.compat.extensions])
def test_what_is_not_taken_runs_the_stock_extension_and_is_counted_once(enable, inputs, monkeypatch):
    in_place = stand_ins.Compiled(on_cpu=True, in_place=True)
    layer = stand_ins.mmcv(monkeypatch, in_place)()
    marked = [inputs[0].detach().as_subclass(Marked).requires_grad_(), *inputs[1:]]
    with enable() as patch:
        results = run(layer, marked, as_on_gpu=True)
    assert [torch.equal(*pair) for pair in zip(results, wanted(inputs))] == [True] * 4
    assert patch.report().calls == 0
    assert dict(patch.report().fallbacks) == {"value is a Marked; libmsda takes plain tensors": 1}


def test_an_extension_whose_backward_is_refused_runs_stock_code(inputs, monkeypatch):
    def refuse(_call, _grad_output):
        raise libmsda.UnsupportedError("no kernel takes it")

    monkeypatch.setattr(libmsda.compat._operator.Call, "backward", refuse)
    layer = stand_ins.detrex(monkeypatch, stand_ins.Compiled(on_cpu=True))()
    with libmsda.compat.extensions():
        torch.testing.assert_close(run(layer, inputs, as_on_gpu=True), wanted(inputs))


def test_compiled_module(inputs, monkeypatch):
    with libmsda.compat.compiled_module() as patch:
        layer = stand_ins.deformable_detr(monkeypatch)()
        torch.testing.assert_close(run(layer, inputs), wanted(inputs))
        module = sys.modules["MultiScaleDeformableAttention"]
        with libmsda.compat.compiled_module():
            pass
        assert sys.modules["MultiScaleDeformableAttention"] is module
    assert patch.report().calls == 1
    assert patch.report().targets == ("sys.modules.MultiScaleDeformableAttention",)


def test_the_compiled_module_takes_no_call_that_libmsda_refuses(inputs, monkeypatch):
    with libmsda.compat.compiled_module() as patch:
        layer = stand_ins.deformable_detr(monkeypatch)()
        with pytest.raises(RuntimeError, match="value is a Marked.*no compiled extension is there to take the call"):
            layer(inputs[0].as_subclass(Marked), *inputs[1:3])
    assert patch.report().fallbacks.total() == 1


def test_functions_of_deformable_detr(inputs, monkeypatch):
    with libmsda.compat.compiled_module() as module_patch:
        layer = stand_ins.deformable_detr(monkeypatch)()
        found = snapshot()
        with libmsda.compat.functions() as patch:
            for as_core in (False, True):
                torch.testing.assert_close(run(layer, inputs, as_core=as_core), wanted(inputs))
        assert changes(found) == []
    assert (patch.report().calls, module_patch.report().calls) == (2, 0)
    module = "models.ops.functions.ms_deform_attn_func"
    assert set(patch.report().targets) == {
        f"{module}.ms_deform_attn_core_pytorch",
        f"{module}.MSDeformAttnFunction.apply",
    }


def test_a_function_derived_from_a_patched_one_keeps_its_own_code(inputs, monkeypatch):
    stand_ins.mmcv(monkeypatch)
    function = sys.modules["mmcv.ops.multi_scale_deform_attn"].MultiScaleDeformableAttnFunction

    class Derived(function):
        @staticmethod
        def forward(ctx, tensor):
            return tensor + 1

    with libmsda.compat.functions():
        assert torch.equal(Derived.apply(inputs[3]), inputs[3] + 1)


def test_a_foreign_compiled_module_is_refused_by_its_file(monkeypatch):
    foreign = types.ModuleType("MultiScaleDeformableAttention")
    foreign.__file__ = "/somewhere/MultiScaleDeformableAttention.so"
    monkeypatch.setitem(sys.modules, foreign.__name__, foreign)
    with pytest.raises(ImportError, match="/somewhere/MultiScaleDeformableAttention.so"):
        libmsda.compat.compiled_module()
    assert sys.modules[foreign.__name__] is foreign


def test_level_start_index_is_obeyed(inputs, monkeypatch):
    layer = stand_ins.mmcv(monkeypatch)
    function = sys.modules["mmcv.ops.multi_scale_deform_attn"].MultiScaleDeformableAttnFunction
    value, coord, weight, _ = inputs
    turned = torch.cat([value[:, 30:], value[:, :30]], 1)  # the second level comes first
    stock = layer()(value, coord, weight)
    with libmsda.compat.functions() as patch:
        output = function.apply(turned, torch.tensor(LEVELS), torch.tensor([12, 0]), coord, weight, 64)
    torch.testing.assert_close(output, stock)
    assert patch.report().calls == 1
    assert STARTS == [0, 30]


def test_levels_that_were_split_are_joined_without_a_copy(inputs):
    joined = libmsda.compat._operator._joined
    value = inputs[0].detach()
    levels = stand_ins.by_level(value)
    whole = joined(levels)
    assert whole.data_ptr() == value.data_ptr() and torch.equal(whole, torch.cat(levels, -1))
    for apart in ([level.clone() for level in levels], levels[::-1], [levels[0], levels[1] + 0]):
        assert torch.equal(joined(apart), torch.cat(list(apart), -1))


def test_a_value_whose_layout_is_unclear_runs_stock_code(monkeypatch):
    stand_ins.module(monkeypatch, "project", ms_deform_attn_core_pytorch=lambda *_: None)
    project = sys.modules["project"]

    def ms_deform_attn_core_pytorch(value, value_spatial_shapes, sampling_locations, attention_weights):
        return "stock"

    project.ms_deform_attn_core_pytorch = ms_deform_attn_core_pytorch
    value, coord, weight = torch.rand(1, 4, 4, 4), torch.rand(1, 2, 4, 1, 1, 2), torch.rand(1, 2, 4, 1, 1)
    with libmsda.compat.functions() as patch:
        assert project.ms_deform_attn_core_pytorch(value, [(2, 2)], coord, weight) == "stock"
    assert dict(patch.report().fallbacks) == {"value of shape (1, 4, 4, 4) may have its tokens on axis 1 or 3": 1}


def test_what_has_other_parameters_is_left_alone_and_named(inputs, monkeypatch):
    def multi_scale_deformable_attn_pytorch(value, mask):
        raise AssertionError

    names = dict(multi_scale_deformable_attn_pytorch=multi_scale_deformable_attn_pytorch, deformable_attention_core_func=len)
    project = stand_ins.module(monkeypatch, "project", **names)
    reasons = {
        "project.multi_scale_deformable_attn_pytorch": "has parameters (value, mask); libmsda takes "
        "(value, value_spatial_shapes, sampling_locations, attention_weights)",
        "project.deformable_attention_core_func": "is a builtin_function_or_method; libmsda takes functions of Python",
    }
    with pytest.raises(LookupError) as error:
        libmsda.compat.functions()
    for name, reason in reasons.items():
        assert f"{name} {reason}" in str(error.value)

    stand_ins.ultralytics(monkeypatch)
    with libmsda.compat.functions() as patch:
        assert vars(project).items() >= names.items()
    assert patch.report().skipped == reasons
    assert "leaves project.multi_scale_deformable_attn_pytorch, which has parameters (value, mask)" in str(patch.report())


def test_packages_in_which_nothing_is_patched_are_named(monkeypatch):
    stand_ins.ultralytics(monkeypatch)
    monkeypatch.setitem(sys.modules, "mmcv", types.ModuleType("mmcv"))
    specs = {"detrex": importlib.machinery.ModuleSpec("detrex", None)}
    monkeypatch.setattr(libmsda.compat.importlib.util, "find_spec", specs.get)
    with libmsda.compat.functions() as patch:
        report = patch.report()
    assert report.absent == {
        "mmcv": "is imported, without a module that has the operator",
        "rfdetr": "is not installed",
        "groundingdino": "is not installed",
        "detrex": "is not imported",
    }
    assert "nothing of rfdetr, which is not installed" in str(report)
    with pytest.raises(LookupError, match="groundingdino is not installed; detrex is not imported"):
        libmsda.compat.extensions()


def test_a_module_imported_while_patched_gets_stock_code_back(inputs, monkeypatch):
    stand_ins.ultralytics(monkeypatch)
    source = sys.modules["ultralytics.nn.modules.utils"]
    stock = source.multi_scale_deformable_attn_pytorch
    value, coord, weight, _ = inputs
    with libmsda.compat.functions() as patch:
        late = stand_ins.module(monkeypatch, "project")
        late.multi_scale_deformable_attn_pytorch = source.multi_scale_deformable_attn_pytorch
        with libmsda.compat.functions() as second:
            late.multi_scale_deformable_attn_pytorch(value, LEVELS, coord.flatten(3, 4), weight.flatten(3))
    assert (patch.report().calls, second.report().calls) == (1, 1)
    assert late.multi_scale_deformable_attn_pytorch is source.multi_scale_deformable_attn_pytorch is stock


def test_exceptions_second_patches_and_threads_leave_no_trace(inputs, monkeypatch):
    layers = [FUNCTIONS[project](monkeypatch)() for project in ("mmcv", "D-FINE", "rf-detr")]
    stock, found = wanted(inputs), snapshot()
    with pytest.raises(KeyError), libmsda.compat.enable(), libmsda.compat.enable():
        raise KeyError
    assert changes(found) == []

    def work():
        # Two threads that share a leaf may wait for one another in PyTorch 2.15: one has the leaf's lock and wants Python's,
        # torch.autograd.Function.apply() has Python's and wants the leaf's.
        own = [tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in inputs]
        for _ in range(20):
            with libmsda.compat.enable() as patch:
                for layer in layers:
                    torch.testing.assert_close(run(layer, own), stock)
                assert patch.report().calls >= len(layers)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work) for _ in range(2)]:
            done.result()
    assert changes(found) == []
