"""Multi-scale deformable attention in numpy float64, written down from its definition.

This is what the library is measured against, so it shares nothing with the library: plain arrays
in, plain arrays out, one loop over levels and one over the four corners, gradients by hand. It is
slow and short on purpose.

Letters: B batch, S tokens, M heads, D channels of a head, Q queries, L levels, P points of a level,
K points of all levels.

  value   [B,S,M,D]      coord  [B,Q,M,K,2] as (x, y)      weight [B,Q,M,K]
  output, grad_output [B,Q,M,D]

or, fused, instead of coord and weight

  reference [B,Q,L,2] as (x, y), or [B,Q,L,4] as (cx, cy, w, h)
  offset  [B,Q,M,K,2]    logit  [B,Q,M,K]

For a level of H x W pixels, px = x W - 1/2 and py = y H - 1/2; a point's sample is the bilinear
mean of the four pixels around (px, py), pixels outside the map being zero; output = sum over points
of weight * sample. A fused call means weight = softmax(logit) over the K points, and coord =
reference + offset / (W, H) or reference.xy + offset / P * reference.wh / 2 for a level of P points.

With nearest=True a sample is one pixel instead, in column int(x W + 1/2) and row int(y H + 1/2), each
moved to the map's edge where it is outside; gradients by x and y are zero. Every operation on the way there
is rounded as coord's or offset's type says: float64, else float32.

What is not finite:
  * a point whose x or y is not finite contributes nothing, whatever its weight, and gets zero
    gradients;
  * a finite point that touches no pixel has the sample zero, so a NaN weight still shows;
  * a pixel inside the map always takes part, with bilinear weight zero too, so a NaN there shows.
"""

from dataclasses import dataclass

import numpy as np

CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))  # (dy, dx)


@dataclass
class Level:
    """Where one level lies: its rows in the token axis and its points in the point axis."""

    height: int
    width: int
    row_pitch: int  # tokens from a pixel to the one below
    first_pixel: int  # token of pixel (0, 0)
    points: slice


def levels_of(level_hw, points, value_border=0):
    """The levels in order, and how many tokens they take together."""
    levels, token, point = [], 0, 0
    for (height, width), count in zip(np.asarray(level_hw, np.int64).tolist(), points):
        pitch = width + 2 * value_border
        first = token + value_border * (pitch + 1)
        levels.append(Level(height, width, pitch, first, slice(point, point + int(count))))
        token += (height + 2 * value_border) * pitch
        point += int(count)
    return levels, token


def _wide(array):
    return None if array is None else np.asarray(array).astype(np.float64)


class _Taps:
    """The four pixels under every point of one level, and their bilinear weights; or where nearest is
    the type of the coordinates, the one pixel."""

    def __init__(self, value, level, coord, nearest=None):
        x, y = coord[..., 0], coord[..., 1]  # [B,Q,M,P]
        self.finite = np.isfinite(x) & np.isfinite(y)
        x, y = (np.where(self.finite, a, -9.0) for a in (x, y))
        if nearest:
            px, py = _nearest_pixel(x, level.width, nearest), _nearest_pixel(y, level.height, nearest)
        else:
            px, py = x * level.width - 0.5, y * level.height - 0.5
        x0, y0 = np.floor(px), np.floor(py)
        near = self.finite & (x0 >= -1) & (x0 < level.width) & (y0 >= -1) & (y0 < level.height)
        px, py, x0, y0 = (np.where(near, a, -9.0) for a in (px, py, x0, y0))  # no huge integers
        self.fx, self.fy = px - x0, py - y0
        self.rows, self.inside, self.pixels = [], [], []
        batch = np.arange(value.shape[0])[:, None, None, None]
        head = np.arange(value.shape[2])[None, None, :, None]
        self.at = lambda row: (batch, row, head)
        for dy, dx in CORNERS:
            cx, cy = (x0 + dx).astype(np.int64), (y0 + dy).astype(np.int64)
            inside = (cx >= 0) & (cx < level.width) & (cy >= 0) & (cy < level.height)
            if nearest and (dy, dx) != (0, 0):
                inside = np.zeros_like(inside)
            row = np.where(inside, level.first_pixel + cy * level.row_pitch + cx, 0)
            pixel = np.zeros((*x.shape, value.shape[3]))
            if value.shape[1] > 0:
                pixel = np.where(inside[..., None], value[self.at(row)], 0.0)  # [B,Q,M,P,D]
            self.rows.append(row)
            self.inside.append(inside)
            self.pixels.append(pixel)
        self.touches = np.any(self.inside, axis=0)

    def bilinear(self, corner):
        """The share of the sample that corner has, [B,Q,M,P]."""
        dy, dx = CORNERS[corner]
        return (self.fx if dx else 1 - self.fx) * (self.fy if dy else 1 - self.fy)

    def sample(self):
        return sum(self.bilinear(i)[..., None] * self.pixels[i] for i in range(4))


def _nearest_pixel(coord, size, dtype):
    """Column or row of the pixel along an axis of `size`, in whole numbers of float64."""
    position = coord.astype(dtype) * dtype(size) + dtype(0.5)
    return np.clip(np.trunc(position.astype(np.float64)), 0, size - 1)


def _arithmetic(coord):
    return np.float64 if np.asarray(coord).dtype == np.float64 else np.float32


def _scaled(value, value_scale):
    value = _wide(value)
    return value if value_scale is None else value * _wide(value_scale)[:, None]


def _quiet(function):
    """NaN and infinity are part of the definition here, not something to warn about."""
    return np.errstate(invalid="ignore", over="ignore", divide="ignore")(function)


@_quiet
def forward(value, level_hw, points, coord, weight, *, value_border=0, value_scale=None, nearest=False):
    """output [B,Q,M,D] in float64. value_scale [M] multiplies the values of each head."""
    nearest = nearest and _arithmetic(coord)
    value, coord, weight = _scaled(value, value_scale), _wide(coord), _wide(weight)
    levels, tokens = levels_of(level_hw, points, value_border)
    assert value.shape[1] == tokens, (value.shape, tokens)
    output = np.zeros((*weight.shape[:3], value.shape[3]))
    for level in levels:
        taps = _Taps(value, level, coord[:, :, :, level.points], nearest)
        w = np.where(taps.finite, weight[:, :, :, level.points], 0.0)
        output += (w[..., None] * taps.sample()).sum(axis=3)
    return output


@_quiet
def backward(
    value,
    level_hw,
    points,
    coord,
    weight,
    grad_output,
    *,
    value_border=0,
    value_scale=None,
    nearest=False,
):
    """(grad_value, grad_coord, grad_weight) of sum(output * grad_output), in float64.

    grad_value is by the stored value, so it carries value_scale; border pixels get zero. The sample
    has a kink where px or py is a whole number; grad_coord is the right-hand derivative there."""
    nearest = nearest and _arithmetic(coord)
    value, coord, weight = _scaled(value, value_scale), _wide(coord), _wide(weight)
    grad = _wide(grad_output)[:, :, :, None]  # [B,Q,M,1,D]
    grad_value, grad_coord = np.zeros_like(value), np.zeros_like(coord)
    grad_weight = np.zeros_like(weight)
    for level in levels_of(level_hw, points, value_border)[0]:
        taps = _Taps(value, level, coord[:, :, :, level.points], nearest)
        w = np.where(taps.finite, weight[:, :, :, level.points], 0.0)
        v00, v01, v10, v11 = taps.pixels
        fx, fy = taps.fx[..., None], taps.fy[..., None]
        slope_x = (1 - fy) * (v01 - v00) + fy * (v11 - v10)
        slope_y = (1 - fx) * (v10 - v00) + fx * (v11 - v01)
        by_px = w * (grad * slope_x).sum(axis=-1)
        by_py = w * (grad * slope_y).sum(axis=-1)
        touched = lambda result: np.where(taps.touches, result, 0.0)  # noqa: B023  called in this round only
        if not nearest:
            grad_coord[:, :, :, level.points, 0] = touched(by_px * level.width)
            grad_coord[:, :, :, level.points, 1] = touched(by_py * level.height)
        grad_weight[:, :, :, level.points] = touched((grad * taps.sample()).sum(axis=-1))
        for corner in range(4):
            share = (w * taps.bilinear(corner))[..., None] * grad
            share = np.where(taps.inside[corner][..., None], share, 0.0)
            if value.shape[1] > 0:
                np.add.at(grad_value, taps.at(taps.rows[corner]), share)
    if value_scale is not None:
        grad_value *= _wide(value_scale)[:, None]
    return grad_value, grad_coord, grad_weight


def softmax(logit):
    """Over the last axis. A row with a NaN is NaN throughout."""
    logit = _wide(logit)
    if logit.shape[-1] == 0:
        return logit
    power = np.exp(logit - logit.max(axis=-1, keepdims=True))
    return power / power.sum(axis=-1, keepdims=True)


def _point_sizes(level_hw, points):
    """Of each of the K points: its level, the level's (W, H), and the points of that level."""
    level = np.repeat(np.arange(len(points)), points)
    hw = np.asarray(level_hw, np.float64).reshape(-1, 2)
    return level, hw[level][:, ::-1], np.asarray(points, np.float64)[level][:, None]


@_quiet
def fused_inputs(level_hw, points, reference, offset, logit, nearest=False):
    """The (coord, weight) that a fused call stands for."""
    dtype = _arithmetic(offset) if nearest else np.float64
    reference, offset = (np.asarray(array).astype(dtype) for array in (reference, offset))
    level, wh, count = (np.asarray(array) for array in _point_sizes(level_hw, points))
    wh, count = wh.astype(dtype), count.astype(dtype)
    anchor = reference[:, :, None, level]  # [B,Q,1,K,2|4]
    if nearest and reference.shape[-1] == 4:
        return anchor[..., :2] + offset * (anchor[..., 2:] * (dtype(0.5) / count)), softmax(logit)
    if reference.shape[-1] == 2:
        coord = anchor + offset / wh
    else:
        coord = anchor[..., :2] + offset / count * anchor[..., 2:] / 2
    return coord, softmax(logit)


def forward_fused(value, level_hw, points, reference, offset, logit, **options):
    """output [B,Q,M,D] of a call with reference points, offsets and logits."""
    nearest = options.get("nearest", False)
    coord, weight = fused_inputs(level_hw, points, reference, offset, logit, nearest)
    return forward(value, level_hw, points, coord, weight, **options)


@_quiet
def backward_fused(value, level_hw, points, reference, offset, logit, grad_output, **options):
    """(grad_value, grad_reference, grad_offset, grad_logit) of sum(output * grad_output)."""
    nearest = options.get("nearest", False)
    coord, weight = fused_inputs(level_hw, points, reference, offset, logit, nearest)
    reference, offset = _wide(reference), _wide(offset)
    grad_value, grad_coord, grad_weight = backward(
        value, level_hw, points, coord, weight, grad_output, **options
    )
    level, wh, count = _point_sizes(level_hw, points)
    finite = np.isfinite(coord).all(axis=-1, keepdims=True)
    by_point = grad_coord  # by the anchor's (x, y), [B,Q,M,K,2]
    if reference.shape[-1] == 2:
        grad_offset = np.where(finite, grad_coord / wh, 0.0)  # a level may be of no width
    else:
        size = reference[:, :, None, level, 2:]
        grad_offset = np.where(finite, grad_coord * size / (2 * count), 0.0)
        by_size = np.where(finite, grad_coord * offset / (2 * count), 0.0)
        by_point = np.concatenate([grad_coord, by_size], axis=-1)
    grad_reference = np.zeros_like(reference)
    for index in range(len(points)):
        grad_reference[:, :, index] = by_point[:, :, :, level == index].sum(axis=(2, 3))
    mean = (weight * grad_weight).sum(axis=-1, keepdims=True)
    grad_logit = weight * (grad_weight - mean)
    return grad_value, grad_reference, grad_offset, grad_logit


@_quiet
def float32_bound(value, level_hw, points, coord, weight, *, value_border=0, value_scale=None):
    """How far a float32 kernel may be from forward() on the same rounded inputs, [B,Q,M,D].

    u ((4 K + 8) sum |w c v| + 4 max(W, H) sum |w| dv), u = 2^-24: the first term is the rounding of
    products and sums (c the bilinear share), the second that of the coordinates, dv being the
    largest step between neighbouring pixels of a level, the zeros around it included. The rounding
    to the output's type comes on top."""
    value, coord, weight = _scaled(value, value_scale), _wide(coord), np.abs(_wide(weight))
    total = coord.shape[3]
    bound = np.zeros((*weight.shape[:3], value.shape[3]))
    for level in levels_of(level_hw, points, value_border)[0]:
        taps = _Taps(np.abs(value), level, coord[:, :, :, level.points])
        w = np.where(taps.touches, weight[:, :, :, level.points], 0.0)
        bound += (4 * total + 8) * (w[..., None] * taps.sample()).sum(axis=3)
        step = largest_step(value, level)[:, None]
        bound += 4 * max(level.width, level.height) * w.sum(axis=3)[..., None] * step
    return bound * 2.0**-24


def largest_step(value, level):
    """The largest difference of neighbouring pixels of a level and the zeros around it, [B,M,D].

    NaN pixels are left out: a result that they reach has no bound."""
    row = np.arange(level.height)[:, None] * level.row_pitch + np.arange(level.width)
    image = value[:, level.first_pixel + row]  # [B,H,W,M,D]
    image = np.pad(image, [(0, 0), (1, 1), (1, 1), (0, 0), (0, 0)])
    steps = [np.abs(np.diff(image, axis=axis)) for axis in (1, 2)]
    return np.fmax(*(np.nanmax(step, axis=(1, 2), initial=0.0) for step in steps))
