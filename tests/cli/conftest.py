"""Tests of the `msda` command as its users meet it: arguments, files, exit codes, what it prints.

The binary is $MSDA_CLI, or that of the release preset.
"""

import fcntl
import os
import pathlib
import pty
import subprocess
import sys
import time

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
sys.path.insert(0, str(GOLDEN))
sys.path.insert(0, str(ROOT / "tests" / "support"))
import oracle  # noqa: E402, F401 -- tests/golden/oracle.py, for the tests
from hang import HANG_SECONDS  # noqa: E402

VARIABLES = ("BATCH_SIZE", "NUM_QUERY", "CHANNELS", "NUM_ITERATIONS")


def binary():
    return pathlib.Path(os.environ.get("MSDA_CLI", ROOT / "build" / "release" / "bin" / "msda"))


@pytest.fixture
def msda():
    """Runs the command; of the variables that it reads the environment has only those given."""
    if not binary().exists():
        pytest.fail(f"{binary()} does not exist: build it, or set MSDA_CLI")

    def run(*arguments, env=None, **options):
        environment = {k: v for k, v in os.environ.items() if k not in VARIABLES}
        environment.update(env or {})
        options.setdefault("stdout", subprocess.PIPE)
        return subprocess.run(
            [binary(), *map(str, arguments)],
            env=environment,
            text=True,
            stderr=subprocess.PIPE,
            timeout=HANG_SECONDS,
            **options,
        )

    return run


@pytest.fixture
def msda_ok(msda):
    """The same, for commands that must succeed without a word on stderr."""

    def run(*arguments, **options):
        result = msda(*arguments, **options)
        assert result.returncode == 0, result.stderr
        assert result.stderr == ""
        return result.stdout

    return run


def on_a_terminal(*arguments):
    """What the command writes to a stderr that is a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [binary(), *map(str, arguments)], stdout=subprocess.PIPE, stderr=theirs
    )
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65536):
            written += chunk
    except OSError:  # the other end was closed
        pass
    os.close(ours)
    assert process.wait() == 0
    return written.decode(), process.stdout.read().decode()


class Held:
    """A command that has done its work and written its files, but cannot print: nobody reads it."""

    def __init__(self, folder, *words):
        read, write = os.pipe()
        size = fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        os.write(write, bytes(size))
        self.pipe = os.fdopen(read, "rb")
        before = set(os.listdir(folder))
        self.process = subprocess.Popen(
            [binary(), *map(str, words)], cwd=folder, stdout=write, stderr=subprocess.PIPE
        )
        os.close(write)
        while set(os.listdir(folder)) == before:  # it has a file to write
            assert self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.01)

    def finish(self):
        """Reads the report; returns the exit code and what was on stderr."""
        self.pipe.read()
        return self.process.wait(), self.process.stderr.read().decode()


def golden(name):
    with np.load(GOLDEN / f"{name}.npz") as arrays:
        return dict(arrays)


def usual_names(arrays):
    """The same problem by the five usual names; every level has the same number of points."""
    levels = len(arrays["level_hw"])
    points = int(arrays["points"][0])
    coord, weight = arrays["coord"], arrays["weight"]
    sizes = arrays["level_hw"].astype(np.int64)
    return {
        "value": arrays["value"],
        "spatial_shapes": sizes,
        "level_start_index": np.concatenate([[0], np.cumsum(sizes.prod(1))[:-1]]),
        "sampling_locations": coord.reshape(*coord.shape[:3], levels, points, 2),
        "attention_weights": weight.reshape(*weight.shape[:3], levels, points),
    }


def with_border(value, level_hw):
    """value [B, S, M, D] with a border of one zero pixel around each level."""
    parts, start = [], 0
    for h, w in level_hw:
        level = value[:, start : start + h * w].reshape(value.shape[0], h, w, *value.shape[2:])
        level = np.pad(level, ((0, 0), (1, 1), (1, 1), (0, 0), (0, 0)))
        parts.append(level.reshape(value.shape[0], -1, *value.shape[2:]))
        start += h * w
    return np.concatenate(parts, 1)


def write_folder(folder, arrays, value_type=np.float16, sampling_type=np.float32):
    """The five arrays, and grad_output if there is one, as raw files."""
    folder.mkdir(exist_ok=True)
    types = {
        "value": value_type,
        "grad_output": value_type,
        "sampling_locations": sampling_type,
        "attention_weights": sampling_type,
    }
    for name, array in arrays.items():
        array.astype(types.get(name, np.int64)).tofile(folder / f"{name}.bin")


def old_contract(seed=1, batch=3, queries=5):
    """Bordered f16 values of one head of 32 channels, 8 points a level, as the old programs had."""
    rng = np.random.default_rng(seed)
    level_hw = np.array([[4, 6], [2, 3]], np.int64)
    value = rng.integers(-99, 99, (batch, 30, 1, 32)) / 16
    starts = np.array([0, 6 * 8])
    return {
        "value": with_border(value, level_hw),
        "spatial_shapes": level_hw,
        "level_start_index": starts,
        "sampling_locations": rng.uniform(-0.1, 1.1, (batch, queries, 1, 2, 8, 2)).astype(
            np.float32
        ),
        "attention_weights": rng.dirichlet(np.ones(16), (batch, queries, 1))
        .astype(np.float32)
        .reshape(batch, queries, 1, 2, 8),
    }
