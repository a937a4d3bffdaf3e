"""Exports of Ultralytics' and rf-detr's unedited models: the rewriter finds every instance.

tests/compat/real_packages installs the packages and runs this; without them it is skipped.
"""

import collections
import copy
import os
import warnings

import libmsda.onnx
import onnx
import pytest
import torch
from comparison import scale_weights
from test_models import ALLOWED, difference, enlarged, outputs


class Unsorted(torch.nn.Module):
    """A model of Ultralytics without the last step, which sorts by score: rounding would change the order."""

    def __init__(self, name):
        super().__init__()
        tasks = pytest.importorskip("ultralytics.nn.tasks", reason="Ultralytics is not installed", exc_type=ImportError)
        self.model = tasks.RTDETRDetectionModel(f"{name}.yaml", verbose=False)

    def forward(self, samples):
        _sorted, (boxes, scores, *_rest) = self.model(samples)
        return boxes, scores


class RfDetr(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        rfdetr = pytest.importorskip("rfdetr", reason="rf-detr is not installed", exc_type=ImportError)
        self.model = getattr(rfdetr, name)(pretrain_weights=None, device="cpu").model.model

    def export(self):
        """Position embeddings for one size of images, as rf-detr's own export has them."""
        self.model.export()

    def forward(self, samples):
        found = self.model(samples)
        return (found["pred_boxes"], found["pred_logits"]) if isinstance(found, dict) else tuple(found[:2])


@pytest.mark.parametrize("make, name, size, instances", [
    (Unsorted, "rtdetr-l", 256, 6), (Unsorted, "rtdetr-resnet50", 256, 6), (RfDetr, "RFDETRNano", 384, 2),
])
def test_every_instance_is_found(make, name, size, instances, tmp_path):
    os.environ.update(YOLO_OFFLINE="true", HF_HUB_OFFLINE="1")
    torch.manual_seed(7)
    model, image = make(name).eval(), torch.rand(1, 3, size, size)
    scale_weights(model, dict(samples=image))
    getattr(model, "export", lambda: None)()
    path = tmp_path / "model.onnx"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [one.numpy() for one in copy.deepcopy(model).double()(image.double())]  # float32's rounding is not ours
        torch.onnx.export(model, (image,), path, input_names=["samples"], dynamo=False, opset_version=17)
    exported = onnx.load(path)
    result, report = libmsda.onnx.rewrite(exported)
    kinds = collections.Counter(node.op_type for node in result.graph.node)
    print(f"{name}: {instances} instances, {len(exported.graph.node)} nodes became {len(result.graph.node)}\n{report}")
    assert len(report.replaced) == kinds["MSDeformAttn"] == instances and report.left == [] and "GridSample" not in kinds
    inputs = {"samples": image.numpy()}
    for with_library in (False, True):
        assert difference(outputs(result, inputs, with_library), expected) < ALLOWED, with_library
    assert difference(outputs(enlarged(result), inputs, True), expected) > 3 * ALLOWED
