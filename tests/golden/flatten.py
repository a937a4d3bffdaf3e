#!/usr/bin/env python3
"""Writes golden vectors for programs that read no archives.

    flatten.py FOLDER FILE.npz...     FOLDER/FILE.f64 of each

A file is nothing but little-endian float64 numbers: L, B, Q, M, D, the last dimension of `reference` (0 where there is
none), level_hw, points, and then the arrays in the order of NAMES (see README.md), those that the case has.
"""

import pathlib
import sys

import numpy as np

NAMES = ["value", "coord", "weight", "reference", "offset", "logit", "output", "grad_output", "grad_value",
         "grad_coord", "grad_weight", "grad_reference", "grad_offset", "grad_logit"]  # fmt: skip


def flatten(arrays):
    B, Q, M, D = arrays["output"].shape
    reference_dim = arrays["reference"].shape[-1] if "reference" in arrays else 0
    sizes = [len(arrays["points"]), B, Q, M, D, reference_dim]
    parts = [sizes, arrays["level_hw"], arrays["points"], *(arrays[name] for name in NAMES if name in arrays)]
    return np.concatenate([np.asarray(part, "<f8").ravel() for part in parts])


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    for path in map(pathlib.Path, sys.argv[2:]):
        flatten(np.load(path)).tofile(folder / f"{path.stem}.f64")
