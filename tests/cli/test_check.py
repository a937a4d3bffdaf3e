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
