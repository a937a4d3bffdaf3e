"""Multi-scale deformable attention by PyTorch in float64: what the stored results of the golden vectors come from.

Samples are those of grid_sample, the nearest ones RT-DETRv2's gather; gradients are autograd's. It shares nothing with
oracle.py, which has to agree.
"""

import torch
import torch.nn.functional as F

# TO_THE_RIGHT is a part of a pixel. Where a coordinate is on a pixel line, rounding inside grid_sample would decide
# which side's derivative it takes. A derivative by x does not change with x between two lines, so that by a coordinate
# this far to the right is the right-hand one.
TO_THE_RIGHT = 1e-9


def bilinear(pixels, coord):
    """[N,D,Q,P] of maps [N,D,H,W] at coord [N,Q,P,2]."""
    return F.grid_sample(pixels, 2 * coord - 1, mode="bilinear", padding_mode="zeros", align_corners=False)


def nearest(pixels, coord):
    height, width = pixels.shape[2:]
    size = coord.new_tensor([width, height])
    x, y = torch.minimum((coord * size + 0.5).to(torch.int64).clamp(min=0), size.to(torch.int64) - 1).unbind(-1)
    item = torch.arange(len(pixels))[:, None, None]
    return pixels[item, :, y, x].permute(0, 3, 1, 2)


def output_of(value, level_hw, points, coord, weight, sample, move):
    """[B,Q,M,D], with each coordinate moved by `move` pixels (x, y)."""
    B, _, M, D = value.shape
    Q = coord.shape[1]
    by_head = coord.transpose(1, 2).flatten(0, 1)  # [B M,Q,K,2]
    maps = value.permute(0, 2, 3, 1).flatten(0, 1)  # [B M,D,S]
    samples, token, point = [], 0, 0
    for (height, width), count in zip(level_hw, points):
        pixels = maps[:, :, token : token + height * width].unflatten(2, (height, width))
        moved = by_head[:, :, point : point + count] + torch.tensor(move) / torch.tensor([width, height])
        samples.append(sample(pixels, moved))
        token, point = token + height * width, point + count
    weights = weight.transpose(1, 2).flatten(0, 1)[:, None]  # [B M,1,Q,K]
    return (torch.cat(samples, 3) * weights).sum(3).view(B, M, D, Q).permute(0, 3, 1, 2)


def coordinates(level_hw, points, reference, offset):
    """The sampling locations [B,Q,M,K,2] of a fused call."""
    level = torch.repeat_interleave(torch.arange(len(points)), torch.tensor(points))
    anchor = reference[:, :, None, level]  # [B,Q,1,K,2|4]
    if reference.shape[-1] == 2:
        return anchor + offset / torch.tensor(level_hw).flip(1)[level]
    count = torch.tensor(points)[level, None]
    return anchor[..., :2] + offset / count * anchor[..., 2:] * 0.5


def results(arrays, is_nearest=False):
    """Output and gradients of the inputs in `arrays`, by name."""
    torch.set_default_dtype(torch.float64)
    level_hw, points = arrays["level_hw"].tolist(), arrays["points"].tolist()
    names = [name for name in ("value", "coord", "weight", "reference", "offset", "logit") if name in arrays]
    inputs = {name: torch.from_numpy(arrays[name]).requires_grad_() for name in names}
    grad_output = torch.from_numpy(arrays["grad_output"])
    sample = nearest if is_nearest else bilinear

    def run(*move):
        if "coord" in inputs:
            coord, weight = inputs["coord"], inputs["weight"]
        else:
            coord = coordinates(level_hw, points, inputs["reference"], inputs["offset"])
            weight = inputs["logit"].softmax(-1)
        output = output_of(inputs["value"], level_hw, points, coord, weight, sample, move)
        gradients = torch.autograd.grad(output, list(inputs.values()), grad_output, materialize_grads=True)
        return output, dict(zip(names, gradients))

    output, gradients = run(0.0, 0.0)
    for axis, move in enumerate(((TO_THE_RIGHT, 0.0), (0.0, TO_THE_RIGHT))):
        _, moved = run(*move)
        for name in {"coord", "reference", "offset"} & set(names):
            gradients[name][..., axis::2] = moved[name][..., axis::2]  # x of (x, y), or x and w of a box
    named = {"output": output.detach(), **{f"grad_{name}": gradient for name, gradient in gradients.items()}}
    return {name: tensor.contiguous().numpy() for name, tensor in named.items()}
