"""Exported models: every instance of the operator is found, and the result is torch's with libmsda's library and without."""

import collections
import re
import warnings
from pathlib import Path

import libmsda.onnx
import libmsda.torch
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from comparison import scale_weights
from families import FAMILIES
from onnx import helper, numpy_helper
from transformers.models.rt_detr_v2.modeling_rt_detr_v2 import multi_scale_deformable_attention_v2

import nodes

# Its calls are those of one forward pass, so the number of instances.
EXPORTED = ["rt_detr", "rt_detr_v2", "d_fine", "deformable_detr", "mask2former", "rf_detr", "rt_detr_v2 discrete"]
ALLOWED = 2e-4  # relative, in the norm, as in tests/compat


class Outputs(torch.nn.Module):
    """A model of transformers with inputs and outputs in an order."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *tensors):
        found = self.model(**dict(zip(self.names, tensors)))
        keys = ("logits", "pred_boxes", "class_queries_logits", "masks_queries_logits")
        return tuple(found[key] for key in keys if key in found)


def keep_positions(model, inputs):
    """Position embeddings for one size of images, as rf-detr's own export has them: torch exports no antialiased upsampling."""
    for module in [one for one in model.modules() if hasattr(one, "interpolate_pos_encoding")]:
        kept, original = [], module.interpolate_pos_encoding
        module.interpolate_pos_encoding = lambda *given, kept=kept, original=original: kept.append(original(*given)) or kept[0]
        model(**inputs)
        module.interpolate_pos_encoding = lambda *_given, kept=kept: kept[0].clone()


def export(name, path):
    torch.manual_seed(0)
    family, *discrete = name.split()
    model, inputs = FAMILIES[family].tiny(**({"decoder_method": "discrete"} if discrete else {}))
    scale_weights(model, inputs)
    wrapped = Outputs(model, list(inputs)).eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = wrapped(*inputs.values())
        if family == "rf_detr":
            keep_positions(model, inputs)
        torch.onnx.export(wrapped, tuple(inputs.values()), path, input_names=list(inputs), dynamo=False, opset_version=17)
    return onnx.load(path), {key: one.numpy() for key, one in inputs.items()}, [one.numpy() for one in expected]


def outputs(model, inputs, with_library):
    options = nodes.options() if with_library else onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {one.name: inputs[one.name] for one in session.get_inputs()})


def difference(found, expected):
    return max(np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(found, expected))


def enlarged(model):
    """The model with the operator's outputs 1 % larger."""
    wrong = onnx.ModelProto()
    wrong.CopyFrom(model)
    wrong.graph.initializer.append(numpy_helper.from_array(np.float32(1.01), "larger"))
    for node in [one for one in wrong.graph.node if one.domain == "msda"]:
        name, node.output[0] = node.output[0], node.output[0] + "_right"
        index = list(wrong.graph.node).index(node)
        wrong.graph.node.insert(index + 1, helper.make_node("Mul", [node.output[0], "larger"], [name]))
    return wrong


@pytest.mark.parametrize("name", EXPORTED)
def test_family(name, tmp_path):
    model, inputs, expected = export(name, tmp_path / "model.onnx")
    result, report = libmsda.onnx.rewrite(model)
    kinds = collections.Counter(node.op_type for node in result.graph.node)
    assert len(report.replaced) == kinds["MSDeformAttn"] == FAMILIES[name.split()[0]].calls and report.left == []
    assert "GridSample" not in kinds and len(result.graph.node) < len(model.graph.node)
    if name == "d_fine":
        assert {one.points for one in report.replaced} == {(3, 6, 3)}
    assert len(expected) == 2
    for with_library in (False, True):
        assert difference(outputs(result, inputs, with_library), expected) < ALLOWED, with_library
    assert difference(outputs(enlarged(result), inputs, True), expected) > 3 * ALLOWED


class Attention(torch.nn.Module):
    """The composition as Ultralytics and mmcv write it, with its parts as a test wants them wrong."""

    def __init__(self, levels, **changes):
        super().__init__()
        self.levels = levels
        self.scale, self.shift, self.align, self.order = 2.0, 1.0, False, list(range(len(levels)))
        vars(self).update(changes)

    def forward(self, value, coord, weight):
        batch, _, heads, dim = value.shape
        _, queries, _, level_count, points, _ = coord.shape
        values = value.split([h * w for h, w in self.levels], dim=1)
        grids = self.scale * coord - self.shift
        samples = []
        for level, (height, width) in enumerate(self.levels):
            pixels = values[level].flatten(2).transpose(1, 2).reshape(batch * heads, dim, height, width)
            grid = grids[:, :, :, self.order[level]].transpose(1, 2).flatten(0, 1)
            samples.append(torch.nn.functional.grid_sample(pixels, grid, align_corners=self.align))
        weights = weight.transpose(1, 2).reshape(batch * heads, 1, queries, level_count * points)
        output = (torch.stack(samples, dim=-2).flatten(-2) * weights).sum(-1).view(batch, heads * dim, queries)
        return output.transpose(1, 2).contiguous()


LEVELS = ((4, 4), (4, 4))


def attention(path, levels=LEVELS, **changes):
    torch.manual_seed(0)
    tokens = sum(h * w for h, w in levels)
    given = (torch.randn(2, tokens, 3, 8), torch.rand(2, 5, 3, len(levels), 2, 2), torch.rand(2, 5, 3, len(levels), 2))
    names = ["value", "coord", "weight"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Attention(levels, **changes), given, path, input_names=names, dynamo=False, opset_version=16)
    return onnx.load(path), dict(zip(names, given))


@pytest.mark.parametrize("levels", [((6, 5),), LEVELS, ((2, 3), (4, 6), (8, 12), (1, 1))])
def test_composition(levels, tmp_path):
    model, given = attention(tmp_path / "model.onnx", levels)
    result, report = libmsda.onnx.rewrite(model)
    assert [one.levels for one in report.replaced] == [levels] and report.left == []
    expected = Attention(levels)(*given.values()).numpy()
    for with_library in (False, True):
        (found,) = outputs(result, {key: one.numpy() for key, one in given.items()}, with_library)
        np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("changes, reason", [
    (dict(scale=1.9), "there is no tensor of locations"),
    (dict(shift=0.9), "there is no tensor of locations"),
    (dict(align=True), "its align_corners is not 0"),
    (dict(order=[1, 0]), "there is no tensor of locations"),
])
def test_what_is_not_the_operator_is_left(changes, reason, tmp_path):
    model, given = attention(tmp_path / "model.onnx", **changes)
    result, report = libmsda.onnx.rewrite(model)
    assert report.replaced == [] and [one.operator for one in report.left] == ["GridSample"] * 2
    assert all(reason in one.reason for one in report.left) and "0 replaced, 2 left" in str(report)
    assert {node.op_type for node in result.graph.node} == {node.op_type for node in model.graph.node}


class Discrete(torch.nn.Module):
    def forward(self, value, coord, weight):
        return multi_scale_deformable_attention_v2(value, [(4, 6), (2, 3)], coord, weight, [2, 3], "discrete")


def test_other_pixels_than_the_nearest_are_left(tmp_path):
    given = (torch.randn(2, 30, 3, 8), torch.rand(2, 5, 3, 5, 2), torch.rand(2, 5, 3, 5))
    given = dict(zip(("value", "coord", "weight"), given))
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Discrete(), tuple(given.values()), path, input_names=list(given), dynamo=False, opset_version=17)
    model = onnx.load(path)
    result, report = libmsda.onnx.rewrite(model)
    assert [(one.levels, one.points) for one in report.replaced] == [(((4, 6), (2, 3)), (2, 3))] and report.left == []
    (found,) = outputs(result, {key: one.numpy() for key, one in given.items()}, True)
    np.testing.assert_allclose(found, Discrete()(*given.values()).numpy(), atol=2e-6)
    halves = [node.attribute[0].t for node in model.graph.node if node.op_type == "Constant"]
    halves = [one for one in halves if one.data_type == onnx.TensorProto.FLOAT and numpy_helper.to_array(one).tolist() == 0.5]
    assert halves
    for one in halves:
        one.CopyFrom(numpy_helper.from_array(np.float32(0.25)))
    result, report = libmsda.onnx.rewrite(model)
    assert report.replaced == [] and {one.operator for one in report.left} == {"Gather"} and len(report.left) == 2
    assert all("int(x W + 0.5), int(y H + 0.5) are gathered" in one.reason for one in report.left)


@pytest.mark.parametrize("name, domain", [
    ("MultiscaleDeformableAttnPlugin_TRT", "TRT"), ("MultiscaleDeformableAttnPlugin_TRT", "com.microsoft"),
    ("MMCVMultiScaleDeformableAttention", "mmdeploy"),
])
def test_nodes_of_plugins(name, domain):
    rng = np.random.default_rng(0)
    arrays = {"value": rng.random((2, 26, 3, 8)), "coord": rng.random((2, 5, 3, 2, 4, 2)), "weight": rng.random((2, 5, 3, 2, 4))}
    arrays = {key: one.astype("float32") for key, one in arrays.items()}
    levels, starts = np.array([(4, 5), (2, 3)], "int32"), np.array([0, 20], "int32")
    for given_starts, left in ((starts, 0), (starts[::-1], 1)):
        values = [helper.make_tensor_value_info(key, onnx.TensorProto.FLOAT, one.shape) for key, one in arrays.items()]
        node = helper.make_node(name, ["value", "levels", "starts", "coord", "weight"], ["output"], "plugin", domain=domain)
        output = helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, None)
        constants = [numpy_helper.from_array(levels, "levels"), numpy_helper.from_array(given_starts.copy(), "starts")]
        graph = helper.make_graph([node], "plugin", values, [output], constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        result, report = libmsda.onnx.rewrite(model)
        assert (len(report.replaced), len(report.left)) == (1 - left, left), str(report)
        if left:
            assert "its levels start at [20, 0], not one after another: [0, 20]" in report.left[0].reason
            continue
        expected = libmsda.forward(arrays["value"], levels.tolist(), arrays["coord"], arrays["weight"])
        for with_library in (False, True):
            (found,) = outputs(result, arrays, with_library)
            assert found.ndim == (3 if name.startswith("MMCV") else 4)
            np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=2e-6)


def test_models_before_gridsample_are_refused():
    graph = helper.make_graph([], "empty", [], [])
    with pytest.raises(ValueError, match="the model's opset is 15: must be 16 or newer; export it again"):
        libmsda.onnx.rewrite(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)]))


class Operators(torch.nn.Module):
    """Calls of both operators of libmsda.torch, with points that differ by level."""

    def forward(self, value, query):
        batch, queries, _ = query.shape
        offset, logit = query[..., :48].view(batch, queries, 4, 6, 2), query[..., 48:72].view(batch, queries, 4, 6)
        levels, points = [(4, 5), (2, 3)], [2, 4]
        sampled = libmsda.torch.forward(value, levels, offset.sigmoid(), logit.softmax(-1), points=points, math_mode="accurate")
        boxes = query[:, :, None, 72:76].sigmoid().expand(batch, queries, 2, 4)
        by_box = libmsda.torch.forward_fused(value, levels, boxes, offset, logit, points=points)
        by_point = libmsda.torch.forward_fused(value, levels, boxes[..., :2].contiguous(), offset, logit)
        nearest = libmsda.torch.forward(value, levels, offset.sigmoid(), logit.softmax(-1), sampling_mode="nearest")
        nearest_by_box = libmsda.torch.forward_fused(value, levels, boxes, offset, logit, sampling_mode="nearest")
        return sampled, by_box, by_point, nearest, nearest_by_box


def test_export_of_the_operators(tmp_path):
    given = (torch.randn(2, 26, 4, 8), torch.randn(2, 7, 76))
    batch, queries = torch.export.Dim("batch"), torch.export.Dim("queries")
    model = libmsda.onnx.export(Operators(), given, tmp_path / "model.onnx", input_names=["value", "query"],
                                dynamic_shapes=({0: batch}, {0: batch, 1: queries}))
    names = [node.op_type for node in model.graph.node if node.domain == "msda"]
    assert names == ["MSDeformAttn", "MSDeformAttnFused", "MSDeformAttnFused", "MSDeformAttn", "MSDeformAttnFused"]
    assert [one.overload for one in model.functions if one.domain == "msda"] == ["levels2", "levels2_nearest"] * 2
    assert {one.version for one in model.opset_import if not one.domain} == {18}
    given = (torch.randn(3, 26, 4, 8), torch.randn(3, 11, 76))
    for with_library in (False, True):
        found = outputs(onnx.load(tmp_path / "model.onnx"), {"value": given[0].numpy(), "query": given[1].numpy()}, with_library)
        for one, expected in zip(found, Operators()(*given)):
            np.testing.assert_allclose(one, expected.numpy(), atol=3e-6)


def test_the_document_runs_as_written(tmp_path, monkeypatch, capsys):
    """The lines of docs/deploy.md, of a tiny model."""
    torch.manual_seed(0)
    model, inputs = FAMILIES["rt_detr"].tiny()
    scale_weights(model, inputs)
    pixels = inputs["pixel_values"]
    model = Outputs(model, ["pixel_values"]).eval()
    document = Path(__file__).resolve().parents[2] / "docs/deploy.md"
    (lines,) = re.findall(r"^```python\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        expected = [one.numpy() for one in model(pixels)]
        exec(lines, names := {"model": model, "pixels": pixels, "images": pixels.numpy()})
    assert capsys.readouterr().out.startswith("2 replaced, 0 left")
    assert difference(names["outputs"], expected) < ALLOWED
