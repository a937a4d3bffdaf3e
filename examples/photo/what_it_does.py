#!/usr/bin/env python3
"""Draws what the operator does: docs/operator.png.

One query of one head, on a photograph and on the four levels of its pyramid: the head's points, as large as their
attention weights, and on each level the four pixels that its largest point is interpolated from.

    what_it_does.py [--out FILE] [--photo FILE]
"""

import argparse
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.cbook
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

STRIDES = (8, 16, 32, 64)  # pixels of the photograph a pixel of a level
COLOURS = ("#cc0000", "#b8860b", "#009e73", "#0060c0")
POINTS = 4
REFERENCE = (0.52, 0.36)  # (x, y) of the query, 0 to 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs/operator.png"))
    parser.add_argument("--photo", default=matplotlib.cbook.get_sample_data("grace_hopper.jpg", asfileobj=False),
                        help="a photograph; default: Grace Hopper, which matplotlib ships")
    given = parser.parse_args()
    photo = plt.imread(given.photo)[..., :3].astype(float) / 255
    height, width = (size // STRIDES[-1] * STRIDES[-1] for size in photo.shape[:2])
    photo = photo[:height, :width]

    random = np.random.default_rng(3)
    offsets = random.uniform(-1.6, 1.6, (len(STRIDES), POINTS, 2))  # pixels of the level
    weights = random.dirichlet(np.full(len(STRIDES) * POINTS, 1.5)).reshape(len(STRIDES), POINTS)

    figure = plt.figure(figsize=(9, 3.9), dpi=110, layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=(1.05, 1, 1))
    whole = figure.add_subplot(grid[:, 0])
    whole.imshow(photo, extent=(0, 1, 1, 0), aspect=height / width, alpha=0.75)
    whole.set_title("a query and its 16 points")
    for number, (stride, colour) in enumerate(zip(STRIDES, COLOURS)):
        h, w = height // stride, width // stride
        level = photo.reshape(h, stride, w, stride, 3).mean((1, 3))
        coord = np.array(REFERENCE) + offsets[number] / (w, h)
        whole.scatter(*coord.T, s=1200 * weights[number], color=colour, edgecolors="white", zorder=3)

        axes = figure.add_subplot(grid[number // 2, 1 + number % 2])
        axes.imshow(level, alpha=0.75)
        pixel = coord * (w, h) - 0.5
        first = np.floor(pixel[np.argmax(weights[number])]).astype(int)
        for corner in ((0, 0), (1, 0), (0, 1), (1, 1)):
            axes.add_patch(plt.Rectangle(first + corner - 0.5, 1, 1, fill=False, color="black", linewidth=1.2, zorder=4))
        axes.scatter(*pixel.T, s=1000 * weights[number], color=colour, edgecolors="white", zorder=3)
        axes.plot(*(np.array(REFERENCE) * (w, h) - 0.5), "P", color="white", markeredgecolor="black", markersize=9, zorder=5)
        middle = np.array(REFERENCE) * (w, h) - 0.5
        axes.set_xlim(middle[0] - 3.4, middle[0] + 3.4)
        axes.set_ylim(middle[1] + 2.6, middle[1] - 2.6)
        axes.set_title(f"level {number}: {h} x {w} pixels", fontsize=10, color=colour)
    whole.plot(*REFERENCE, "P", color="white", markeredgecolor="black", markersize=13, zorder=5)
    for axes in figure.axes:
        axes.set_xticks([])
        axes.set_yticks([])
    figure.suptitle("A head's output is the sum of its points: attention weight times the value between four pixels",
                    fontsize=11)
    figure.savefig(given.out)
    octree, no_dither = Image.Quantize.FASTOCTREE, Image.Dither.NONE  # keeps the few pixels of a level's colour
    Image.open(given.out).convert("RGB").quantize(256, octree, dither=no_dither).save(given.out, optimize=True)
    print(f"wrote {given.out}")


if __name__ == "__main__":
    main()
