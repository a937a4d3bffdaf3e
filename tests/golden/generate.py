#!/usr/bin/env python3
"""Makes the golden vectors, and checks that the committed ones are what it makes.

    generate.py --check                 every committed file against a fresh computation
    generate.py --out DIR --set extra   writes a set of cases as DIR/<case>.npz

The sets: `golden` is what is committed beside this file, `nearest` in the folder of that name, for
nearest sampling; `extra` has the same form and other shapes. Inputs come from numpy's seeded generator
and are reproduced bit for bit, results from oracle.py to RESULT_TOLERANCE of an array's largest
element. README.md says what each array is.
"""

import argparse
import pathlib
import sys
from dataclasses import dataclass, field

import numpy as np

import oracle

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20260
RESULT_TOLERANCE = 1e-12

# Coordinates of the `at_edges` cases besides every pixel line and pixel centre.
EDGE_COORDS = [0.0, 1.0, 0.5, -0.5, 1.5, 1e-7, 1 - 1e-7, -1e3, 1e3]

PYRAMID = [(12, 14), (6, 7), (3, 4), (2, 2)]
SHRINKING = [(9, 9), (8, 8), (7, 7), (5, 5), (3, 3), (1, 1)]
COARSE = [(14, 14), (7, 7), (4, 4)]


@dataclass
class Case:
    name: str
    level_hw: list
    points: list
    B: int
    M: int
    D: int
    Q: int
    coord_range: tuple = (-0.25, 1.25)
    at_edges: bool = False  # coordinates on pixel lines, weights of any sign
    reference_dim: int = 0  # 2 or 4: a fused case
    shape: tuple = field(init=False)

    def __post_init__(self):
        self.shape = (self.B, self.Q, self.M, sum(self.points))


SETS = {
    "golden": [
        Case("ddetr_test", [(6, 4), (3, 2)], [2, 2], 1, 2, 2, 2, coord_range=(0, 1)),
        Case("encoder_small", PYRAMID, [4] * 4, 2, 8, 32, 24),
        Case("seed_like", PYRAMID, [8] * 4, 3, 1, 32, 37),
        Case("edges", PYRAMID, [4] * 4, 1, 2, 8, 64, at_edges=True),
        Case("ragged_points", COARSE, [3, 6, 3], 1, 8, 32, 19),
        Case("one_level_d16", [(12, 12)], [2], 2, 16, 16, 33),
        *(
            Case(f"head_dim_{d}", [(7, 9), (3, 4)], [4, 4], 1, 3, d, 13)
            for d in (1, 3, 30, 64, 71, 128, 256)
        ),
        Case("six_levels_p1", SHRINKING, [1] * 6, 2, 4, 32, 11),
        Case("fused_ref2", PYRAMID, [4] * 4, 2, 8, 32, 17, reference_dim=2),
        Case("fused_ref4", COARSE, [3, 6, 3], 2, 8, 32, 17, reference_dim=4),
    ],
    "nearest": [
        Case("edges", PYRAMID, [4] * 4, 1, 2, 8, 32, at_edges=True),
        Case("ragged_points", COARSE, [3, 6, 3], 1, 2, 24, 19, coord_range=(-0.5, 1.5)),
        Case("fused_ref2", PYRAMID, [4] * 4, 2, 2, 16, 17, reference_dim=2),
        Case("fused_ref4", COARSE, [3, 6, 3], 2, 2, 16, 17, reference_dim=4),
    ],
    "extra": [
        Case("x_one_pixel", [(1, 1)], [1], 2, 1, 5, 9),
        Case("x_thin_levels", [(1, 13), (11, 1)], [3, 5], 1, 4, 20, 27, at_edges=True),
        Case("x_unused_level", [(8, 6), (4, 3), (2, 2)], [4, 0, 2], 2, 3, 33, 21),
        Case("x_many_points", [(10, 8)], [70], 1, 2, 24, 6),
        Case("x_wide_head", [(5, 6), (3, 3)], [2, 2], 1, 1, 1025, 3),
        Case("x_fused_ref2", [(7, 12), (4, 6)], [5, 3], 2, 5, 40, 14, reference_dim=2),
        Case("x_fused_ref4", [(10, 9), (5, 5), (3, 2)], [1, 4, 7], 1, 6, 17, 19, reference_dim=4),
    ],
}


def eight_bit_numbers(rng, shape):
    """Multiples of 1/64 of at most 8 significant bits: exact in bfloat16 and wider types."""
    return np.clip(np.round(rng.standard_normal(shape) * 48), -255, 255) / 64


def edge_coords(rng, case):
    """Coordinates drawn from EDGE_COORDS and the pixel lines and centres of each point's level."""
    coord = np.empty((*case.shape, 2))
    point_hw = np.repeat(np.asarray(case.level_hw), case.points, axis=0)
    for k, (height, width) in enumerate(point_hw):
        for axis, size in enumerate((width, height)):
            pixels = [(np.arange(size) + 0.5) / size, np.arange(size + 1) / size]
            choices = np.concatenate([EDGE_COORDS, *pixels])
            coord[:, :, :, k, axis] = rng.choice(choices, case.shape[:3])
    return coord


def draw(rng, case):
    """The inputs of a case. The order of the draws is part of the golden vectors."""
    tokens = sum(h * w for h, w in case.level_hw)
    arrays = {
        "level_hw": np.array(case.level_hw, np.int32),
        "points": np.array(case.points, np.int32),
        "value": eight_bit_numbers(rng, (case.B, tokens, case.M, case.D)),
        "grad_output": eight_bit_numbers(rng, (case.B, case.Q, case.M, case.D)),
    }
    if case.reference_dim:
        reference = rng.uniform(0.05, 0.95, (case.B, case.Q, len(case.points), case.reference_dim))
        if case.reference_dim == 4:
            reference[..., 2:] = rng.uniform(0.05, 0.5, reference[..., 2:].shape)
        arrays["reference"] = reference
        arrays["offset"] = 2.5 * rng.standard_normal((*case.shape, 2))
        arrays["logit"] = 3 * rng.standard_normal(case.shape)
        return arrays
    arrays["coord"] = rng.uniform(*case.coord_range, (*case.shape, 2))
    if case.at_edges:
        arrays["coord"] = edge_coords(rng, case)
        arrays["weight"] = rng.standard_normal(case.shape)
    else:
        arrays["weight"] = rng.dirichlet(np.ones(case.shape[3]), case.shape[:3])
    return arrays


def results(arrays, **options):
    """Output and gradients of the inputs in `arrays`, by name."""
    shape = (arrays["value"], arrays["level_hw"], arrays["points"])
    if "coord" in arrays:
        inputs = (arrays["coord"], arrays["weight"])
        names = ("grad_value", "grad_coord", "grad_weight")
        forward, backward = oracle.forward, oracle.backward
    else:
        inputs = (arrays["reference"], arrays["offset"], arrays["logit"])
        names = ("grad_value", "grad_reference", "grad_offset", "grad_logit")
        forward, backward = oracle.forward_fused, oracle.backward_fused
    gradients = backward(*shape, *inputs, arrays["grad_output"], **options)
    return {"output": forward(*shape, *inputs, **options), **dict(zip(names, gradients))}


def make(set_name, seed=SEED):
    """Yields (name, inputs, results) of each case of a set."""
    rng = np.random.default_rng(seed)
    for case in SETS[set_name]:
        inputs = draw(rng, case)
        yield case.name, inputs, results(inputs, nearest=set_name == "nearest")


def kind(array):
    return f"{array.dtype}{list(array.shape)}"


def differences(inputs, computed, stored):
    """One line for everything in which a stored file is not what was made."""
    for name in sorted(set(stored) ^ (set(inputs) | set(computed))):
        yield f"{name}: " + ("not expected" if name in stored else "missing")
    for name, expected in inputs.items():
        if name in stored and (
            stored[name].dtype != expected.dtype
            or stored[name].shape != expected.shape
            or stored[name].tobytes() != expected.tobytes()
        ):
            yield f"{name}: not the same bits as drawn from seed {SEED}"
    for name, expected in computed.items():
        if name not in stored:
            continue
        if stored[name].dtype != np.float64 or stored[name].shape != expected.shape:
            yield f"{name}: {kind(stored[name])}, expected {kind(expected)}"
            continue
        error = np.abs(stored[name] - expected).max(initial=0.0)
        allowed = RESULT_TOLERANCE * np.abs(expected).max(initial=0.0)
        if not error <= allowed:  # a NaN is a difference as well
            yield f"{name}: largest difference {error:.3g}, allowed {allowed:.3g}"


def check():
    """Compares every committed file; returns how many are wrong."""
    folders = {"golden": HERE, "nearest": HERE / "nearest"}
    wrong = 0
    expected_files = set()
    for set_name, folder in folders.items():
        for name, inputs, computed in make(set_name):
            path = folder / f"{name}.npz"
            expected_files.add(path)
            if not path.exists():
                found = ["the file is missing"]
            else:
                found = list(differences(inputs, computed, dict(np.load(path))))
            for line in found:
                print(f"{path.relative_to(HERE)}: {line}")
            wrong += bool(found)
    for path in sorted(set(HERE.rglob("*.npz")) - expected_files):
        print(f"{path.relative_to(HERE)}: made by no case of this generator")
        wrong += 1
    print(f"golden vectors: {len(expected_files)} files, {wrong or 'none'} wrong")
    return wrong


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="check the committed files")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="write a set there")
    parser.add_argument("--set", choices=sorted(SETS), default="golden", dest="set_name")
    parser.add_argument("--seed", type=int, default=SEED, help="for --out (default %(default)s)")
    arguments = parser.parse_args()
    if not arguments.check and arguments.out is None:
        parser.error("nothing to do: give --check or --out DIR")
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        for name, inputs, computed in make(arguments.set_name, arguments.seed):
            np.savez_compressed(arguments.out / f"{name}.npz", **inputs, **computed)
            print(f"{arguments.out / name}.npz")
    return 1 if arguments.check and check() else 0


if __name__ == "__main__":
    sys.exit(main())
