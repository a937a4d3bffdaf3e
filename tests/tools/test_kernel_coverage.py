"""tools/lib/kernel_coverage.py on reports as gcov writes them."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def line(number, count, instance="f<1>"):
    return {"line_number": number, "count": count, "function_name": instance}


@pytest.fixture
def cover(tmp_path):
    """Runs the script on a folder with one kernel; `lines` are what gcov says of it."""
    kernel = tmp_path / "kernels" / "direct" / "direct.cuh"
    kernel.parent.mkdir(parents=True)
    kernel.write_text("\n" * 20)
    (tmp_path / "host.h").write_text("\n")
    build = tmp_path / "build"
    build.mkdir()

    def run(lines, counted=True):
        report = {"files": [{"file": "../kernels/direct/direct.cuh", "lines": lines},
                            {"file": str(tmp_path / "host.h"), "lines": [line(1, 0)]}]}
        (tmp_path / "report").write_text(json.dumps(report) + "\n")
        gcov = tmp_path / "gcov"
        gcov.write_text(f"#!/bin/sh\ncat '{tmp_path}/report'\n")
        gcov.chmod(0o755)
        if counted:
            (build / "rows.cu.gcda").touch()
        result = subprocess.run([sys.executable, ROOT / "tools" / "lib" / "kernel_coverage.py", tmp_path, build,
                                 "--gcov", gcov], capture_output=True, text=True, check=False)
        return result.returncode, result.stdout

    return run


def test_a_line_counts_where_any_instance_ran_it(cover):
    status, text = cover([line(3, 0, "f<1>"), line(3, 2, "f<2>")])
    assert status == 0
    assert "all: 1 of 1 lines, 100.0 %" in text


def test_lines_that_were_not_run_are_listed(cover):
    status, text = cover([line(3, 1), line(5, 0), line(6, 0), line(9, 0)])
    assert status == 1
    assert "not 5-6, 9" in text
    assert "all: 1 of 4 lines, 25.0 %" in text


def test_too_few_lines_fail(cover):
    status, text = cover([line(n, int(n > 2)) for n in range(1, 11)])
    assert status == 1
    assert "all: 8 of 10 lines, 80.0 %; at least 90 % are asked for" in text


def test_a_build_without_counts_fails(cover):
    status, text = cover([line(3, 1)], counted=False)
    assert status == 1
    assert "has no counts of lines of kernels" in text
