"""A wrong kernel is caught: by `run --check`, and by `bench` before it times anything."""

import json
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest

from conftest import GOLDEN, ROOT, Held

BUGS = ["slightly off", "not a number", "nothing written"]


@pytest.fixture(scope="session")
def planted_bug(tmp_path_factory):
    library = tmp_path_factory.mktemp("planted") / "planted_bug.so"
    subprocess.run(
        [
            os.environ.get("CC", "cc"),
            "-shared",
            "-fPIC",
            f"-I{ROOT / 'include'}",
            "-o",
            library,
            ROOT / "tests/cli/planted_bug.c",
            "-ldl",
        ],
        check=True,
    )
    return library


@pytest.mark.parametrize("bug", BUGS)
def test_run(msda, planted_bug, bug):
    arguments = ["run", GOLDEN / "encoder_small.npz", "--dtype", "f32", "--check"]
    good = msda(*arguments, env={"LD_PRELOAD": str(planted_bug)})
    assert good.returncode == 0, good.stderr
    bad = msda(*arguments, env={"LD_PRELOAD": str(planted_bug), "PLANTED_BUG": bug})
    assert bad.returncode == 1
    assert bad.stdout.splitlines()[-1].endswith("of the bound: FAILED")


def test_run_with_attention(msda, planted_bug):
    arguments = ["run", GOLDEN / "fused_ref2.npz", "--dtype", "f32", "--check", "--attention"]
    good = msda(*arguments, env={"LD_PRELOAD": str(planted_bug)})
    assert good.returncode == 0, good.stderr
    assert " against ref.cpu@1 and a float64 softmax: " in good.stdout
    bad = msda(*arguments, env={"LD_PRELOAD": str(planted_bug), "PLANTED_BUG": "attention slightly off"})
    assert bad.returncode == 1 and "attention[0,0,0,5] is " in bad.stderr


@pytest.mark.parametrize("bug", BUGS)
def test_bench(msda, planted_bug, tmp_path, bug):
    result = msda(
        "bench",
        "--levels",
        "9x7,4x3",
        "--queries",
        3,
        "--iterations",
        3,
        "--kernels",
        "all",
        "--json",
        tmp_path / "out.json",
        "--csv",
        tmp_path / "out.csv",
        env={"LD_PRELOAD": str(planted_bug), "PLANTED_BUG": bug},
    )
    assert result.returncode == 1
    rows = json.loads((tmp_path / "out.json").read_text())["results"]
    passed = {row["kernel_id"]: row["check"]["passed"] for row in rows}
    assert passed == {"ref.cpu@1": True, "simd.cpu.f32@2": False}
    assert [row["kernel_id"] for row in rows if "time_us" in row] == ["ref.cpu@1"]
    assert "FAILED" in result.stdout


# Batch item 1 of 3 is never in a sample, which is of the first and the last.
LATE = ["bench", "--levels", "9x7,4x3", "--batch", 3, "--queries", 100, "--iterations", 3]
LATE_ELEMENT = ((1 * 100 + 98) * 8 + 7) * 32 + 31


def late(msda, planted_bug, bug, *arguments, element=LATE_ELEMENT):
    planted = {"PLANTED_BUG": bug, "PLANTED_ELEMENT": str(element)}
    return msda(*LATE, *arguments, env={"LD_PRELOAD": str(planted_bug), **planted})


@pytest.mark.parametrize("bug", ["slightly off", "not a number"])
def test_one_wrong_element_of_the_whole(msda, planted_bug, tmp_path, bug):
    sample = late(msda, planted_bug, bug)
    assert sample.returncode == 0, sample.stderr  # and the table says that it is a sample
    assert "32.8 k of 76.8 k" in sample.stdout
    csv = ["--csv", tmp_path / "out.csv", "--json", tmp_path / "out.json"]
    whole = late(msda, planted_bug, bug, "--check", "all", *csv)
    assert whole.returncode == 1
    words = whole.stderr.split(": ")
    assert words[:3] == ["msda bench", "custom", "simd.cpu.f32@2"]
    assert words[3].startswith("output[1,98,7,31] is ") and ", exact " in words[3]
    assert whole.stderr.endswith("; wrong elements: 1\n")
    row = json.loads((tmp_path / "out.json").read_text())["results"][0]
    assert not row["check"]["passed"] and "time_us" not in row
    assert row["check"]["wrong"] in whole.stderr
    share = (tmp_path / "out.csv").read_text().splitlines()[1].split(",")[-3]
    assert float(share) > 1
    assert "FAILED" in whole.stdout


def test_every_unwritten_element_is_counted(msda, planted_bug):
    result = late(msda, planted_bug, "nothing written", "--check", "all", element=0)
    assert result.returncode == 1
    assert "output[0,0,0,0] is nan, exact " in result.stderr
    assert result.stderr.endswith("; wrong elements: 76800\n")


# The last row is in the sample, whose own results have fewer elements.
@pytest.mark.parametrize(
    ("bug", "element", "words"),
    [
        ("wrong reference", 76799, "the sample's output[1,63,7,31] is "),
        ("unfinished reference", LATE_ELEMENT, "output[1,98,7,31] is nan, which finite inputs"),
    ],
)
def test_a_wrong_reference(msda, planted_bug, bug, element, words):
    result = late(msda, planted_bug, bug, "--check", "all", element=element)
    assert result.returncode == 1
    start = "msda bench: custom: simd.cpu.f32@2: the reference ref.cpu@1 is wrong itself: "
    assert result.stderr.startswith(start + words)


def test_run_names_the_wrong_element(msda, planted_bug):
    bad = msda(
        *["run", GOLDEN / "encoder_small.npz", "--dtype", "f32", "--check"],
        env={"LD_PRELOAD": str(planted_bug), "PLANTED_BUG": "slightly off"},
    )
    assert bad.stderr.startswith("msda run: simd.cpu.f32@2: output[0,0,0,5] is ")


# ---- parts: a large problem is checked a part at a time
def problem(rng, level_hw, queries, heads, channels, points, value=np.float32, coord=np.float32, fused=False):
    """A forward and backward problem; points keep away from pixel lines, where derivatives jump."""
    level_hw = np.array(level_hw, np.int32)
    rows = (1, queries, heads, points * len(level_hw))
    sizes = np.repeat(level_hw[:, ::-1], points, 0)
    pixels = np.floor(rng.random((*rows, 2), np.float32) * sizes) + np.float32(0.25)
    drawn = rng.integers(-112, 113, (1, int(level_hw.prod(1).sum()), heads, channels), np.int8)
    if fused:  # of one level: offsets are whole pixels
        reference = (np.floor(rng.random((1, queries, 1, 2), np.float32) * sizes[0]) + 0.75) / sizes[0]
        inputs = {
            "reference": reference.astype(np.float32),
            "offset": rng.integers(-3, 4, (*rows, 2)).astype(np.float32),
            "logit": rng.random(rows, np.float32),
        }
    else:
        inputs = {
            "coord": ((pixels + 0.5) / sizes).astype(coord),
            "weight": rng.random(rows, np.float32).astype(coord),
        }
    return inputs | {
        "level_hw": level_hw,
        "points": np.full(len(level_hw), points, np.int32),
        "value": (drawn & 0x7F).view("V1") if value == "f8" else drawn.astype(value) / value(16),
        "grad_output": rng.integers(-8, 9, (1, queries, heads, channels), np.int8).astype(np.float32),
    }


# What is large: the sizes of a problem of 16 MiB or more.
LARGE = {
    "value, one channel": {"level_hw": [(4096, 4096)], "queries": 3, "heads": 1, "channels": 1, "value": "f8"},
    "value, one head": {"level_hw": [(400, 640)], "queries": 9, "heads": 1, "channels": 32, "value": np.float16},
    "value": {"level_hw": [(128, 128), (8, 8)], "queries": 9, "heads": 8, "channels": 32},
    "coord": {"level_hw": [(8, 8)], "queries": 20000, "heads": 8, "channels": 3},
    "coord in f16": {"level_hw": [(8, 8)], "queries": 40000, "heads": 8, "channels": 3, "coord": np.float16},
    "fused": {"level_hw": [(64, 64)], "queries": 30000, "heads": 8, "channels": 8, "fused": True},
    "output": {"level_hw": [(4, 4)], "queries": 8000, "heads": 1, "channels": 512},
}


def peak_bytes(folder, *words):
    """The memory that the command had taken when it wrote its results."""
    held = Held(folder, *words)
    status = pathlib.Path(f"/proc/{held.process.pid}/status").read_text()
    assert held.finish() == (0, "")
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1])


@pytest.mark.parametrize("backward", [[], ["--backward"]], ids=["forward", "backward"])
@pytest.mark.parametrize("large", LARGE)
def test_memory_of_a_check(tmp_path, large, backward):
    """At most twice the file and the results, beside what the run alone takes.

    One channel of one head is the smallest part: its value, its exact gradient and the sum of
    ref.cpu@1 take 17 bytes a token of f8, which is more where nothing else is in the file.
    """
    np.savez(tmp_path / "in.npz", **problem(np.random.default_rng(1), points=2, **LARGE[large]))
    kernel = f"simd.cpu.{ {'f8': 'f8@1', np.float16: 'f16@2'}.get(LARGE[large].get('value'), 'f32@2')}"
    words = ("run", "in.npz", "--iterations", 1, "--warmup", 0, "--kernel", kernel, "--output", "o.npz", *backward)
    without, with_check = (peak_bytes(tmp_path, *words, *check) for check in ([], ["--check"]))
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    tokens = sum(height * width for height, width in LARGE[large]["level_hw"])
    assert with_check - without <= max(2 * size, 18 * tokens)


@pytest.mark.parametrize(
    ("large", "backward", "element", "name"),
    [
        ("output", [], 8000 * 512 - 1, "output[0,7999,0,511]"),
        ("coord", [], 20000 * 24 - 1, "output[0,19999,7,2]"),
        ("value", [], 9 * 256 - 1, "output[0,8,7,31]"),
        ("value", ["--backward"], 9 * 256 - 1, "grad_value[0,8,7,31]"),
        ("coord", ["--backward"], 64 * 24 - 1, "grad_value[0,63,7,2]"),
    ],
)
def test_a_wrong_element_of_the_last_part(msda, planted_bug, tmp_path, large, backward, element, name):
    arrays = problem(np.random.default_rng(1), points=2, **LARGE[large])
    np.savez(tmp_path / "in.npz", **arrays)
    bug = {"PLANTED_BUG": "not a number", "PLANTED_ELEMENT": str(element)}
    result = msda(
        *("run", tmp_path / "in.npz", "--iterations", 1, "--kernel", "simd.cpu.f32@2", "--check", *backward),
        env={"LD_PRELOAD": str(planted_bug), **bug},
    )
    assert result.returncode == 1
    assert f": {name} is nan, exact " in result.stderr
    assert result.stderr.endswith("; wrong elements: 1\n")
