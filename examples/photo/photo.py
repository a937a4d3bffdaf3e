#!/usr/bin/env python3
"""A photograph through multi-scale deformable attention: identity, average, lens correction.

The photograph's four-level pyramid is the value: two heads of four channels, colour (red, green,
blue, luma) and structure (horizontal and vertical contrast, saturation, local deviation). Every
pixel is a query. Three cases, each computed through the Python package and left as tensors for the
C++ program beside this file and for `msda run --check`:

  identity  one point on level 0, at the query's own pixel: gives the photograph back exactly
  average   fused input: reference points, offsets around them on all four levels, and logits that
            prefer neighbours that look alike, so that edges stay: a neighbourhood average
  lens      sampling locations that undo a pincushion distortion; compared with
            skimage.transform.warp

    photo.py --out DIR            compute, write tensors, .npz files and pictures
    photo.py --out DIR --compare  compare the C++ results in DIR with the Python ones, bit for bit
"""

import argparse
import functools
import importlib.util
import os
import pathlib
import sys
import time

import numpy as np
import skimage.data
import skimage.io
import skimage.transform

import libmsda
import other_ways

LEVELS = 4
HEADS, CHANNELS = 2, 4


def photograph():
    """[512, 512, 3] uint8: Eileen Collins, shipped by scikit-image (NASA, public domain)."""
    return skimage.data.astronaut()


def features(rgb):
    """[H, W, 8] float32 of [H, W, 3] float32: the channels of the two heads."""
    luma = rgb @ np.array([0.299, 0.587, 0.114], np.float32)
    dy, dx = np.gradient(luma)
    saturation = rgb.max(-1) - rgb.min(-1)
    deviation = np.abs(luma - skimage.transform.resize(luma[::4, ::4], luma.shape, order=1))
    structure = np.stack([np.abs(dx), np.abs(dy), saturation, deviation], -1)
    return np.concatenate([rgb, luma[..., None], structure], -1).astype(np.float32)


def pyramid(image):
    """value [1, S, M, D] and level_hw [L, 2]: each level is the 2 x 2 mean of the one before."""
    level, tokens, level_hw = image, [], []
    for _ in range(LEVELS):
        level_hw.append(level.shape[:2])
        tokens.append(level.reshape(-1, HEADS, CHANNELS))
        level = skimage.transform.downscale_local_mean(level, (2, 2, 1)).astype(np.float32)
    return np.concatenate(tokens)[None], np.array(level_hw, np.int32)


def pixel_centres(height, width):
    """[H * W, 2] float32: normalised (x, y) of every pixel, row by row."""
    y, x = np.mgrid[:height, :width].astype(np.float64) + 0.5
    return np.stack([x / width, y / height], -1).reshape(-1, 2).astype(np.float32)


def identity_case(value, level_hw):
    centres = pixel_centres(*level_hw[0])
    coord = np.broadcast_to(centres[None, :, None, None], (1, len(centres), HEADS, 1, 2))
    return dict(
        value=value,
        level_hw=level_hw,
        points=np.array([1, 0, 0, 0], np.int32),
        coord=np.ascontiguousarray(coord),
        weight=np.ones((1, len(centres), HEADS, 1), np.float32),
    )


def average_case(value, level_hw):
    height, width = level_hw[0]
    centres = pixel_centres(height, width)
    points = np.array([8, 4, 2, 2], np.int32)
    # A ring of points on each level, its radius one and a half of that level's pixels.
    level_of_point = np.repeat(np.arange(LEVELS), points)
    turn = (
        np.concatenate([np.arange(n) / n for n in points])
        + 0.5 * level_of_point / points[level_of_point]
    )
    offset = 1.5 * np.stack([np.cos(2 * np.pi * turn), np.sin(2 * np.pi * turn)], -1)
    offset = offset.astype(np.float32)
    luma = value[0, : height * width, 0, 3].reshape(height, width)
    logit = np.empty((1, height * width, HEADS, len(turn)), np.float32)
    for k, level in enumerate(level_of_point):
        place = centres * level_hw[level, ::-1] - 0.5 + offset[k]  # in pixels of the level
        inside = ((place >= 0) & (place <= level_hw[level, ::-1] - 1)).all(-1)
        x, y = np.rint(centres * (width, height) - 0.5 + offset[k] * 2.0**level).astype(int).T
        neighbour = luma[np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)]
        unlike = (neighbour - luma.reshape(-1)) / 0.08
        # Beyond the picture all is zero: such points would darken its edge.
        score = np.where(inside, -(unlike**2) - 0.7 * level, -100)
        logit[0, :, :, k] = score[:, None]
    queries = height * width
    return dict(
        value=value,
        level_hw=level_hw,
        points=points,
        logit=logit,
        reference=np.ascontiguousarray(
            np.broadcast_to(centres[None, :, None], (1, queries, LEVELS, 2))
        ),
        offset=np.ascontiguousarray(np.broadcast_to(offset, (1, queries, HEADS, len(turn), 2))),
    )


def undistorted(centres):
    """Where the pixel of a corrected picture lies in the distorted one: a radial polynomial."""
    centred = centres.astype(np.float64) - 0.5
    radius2 = (centred**2).sum(-1, keepdims=True)
    return 0.5 + centred * (1 + 0.35 * radius2 + 0.25 * radius2**2)


def lens_case(value, level_hw):
    case = identity_case(value, level_hw)
    where = undistorted(pixel_centres(*level_hw[0])).astype(np.float32)
    case["coord"] = np.ascontiguousarray(
        np.broadcast_to(where[None, :, None, None], case["coord"].shape)
    )
    return case


def run(case):
    """output [1, Q, M, D] of a case through the Python package."""
    common = dict(points=case["points"], query_hw=case["level_hw"][:1])
    if "logit" in case:
        return libmsda.forward_fused(
            case["value"],
            case["level_hw"],
            case["reference"],
            case["offset"],
            case["logit"],
            **common,
        )
    return libmsda.forward(case["value"], case["level_hw"], case["coord"], case["weight"], **common)


def colours(output, shape):
    """[H, W, 3] uint8: the first three channels of head 0."""
    rgb = output.reshape(-1, HEADS, CHANNELS)[:, 0, :3]
    # Half up, as lround() in the C++ program; all values are positive.
    return np.floor(np.clip(rgb, 0, 1) * np.float32(255) + 0.5).astype(np.uint8).reshape(*shape, 3)


def write_tensors(case, folder):
    """Raw float32 files and their sizes, for the C++ program."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"queries {case['output'].shape[1]}", f"heads {HEADS}", f"channels {CHANNELS}"]
    lines += ["picture " + " ".join(map(str, case["level_hw"][0]))]
    for name, array in case.items():
        if array.dtype == np.float32:
            array.tofile(folder / f"{name}.bin")
        else:
            lines.append(f"{name} " + " ".join(map(str, array.reshape(-1))))
    if "reference" in case:
        lines.append("reference 2")
    (folder / "case.txt").write_text("\n".join(lines) + "\n")


def check_identity(photo, case):
    assert np.array_equal(
        case["output"].reshape(-1), case["value"][0, : photo[..., 0].size].reshape(-1)
    ), "identity: the features are not given back bit for bit"
    assert np.array_equal(colours(case["output"], photo.shape[:2]), photo), (
        "identity: the photograph is not given back byte for byte"
    )
    print("  identity: the photograph comes back byte for byte, all eight channels bit for bit")


def check_average(photo, case):
    """The mean colour stays, the noise within flat regions goes down, the strong edges stay."""
    before = case["value"][0, : photo[..., 0].size, 0, 3].reshape(photo.shape[:2])
    after = case["output"][0, :, 0, 3].reshape(photo.shape[:2])
    contrast = [np.abs(np.diff(image, axis=1)) for image in (before, after)]
    flat = contrast[0] < np.quantile(contrast[0], 0.75)
    edge = contrast[0] > np.quantile(contrast[0], 0.99)
    calmer = contrast[1][flat].mean() / contrast[0][flat].mean()
    kept = contrast[1][edge].mean() / contrast[0][edge].mean()
    print(
        f"  average: contrast in flat regions x {calmer:.2f}, at strong edges x {kept:.2f}, "
        f"mean {before.mean():.4f} -> {after.mean():.4f}"
    )
    assert calmer < kept and kept > 0.4 and abs(before.mean() - after.mean()) < 0.01


def check_lens(photo, case):
    """Against scikit-image's own bilinear warp of the same map."""
    height, width = photo.shape[:2]
    where = undistorted(pixel_centres(height, width)).reshape(height, width, 2)
    rows_columns = np.stack([where[..., 1] * height - 0.5, where[..., 0] * width - 0.5])
    worst = 0.0
    for c in range(3):
        expected = skimage.transform.warp(
            photo[..., c] / 255.0, rows_columns, order=1, mode="constant", cval=0.0
        )
        error = np.abs(case["output"][0, :, 0, c].reshape(height, width) - expected).max()
        worst = np.maximum(worst, error)  # a NaN stays one
    print(f"  lens: largest difference to skimage.transform.warp {worst:.1e} of full scale")
    assert worst < 2e-4


def seconds(function, runs):
    """The fastest of some runs, and what the last one returned."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def compare_speed(case):
    """One line: the average case by msda and without it, results compared."""
    names = ("value", "level_hw", "reference", "offset", "logit", "points")
    inputs = {name: case[name] for name in names}
    ours, _ = seconds(lambda: run(case), 5)
    others = [("numpy", other_ways.in_numpy, 1)]
    if importlib.util.find_spec("torch"):
        others.append(("torch's grid_sample", other_ways.in_torch, 3))
    texts, worst = [], 0.0
    for name, function, runs in others:
        theirs, output = seconds(functools.partial(function, **inputs), runs)
        worst = max(worst, np.abs(output - case["output"]).max())
        texts.append(f"{theirs / ours:.0f} times as fast as {name} ({theirs * 1e3:.0f} ms)")
    print(
        f"  speed: average takes msda {ours * 1e3:.0f} ms with {os.cpu_count()} threads, "
        f"{', '.join(texts)}; largest difference {worst:.1e}"
    )
    assert worst < 1e-5  # of values up to 1


def detail(picture):
    """An eye and hair, eight times as large: there one sees what is smoothed and what is not."""
    return picture[60:124, 160:224].repeat(8, 0).repeat(8, 1)


def contact_sheet(pictures):
    def row(parts):
        return np.concatenate([np.pad(part, ((0, 8), (0, 8), (0, 0)), constant_values=255) for part in parts], 1)

    return np.concatenate([row(pictures), row(map(detail, pictures))])[:-8, :-8]


def compute(out):
    photo = photograph()
    value, level_hw = pyramid(features((photo / np.float32(255)).astype(np.float32)))
    cases = dict(
        identity=identity_case(value, level_hw),
        average=average_case(value, level_hw),
        lens=lens_case(value, level_hw),
    )
    checks = dict(identity=check_identity, average=check_average, lens=check_lens)
    pictures = []
    for name, case in cases.items():
        case["output"] = run(case)
        checks[name](photo, case)
        pictures.append(colours(case["output"], photo.shape[:2]))
        skimage.io.imsave(out / f"{name}.png", pictures[-1], check_contrast=False)
        np.savez(out / f"{name}.npz", **case, query_hw=level_hw[:1])
        write_tensors(case, out / name)
    compare_speed(cases["average"])
    skimage.io.imsave(out / "photo.png", contact_sheet(pictures), check_contrast=False)
    print(
        f"  pictures in {out}: {', '.join(f'{name}.png' for name in cases)}; photo.png has them all"
    )


def compare(out):
    for name in ("identity", "average", "lens"):
        python, cpp = out / name / "output.bin", out / f"{name}_cpp.bin"
        if python.read_bytes() != cpp.read_bytes():
            sys.exit(f"photo.py: {cpp} differs from {python}")
        if not np.array_equal(
            skimage.io.imread(out / f"{name}.png"), skimage.io.imread(out / f"{name}_cpp.png")
        ):
            sys.exit(f"photo.py: the picture {name}_cpp.png differs from {name}.png")
    print("  C++ and Python agree bit for bit in all three cases")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path("build/photo"),
        help="folder for tensors and pictures (default: %(default)s)",
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        help="compare the C++ program's results with the Python ones",
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    (compare if options.compare else compute)(options.out)


if __name__ == "__main__":
    main()
