"""A model on libmsda beside the same model on stock code, forward and backward.

Weights are random, set so that every layer's outputs have a standard deviation of 1. A third run, with the operator's
output 1 % larger, must differ by far more than is allowed, or the comparison would prove nothing.
"""

from unittest import mock

import libmsda.compat
import torch

ALLOWED = 2e-4  # relative, in the norm: fp32 rounding through some ten layers


def compare(model, inputs, enable, calls, allowed=(ALLOWED, ALLOWED)):
    """Asserts that the model calls libmsda `calls` times while enable() is in force, and that results agree.

    Returns how far the outputs and the gradients are from stock's; `allowed` is the most for each.
    """
    stock = run(model, inputs)
    with enable() as patch:
        ours = run(model, inputs)
    report = patch.report()
    assert report.calls == calls and not report.fallbacks, report
    differences = relative(ours, stock)
    forward = libmsda.compat._operator.Call.forward
    with mock.patch.object(libmsda.compat._operator.Call, "forward", lambda call: 1.01 * forward(call)), enable():
        wrong = relative(run(model, inputs), stock)
    for difference, most, difference_of_wrong in zip(differences, allowed, wrong):
        assert difference < most and 3 * most < difference_of_wrong, (differences, wrong)
    return differences


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
    (outputs @ torch.randn(outputs.shape, generator=generator, dtype=outputs.dtype)).backward()
    gradients = [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]
    return outputs.detach(), torch.cat(gradients)


def relative(given, wanted):
    """How far each vector is from the one that is wanted, relative to its norm."""
    assert all(vector.isfinite().all() and vector.norm() > 0 for vector in wanted)
    return [((one - other).norm() / other.norm()).item() for one, other in zip(given, wanted)]
