"""msda tune: what it finds, writes and adds to, and that run and bench take it."""

import csv
import json
import re

import pytest

from conftest import on_a_terminal

TITLE = "libmsda tuning records 3\n"
SMALL = ["--levels", "9x7,4x3", "--batch", 2, "--queries", 30, "--points", "3,5"]
QUICK = ["--iterations", 3, "--warmup", 1, "--threads", 2]
TUNE = ["tune", *QUICK, "--budget-ms", 1e12]  # which no clock uses up


def records(path):
    """{(batch, threads, value_dtype): kernel} of a file of records."""
    lines = path.read_text().splitlines(keepends=True)
    assert lines[0] == TITLE
    found = {}
    for line in lines[1:]:
        words = dict(re.findall(r"(\w+)=(\S+)", line))
        found[words["batch"], words["threads"], words["value_dtype"]] = words["kernel"]
    assert len(found) == len(lines) - 1
    return found


def prefer(kernel, path):
    """The records say that this kernel is the fastest."""
    text, count = re.subn(r" kernel=\S+", f" kernel={kernel}", path.read_text())
    path.write_text(text)
    assert count > 0


def kernels(msda_ok, tmp_path, *arguments):
    msda_ok("bench", *arguments, *QUICK, "--flush-mib", 0, "--json", tmp_path / "bench.json")
    report = json.loads((tmp_path / "bench.json").read_text())
    assert all(row["check"]["passed"] for row in report["results"])
    return [row["kernel_id"] for row in report["results"]]


def test_table_and_reports(msda_ok, tmp_path):
    text = msda_ok(
        *(*TUNE, "--workload", "dec,dfine", "--levels", "9x7,4x3", "--points", 4),
        *("--json", tmp_path / "out.json", "--csv", tmp_path / "out.csv"),
    )
    assert "2 threads; 1e+12 ms to choose" in text.splitlines()[0]
    report = json.loads((tmp_path / "out.json").read_text())
    settings = {"threads": 2, "seed": 20260, "budget_ms": 1e12, "warmup": 1, "flush_bytes": 0}
    assert report["settings"] == settings
    rows = report["results"]
    names = ["dec[levels points]", "dfine[levels points]"]
    assert [row["workload"] for row in rows] == names
    table = list(csv.DictReader((tmp_path / "out.csv").open()))
    for row, line in zip(rows, table, strict=True):
        assert row["problem"]["points"] == [4, 4] and row["recorded"] is True
        before, after = row["before"]["time_us"], row["after"]["time_us"]
        assert row["before"]["kernel_id"] == "simd.cpu.f32@2"
        assert len(before["runs"]) == 3 and before["median"] == before["runs"][1] > 0
        if row["after"]["kernel_id"] == row["before"]["kernel_id"]:
            assert after == before and row["speedup"] == 1
        assert row["speedup"] == pytest.approx(before["median"] / after["median"])
        assert line["workload"] == row["workload"] and line["recorded"] == "1"
        assert line["before_id"] == row["before"]["kernel_id"]
        assert line["after_id"] == row["after"]["kernel_id"]
        assert abs(float(line["before_us"]) - before["median"]) <= 0.051
        assert abs(float(line["speedup"]) - row["speedup"]) <= 0.00051
        shown = next(shown for shown in text.splitlines() if shown.startswith(row["workload"]))
        assert shown.endswith("x     yes") and row["after"]["kernel_id"] in shown


def test_a_short_budget_leaves_no_record(msda, tmp_path):
    result = msda("tune", *SMALL, *QUICK, "--budget-ms", 1e-6, "--wisdom", tmp_path / "w.txt")
    assert result.returncode == 0
    assert result.stderr == (
        "note: 1e-06 ms were too short to compare kernels for custom: no record; --budget-ms gives "
        "more\n"
    )
    assert result.stdout.splitlines()[-1].endswith("1.00x      no")
    assert (tmp_path / "w.txt").read_text() == TITLE


def test_records_are_added_to_those_of_the_file(msda_ok, tmp_path):
    wisdom = tmp_path / "tuning.txt"
    msda_ok(*TUNE, *SMALL, "--wisdom", wisdom)
    assert set(records(wisdom)) == {("2", "2", "1")}
    prefer("gone.cpu@1", wisdom)
    # Another problem, type and number of threads: added, the first stays as it was.
    msda_ok(*TUNE, *SMALL, "--dtype", "f16", "--batch", 3, "--wisdom", wisdom)
    msda_ok(*TUNE, *SMALL, "--threads", 1, "--wisdom", wisdom)
    assert set(records(wisdom)) == {("2", "2", "1"), ("3", "2", "2"), ("2", "1", "1")}
    assert records(wisdom)["2", "2", "1"] == "gone.cpu@1"
    assert records(wisdom)["3", "2", "2"] in ("simd.cpu.f16@2", "ref.cpu@1")  # as the machine has it
    # Another run of the same problem replaces it.
    msda_ok(*TUNE, *SMALL, "--wisdom", wisdom)
    assert len(records(wisdom)) == 3
    assert records(wisdom)["2", "2", "1"] in ("simd.cpu.f32@2", "ref.cpu@1")


def test_bench_takes_the_kernel_of_the_records(msda_ok, tmp_path):
    wisdom = tmp_path / "tuning.txt"
    msda_ok(*TUNE, *SMALL, "--wisdom", wisdom)
    prefer("ref.cpu@1", wisdom)
    before = wisdom.read_bytes()
    given = ["--wisdom", wisdom]
    assert kernels(msda_ok, tmp_path, *SMALL) == ["simd.cpu.f32@2"]
    assert kernels(msda_ok, tmp_path, *SMALL, *given) == ["ref.cpu@1"]
    # Not of another problem or type, and not where kernels are named.
    assert kernels(msda_ok, tmp_path, *SMALL, "--batch", 1, *given) == ["simd.cpu.f32@2"]
    assert kernels(msda_ok, tmp_path, *SMALL, "--dtype", "f16", *given) == ["simd.cpu.f16@2"]
    named = ["--kernels", "simd.cpu.f32@2", *given]
    assert kernels(msda_ok, tmp_path, *SMALL, *named) == ["simd.cpu.f32@2"]
    assert wisdom.read_bytes() == before


def test_run_takes_the_kernel_of_the_records(msda_ok, tmp_path):
    wisdom, inputs = tmp_path / "tuning.txt", tmp_path / "in.npz"
    for backward in ([], ["--backward"]):
        msda_ok(*TUNE, *SMALL, *backward, "--wisdom", wisdom)
    prefer("ref.cpu@1", wisdom)
    msda_ok("bench", *SMALL, "--save-inputs", inputs)
    run = ["run", inputs, "--threads", 2, "--check"]
    assert "kernel   simd.cpu.f32@2," in msda_ok(*run)
    assert "kernel   ref.cpu@1," in msda_ok(*run, "--wisdom", wisdom)
    forced = msda_ok(*run, "--wisdom", wisdom, "--kernel", "simd.cpu.f32@2")
    assert "kernel   simd.cpu.f32@2," in forced
    msda_ok("bench", *SMALL, "--backward", "--save-inputs", inputs)
    assert "kernel   ref.cpu@1," in msda_ok(*run, "--backward", "--wisdom", wisdom)


def test_a_wrong_line_is_named_and_the_file_stays(msda, msda_ok, tmp_path):
    wisdom = tmp_path / "tuning.txt"
    msda_ok(*TUNE, *SMALL, "--wisdom", wisdom)
    damaged = wisdom.read_text().replace("batch=2", "batch=two")
    wisdom.write_text(damaged)
    for command in ("tune", "bench"):
        result = msda(command, *SMALL, "--wisdom", wisdom)
        assert result.returncode == 2 and result.stdout == ""
        assert result.stderr == (
            f"msda {command}: error: {wisdom}: msda_tuning_import: text, line 2: batch has 'two': "
            "must be a whole number from -9223372036854775808 to 9223372036854775807\n"
        )
        assert wisdom.read_text() == damaged
    wisdom.write_text("libmsda tuning records 4\n")
    result = msda("tune", *SMALL, "--wisdom", wisdom)
    assert result.returncode == 2 and "this library reads format 3" in result.stderr


def test_progress_bar_only_on_a_terminal(msda_ok):
    arguments = [*TUNE, *SMALL]
    bar, table = on_a_terminal(*arguments)
    assert "custom  making data" in bar and "custom  tuning" in bar
    assert "custom  simd.cpu.f32@2  timing" in bar and bar.endswith("\r\x1b[2K")
    assert "\x1b" not in table
    assert "\x1b" not in msda_ok(*arguments)  # and its stderr is empty
