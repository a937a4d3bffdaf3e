#!/usr/bin/env python3
"""Makes the golden vectors, and checks that the committed ones are what it makes.

    generate.py --check        every committed file against a fresh computation
    generate.py --write        writes them anew; needs PyTorch (build/torch-venv/bin/python)

The set `golden` is committed beside this file, `nearest` in the folder of that name, for nearest sampling. Each case
has a seeded generator of its own, so its inputs are reproduced bit for bit whatever the other cases are. The results
that --write stores are PyTorch's (with_pytorch.py); --check computes them by oracle.py and wants them to
RESULT_TOLERANCE of an array's largest element. README.md says what each array is.
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

# Kernels that cache levels take 1 or 8 heads of 32 channels and no level of one pixel's width: `seed_like` and
# `encoder_small` are for them.
PYRAMID = [(12, 14), (6, 7), (3, 4), (2, 2)]
SMALL_PYRAMID = [(7, 9), (4, 5), (2, 3), (1, 2)]
TINY_PYRAMID = [(4, 5), (2, 3), (2, 2), (2, 2)]
SHRINKING = [(3, 4), (3, 3), (2, 3), (2, 2), (1, 2), (1, 1)]
COARSE = [(5, 5), (3, 3), (2, 2)]
FEW_PIXELS = [(3, 4), (1, 3)]


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


FOLDERS = {"golden": HERE, "nearest": HERE / "nearest"}
SETS = {
    "golden": [
        Case("ddetr_test", [(6, 4), (3, 2)], [2, 2], 1, 2, 2, 2, coord_range=(0, 1)),
        Case("encoder_small", TINY_PYRAMID, [4] * 4, 1, 8, 32, 3),
        Case("seed_like", TINY_PYRAMID, [8] * 4, 3, 1, 32, 9),
        Case("edges", PYRAMID, [4] * 4, 1, 2, 8, 64, at_edges=True),
        Case("ragged_points", COARSE, [3, 6, 3], 1, 4, 32, 7),
        Case("one_level_d16", [(3, 5)], [2], 2, 8, 16, 7),
        *(Case(f"head_dim_{d}", FEW_PIXELS, [4, 4], 1, 3, d, 7) for d in (1, 3, 30, 64, 71)),
        *(Case(f"head_dim_{d}", FEW_PIXELS, [4, 4], 1, 2, d, 5) for d in (128, 256)),
        Case("six_levels_p1", SHRINKING, [1] * 6, 2, 2, 32, 11),
        Case("fused_ref2", SMALL_PYRAMID, [4] * 4, 1, 2, 32, 13, reference_dim=2),
        Case("fused_ref4", COARSE, [3, 6, 3], 2, 2, 32, 7, reference_dim=4),
    ],
    "nearest": [
        Case("edges", PYRAMID, [4] * 4, 1, 2, 8, 32, at_edges=True),
        Case("ragged_points", COARSE, [3, 6, 3], 1, 2, 24, 19, coord_range=(-0.5, 1.5)),
        Case("fused_ref2", TINY_PYRAMID, [4] * 4, 2, 2, 16, 9, reference_dim=2),
        Case("fused_ref4", COARSE, [3, 6, 3], 2, 2, 16, 9, reference_dim=4),
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


def results(arrays, is_nearest=False):
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
    gradients = backward(*shape, *inputs, arrays["grad_output"], nearest=is_nearest)
    return {"output": forward(*shape, *inputs, nearest=is_nearest), **dict(zip(names, gradients))}


def make(set_name, compute=results):
    """Yields (path, inputs, results) of each case of a set; compute(inputs, is_nearest) gives the results."""
    for case in SETS[set_name]:
        path = FOLDERS[set_name] / f"{case.name}.npz"
        inputs = draw(np.random.default_rng([SEED, *path.relative_to(HERE).as_posix().encode()]), case)
        yield path, inputs, compute(inputs, set_name == "nearest")


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
    wrong = 0
    expected_files = set()
    for set_name in SETS:
        for path, inputs, computed in make(set_name):
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


def write():
    """Writes every file anew, with PyTorch's results."""
    import with_pytorch  # here, since --check does without PyTorch

    for set_name in SETS:
        for path, inputs, computed in make(set_name, with_pytorch.results):
            np.savez_compressed(path, **inputs, **computed)
            print(f"{path.relative_to(HERE)}: {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="check the committed files")
    action.add_argument("--write", action="store_true", help="write them anew")
    if parser.parse_args().check:
        return 1 if check() else 0
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
