"""Unedited transformers models of every family: libmsda against stock code, forward and backward.

The models are tiny and random, with weights set so that every layer's outputs have a standard deviation of 1.
A third run, with the operator's output 1 % larger, must differ by far more than is allowed, or the comparison
would prove nothing.
"""

import importlib
import pathlib

import libmsda.compat
import pytest
import torch
import transformers
from families import FAMILIES

ALLOWED = 2e-4  # relative, in the norm: fp32 rounding through some ten layers


def scale_weights(model, inputs):
    """Random weights with which every linear layer and convolution has outputs of standard deviation 1."""

    def rescale(layer, _inputs, output):
        handles.pop(layer).remove()
        deviation = output.detach().std()
        layer.weight.data /= deviation
        return output / deviation

    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=(parameter.numel() / parameter.shape[0]) ** -0.5)
    layers = [layer for layer in model.modules() if type(layer) in (torch.nn.Linear, torch.nn.Conv2d)]
    for layer in layers:
        if layer.bias is not None:
            torch.nn.init.zeros_(layer.bias)
    handles = {layer: layer.register_forward_hook(rescale) for layer in layers}
    with torch.no_grad():
        model(**inputs)
    for handle in handles.values():
        handle.remove()


def run(model, inputs):
    """Every output that has a gradient, and all gradients of one weighted sum of them, each as one vector."""
    model.zero_grad(set_to_none=True)
    found = []

    def collect(output):
        if isinstance(output, torch.Tensor):
            if output.requires_grad and output.is_floating_point():
                found.append(output.flatten())
        elif isinstance(output, dict):
            collect(list(output.values()))
        elif isinstance(output, (list, tuple)):
            for item in output:
                collect(item)

    collect(model(**inputs))
    outputs = torch.cat(found)
    outputs = torch.where(outputs.abs() < 1e3, outputs, 0)  # masks are -1e4 or less
    generator = torch.Generator().manual_seed(1)
    (outputs @ torch.randn(outputs.shape, generator=generator)).backward()
    gradients = [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]
    return outputs.detach(), torch.cat(gradients)


def relative(given, wanted):
    assert wanted.isfinite().all() and wanted.norm() > 0
    return ((given - wanted).norm() / wanted.norm()).item()


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, monkeypatch):
    importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    make, calls = FAMILIES[name]
    model, inputs = make(transformers)
    model.eval()
    scale_weights(model, inputs)
    stock = run(model, inputs)
    with libmsda.compat.transformers() as patch:
        ours = run(model, inputs)
    report = patch.report()
    assert report.calls == calls and not report.fallbacks, report
    for given, wanted in zip(ours, stock):
        assert relative(given, wanted) < ALLOWED

    forward = libmsda.compat._operator.Call.forward
    monkeypatch.setattr(libmsda.compat._operator.Call, "forward", lambda call: 1.01 * forward(call))
    with libmsda.compat.transformers():
        wrong = run(model, inputs)
    for given, wanted in zip(wrong, stock):
        assert relative(given, wanted) > 5 * ALLOWED


def test_a_model_with_nearest_sampling_runs_stock_code():
    model, inputs = FAMILIES["rt_detr_v2"][0](transformers, decoder_method="discrete")
    model.eval()
    stock = run(model, inputs)
    with libmsda.compat.transformers() as patch:
        ours = run(model, inputs)
    assert all(map(torch.equal, ours, stock))
    report = patch.report()
    assert (report.calls, dict(report.fallbacks)) == (0, {"method='discrete'; libmsda samples bilinearly": 2})


def test_every_modeling_file_with_the_operator_is_among_the_families():
    """A family that a newer transformers brings is found by the names that its file defines."""
    names = ("class MultiScaleDeformableAttention(", "def multi_scale_deformable_attention")
    root = importlib.import_module("transformers.models").__path__[0]
    present = {
        path.parent.name
        for path in pathlib.Path(root).glob("*/modeling_*.py")
        if any(name in path.read_text(encoding="utf-8") for name in names)
    }
    assert present == set(FAMILIES)
