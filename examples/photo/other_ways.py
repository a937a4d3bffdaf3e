"""The fused operator as it is written without msda, to compare results and times with.

in_numpy() is vectorised: it loops over heads, levels and corners, never over queries or points, and
takes as many queries at a time as leave what it keeps between two steps in the cache.
in_torch() is what models do that have no kernel of their own: one grid_sample a level.

Both take the first arguments of libmsda.forward_fused(), for one batch item and the same points in
every head: value [1, S, M, D], level_hw [L, 2], reference [1, Q, L, 2], offset [1, Q, M, K, 2], logit
[1, Q, M, K], points [L]; and give output [1, Q, M, D].
"""

import numpy as np

QUERIES_AT_A_TIME = 1024


def levels_of(level_hw, points):
    """(tokens, points, height, width) of each level, the first two as slices."""
    token = point = 0
    for (height, width), count in zip(level_hw.tolist(), points.tolist()):
        yield slice(token, token + height * width), slice(point, point + count), height, width
        token += height * width
        point += count


def add_samples(output, image, height, width, x, y, weight):
    """output [Q, D] += the sum over points of weight [Q, K] times the bilinear sample of image
    [H * W, D] at x, y [Q, K], in pixels; beyond the image all is zero."""
    left, top = np.floor(x), np.floor(y)
    x, y = x - left, y - top
    left, top = left.astype(np.int32), top.astype(np.int32)
    for row, row_share in ((top, 1 - y), (top + 1, y)):
        row_share = row_share * weight * ((row >= 0) & (row < height))
        for column, column_share in ((left, 1 - x), (left + 1, x)):
            share = row_share * column_share * ((column >= 0) & (column < width))
            corner = image.take(row * width + column, 0, mode="clip")
            output += np.einsum("qk,qkd->qd", share, corner)


def in_numpy(value, level_hw, reference, offset, logit, points):
    _, queries, heads, _ = logit.shape
    output = np.zeros((queries, heads, value.shape[-1]), np.float32)
    for head in range(heads):
        head_value = np.ascontiguousarray(value[0, :, head])
        for first in range(0, queries, QUERIES_AT_A_TIME):
            some = slice(first, first + QUERIES_AT_A_TIME)
            weight = np.exp(logit[0, some, head] - logit[0, some, head].max(-1, keepdims=True))
            weight /= weight.sum(-1, keepdims=True)
            for level, (tokens, of_level, height, width) in enumerate(levels_of(level_hw, points)):
                centre = reference[0, some, level, None]
                shift = offset[0, some, head, of_level]
                add_samples(
                    output[some, head],
                    head_value[tokens],
                    height,
                    width,
                    centre[..., 0] * np.float32(width) - np.float32(0.5) + shift[..., 0],
                    centre[..., 1] * np.float32(height) - np.float32(0.5) + shift[..., 1],
                    weight[:, of_level],
                )
    return output[None]


def in_torch(value, level_hw, reference, offset, logit, points):
    import torch

    value, reference, offset, logit = (
        torch.from_numpy(array[0]) for array in (value, reference, offset, logit)
    )
    queries, heads, channels = len(logit), value.shape[1], value.shape[2]
    with torch.inference_mode():
        weight = logit.softmax(-1).permute(1, 0, 2)
        output = torch.zeros(heads, channels, queries)
        for level, (tokens, of_level, height, width) in enumerate(levels_of(level_hw, points)):
            centre = reference[:, level, None, None]
            place = centre + offset[:, :, of_level] / torch.tensor([width, height])
            samples = torch.nn.functional.grid_sample(
                value[tokens].permute(1, 2, 0).reshape(heads, channels, height, width),
                2 * place.permute(1, 0, 2, 3) - 1,
                mode="bilinear",
                padding_mode="zeros",
                align_corners=False,
            )  # [M, D, Q, K]
            output += (samples * weight[:, None, :, of_level]).sum(-1)
        return output.permute(2, 0, 1)[None].numpy()
