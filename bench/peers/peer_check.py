"""Whether outputs are right, for the scripts here: the bound that include/msda.h documents, elementwise, and what does
not keep it. Works on arrays of numpy as on those of torch, and needs neither."""

import math

UNIT_ROUNDOFF = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
SMALLEST = {"f32": 2.0**-149, "f16": 2.0**-25, "bf16": 2.0**-134}
# The largest error allowed to peers, whose arithmetic nobody documents, for outputs of magnitude 1, computed from the
# same rounded inputs.
PEER_TOLERANCE = {"f32": 1e-4, "f16": 1e-2, "bf16": 8e-2}
# Rounding may take one point in so many to the other side of a pixel line.
LINES = 200


def largest(array, axes):
    return array.amax(axes) if hasattr(array, "amax") else array.max(axis=axes)


def largest_steps(image):
    """[B,M,D] of [B,M,D,H,W]: the largest difference of neighbouring pixels, the zeros around a level included."""
    edges = (image[..., :1], image[..., -1:], image[..., :1, :], image[..., -1:, :])
    inner = (image[..., 1:] - image[..., :-1], image[..., 1:, :] - image[..., :-1, :])
    found = [largest(abs(part), (-2, -1)) for part in edges + inner if 0 not in part.shape[-2:]]
    steps = found[0]
    for more in found[1:]:
        steps = steps + (more - steps) * (more > steps)
    return steps


def allowed_errors(exact, products, slopes, steps, point_total, output_dtype, fast=False, largest_value=0.0):
    """Of each output element, with products = sum |w c v|, steps = sum |w| dv and slopes = sum |w| max(W, H) dv.
    fast: MSDA_MATH_FAST with values of f16 or f8_e4m3, the largest of them |largest_value|."""
    u = UNIT_ROUNDOFF["f32"]
    allowed = u * ((4 * point_total + 8) * products + 4 * slopes)
    if fast:
        allowed = allowed + 2.0**-11 * (12 * products + 8 * steps) + point_total * 2.0**-22 * (1 + largest_value)
    # Rounding to the type: half a unit in the last place is at most this.
    return allowed + UNIT_ROUNDOFF[output_dtype] * abs(exact) + SMALLEST[output_dtype]


def error_share(output, exact, allowed):
    """The largest error over what is allowed there; infinity where one of them is no number."""
    if 0 in output.shape:
        return 0.0
    share = float((abs(output - exact) / allowed).max())
    return math.inf if math.isnan(share) else share


def gradient_share(gradients, exact, tolerance):
    """As error_share, of gradients by value, coord and weight, and by reference if there are those; errors are relative to
    the largest element. One in LINES of those by coord or reference may be off: the derivative jumps at a pixel line, and
    rounding chooses the side."""
    shares = []
    for found, wanted, is_coord in zip(gradients, exact, (False, True, False, True)):
        # Gradients that are 0 everywhere, as those by the logit of a single point are, allow nothing else.
        allowed = max(float(abs(wanted).max()) * tolerance, 1e-30)
        errors = (abs(found - wanted) / allowed).reshape(-1)
        if is_coord:
            off = int((~(errors <= 1)).sum())  # what is no number too
            shares.append(off * LINES / len(errors))
        else:
            shares.append(float(errors.max()))
    return math.inf if any(math.isnan(share) for share in shares) else max(shares)


def complaint(side, share):
    """None, or what is wrong with a side whose largest error is this fraction of what is allowed."""
    if share <= 1:
        return None
    return f"{side}: the largest error is {share:.3g} times what is allowed"
