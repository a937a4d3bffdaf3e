"""Small problems for the tests of libmsda.torch."""

import os

import torch

import libmsda
import libmsda.torch as ours

LEVELS = ((6, 5), (3, 2))
FLAT = [6, 5, 3, 2]
FUSED = {False: ours.forward, True: ours.forward_fused}
DEVICES = ["cpu"]
if os.environ.get("MSDA_TEST_DEVICE") == "cuda":
    DEVICES.append("cuda")


def tensors(fused=False, dtype=torch.float32, device="cpu", batch=2, queries=7, boxes=2, grad=False):
    make = torch.Generator().manual_seed(batch)
    rand = lambda *shape: torch.rand(shape, generator=make, dtype=torch.float64)
    value = rand(batch, 36, 3, 4) - 0.5
    points, weight = rand(batch, queries, 3, 2, 4, 2), rand(batch, queries, 3, 2, 4)
    found = [value, points, weight]
    if fused:
        found = [value, rand(batch, queries, 2, boxes), points - 0.5, weight]
    return [t.to(dtype).to(device).requires_grad_(grad) for t in found]


def call(fused, given, **settings):
    value, *rest = given
    return FUSED[fused](value, LEVELS, *rest, **settings)


def expected(fused, given, grad_output=None):
    """libmsda's output, or its gradients."""
    value, *rest = [t.detach() for t in given]
    if grad_output is None:
        return (libmsda.forward_fused if fused else libmsda.forward)(value, LEVELS, *rest)
    function = libmsda.backward_fused if fused else libmsda.backward
    return function(value, LEVELS, *rest, grad_output)
