"""Tests of the Python package on the library that MSDA_LIBRARY names.

The numbers are held against tests/golden/oracle.py, which shares nothing with the library.
"""

import os
import pathlib
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
sys.path.insert(0, str(GOLDEN))
sys.path.insert(0, str(ROOT / "tests" / "support"))

import libmsda  # noqa: E402

GOLDEN_NAMES = sorted(path.stem for path in GOLDEN.glob("*.npz"))
KERNELS = [kernel.kernel_id for kernel in libmsda.kernels()]
CPU_KERNELS = [kernel.kernel_id for kernel in libmsda.kernels() if kernel.sm_min == 0]


def golden(name):
    with np.load(GOLDEN / f"{name}.npz") as arrays:
        return dict(arrays)


@pytest.fixture
def command():
    """The path of the msda command."""
    path = pathlib.Path(os.environ.get("MSDA_CLI", ROOT / "build" / "release" / "bin" / "msda"))
    if not path.exists():
        pytest.fail(f"{path} does not exist: build it, or set MSDA_CLI")
    return path


@pytest.fixture
def small():
    """Arguments of a small forward call that is right."""
    rng = np.random.default_rng(5)
    return {
        "value": rng.standard_normal((2, 30, 3, 8)).astype(np.float32),
        "level_hw": np.array([[4, 6], [2, 3]]),
        "coord": rng.uniform(-0.2, 1.2, (2, 7, 3, 4, 2)).astype(np.float32),
        "weight": rng.random((2, 7, 3, 4)).astype(np.float32),
    }
