"""How bench/transformers_gpu.py compares gradients, and that it runs without a GPU."""

import json
import math
import pathlib
import subprocess
import sys

import pytest
import torch

BENCH = pathlib.Path(__file__).parents[2] / "bench"
sys.path.append(str(BENCH))
from transformers_gpu import distances  # noqa: E402


def gradients():
    make = torch.Generator().manual_seed(3)
    scales = {"anchors": 1e12, "layer": 1.0, "other": 3.0, "rounding": 1e-7}
    return {name: scale * torch.randn(50, generator=make) for name, scale in scales.items()}


def test_a_small_gradient_counts_beside_a_large_one():
    wanted, found = gradients(), gradients()
    assert set(distances(found, wanted).values()) == {0}
    found["layer"][7] += 0.05 * found["layer"].abs().max()
    found["rounding"] *= -1  # of a gradient that is 0 but for rounding
    differs = distances(found, wanted)
    assert differs["layer"] == pytest.approx(0.05, rel=1e-5) and differs["anchors"] == differs["other"] == 0
    assert 0 < differs["rounding"] < 1e-4


@pytest.mark.parametrize("value", [math.nan, math.inf, torch.finfo(torch.float32).max])
def test_what_is_no_number_must_be_so_in_both(value):
    wanted, found = gradients(), gradients()
    found["layer"][7] = value
    assert distances(found, wanted)["layer"] == math.inf
    wanted["layer"][7] = value
    assert set(distances(found, wanted).values()) == {0}


def test_the_module_is_measured_on_the_cpu(tmp_path):
    words = ["module", "--device", "cpu", "--small", "--rounds", "1", "--json", str(tmp_path / "found.json")]
    run = subprocess.run([sys.executable, BENCH / "transformers_gpu.py", *words], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    rows = json.loads((tmp_path / "found.json").read_text())["figures"]["module"]["rows"]
    errors = {row["side"]: row["error, gradients"] for row in rows}
    assert {"stock", "compat", "module"} <= set(errors) and all(0 < error < 1 for error in errors.values())
