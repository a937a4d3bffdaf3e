"""A wrong kernel is caught: by `run --check`, and by `bench` before it times anything."""

import json
import os
import subprocess

import pytest

from conftest import GOLDEN, ROOT

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
    arguments = ["run", GOLDEN / "edges.npz", "--dtype", "f32", "--check"]
    good = msda(*arguments, env={"LD_PRELOAD": str(planted_bug)})
    assert good.returncode == 0, good.stderr
    bad = msda(*arguments, env={"LD_PRELOAD": str(planted_bug), "PLANTED_BUG": bug})
    assert bad.returncode == 1
    assert bad.stdout.splitlines()[-1].endswith("of the bound: FAILED")


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
    assert passed == {"ref.cpu@1": True, "simd.cpu.f32@1": False}
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
    assert words[:3] == ["msda bench", "custom", "simd.cpu.f32@1"]
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
    start = "msda bench: custom: simd.cpu.f32@1: the reference ref.cpu@1 is wrong itself: "
    assert result.stderr.startswith(start + words)


def test_run_names_the_wrong_element(msda, planted_bug):
    bad = msda(
        *["run", GOLDEN / "edges.npz", "--dtype", "f32", "--check"],
        env={"LD_PRELOAD": str(planted_bug), "PLANTED_BUG": "slightly off"},
    )
    assert bad.stderr.startswith("msda run: simd.cpu.f32@1: output[0,0,0,5] is ")
