"""tests/simt/plant_bugs fails where a bug cannot be planted or is not found: on programs that say what they are told to."""

import dataclasses
import importlib.machinery
import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
RACE = "WARNING: ThreadSanitizer: data race (pid=1)\n"
PASSED = "[doctest] test cases: 1 | 1 passed | 0 failed | 3 skipped\n"


def load():
    loader = importlib.machinery.SourceFileLoader("plant_bugs", str(ROOT / "tests" / "simt" / "plant_bugs"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("plant_bugs", loader))
    loader.exec_module(module)
    return module


@pytest.fixture
def planter(tmp_path, monkeypatch):
    """The script in a folder with one kernel, one bug, and a compiler that makes programs of `printed`."""
    module = load()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "WORK", tmp_path / "work")
    (tmp_path / "kernel.cuh").write_text("store();\nbarrier();\nload();\n")
    unit = module.Unit("program", "object", text="instances")
    bug = module.Bug("no_barrier", "a barrier is missing", "unit", "kernel.cuh", "barrier();\n", "", "case",
                     "tsan order", "data race")
    monkeypatch.setattr(module, "UNITS", {"unit": unit})
    monkeypatch.setattr(module, "BUGS", (bug,))
    module.printed = {"no_barrier": (1, RACE), "sound_unit": (0, PASSED)}

    def build(self, unit, source, copy, log):
        status, text = module.printed[copy.name]
        program = copy / unit.program
        program.write_text(f"#!/bin/sh\nprintf '%s' '{text}'\nexit {status}\n")
        program.chmod(0o755)
        return program

    monkeypatch.setattr(module.Build, "program", build)
    return module


def run(planter, capsys):
    status = planter.main(["--jobs", "1"])
    return status, capsys.readouterr().out


def test_passes_where_the_bug_is_found(planter, capsys):
    status, text = run(planter, capsys)
    assert status == 0
    assert "found by tsan order: TSAN" in text
    assert (planter.WORK / "tsan" / "no_barrier" / "kernel.cuh").read_text() == "store();\nload();\n"


def test_a_bug_that_is_not_found_fails(planter, capsys):
    planter.printed["no_barrier"] = (0, PASSED)
    status, text = run(planter, capsys)
    assert status == 1
    assert "NOT FOUND: the test passes under tsan order" in text


def test_another_message_fails(planter, capsys):
    planter.printed["no_barrier"] = (1, "error while loading shared libraries\n")
    status, text = run(planter, capsys)
    assert status == 1
    assert "tsan order shows something else (exit status 1) than 'data race'" in text


def test_a_test_that_fails_without_a_bug_fails(planter, capsys):
    planter.printed["sound_unit"] = (1, RACE)
    status, text = run(planter, capsys)
    assert status == 1
    assert "without a bug 'case' fails under tsan order" in text


def test_quick_leaves_out_the_run_without_a_bug(planter, capsys):
    planter.BUGS = (dataclasses.replace(planter.BUGS[0], quick=True),)
    planter.printed["sound_unit"] = (1, RACE)
    assert planter.main(["--jobs", "1", "--quick"]) == 0
    assert "1 bugs planted, 0 checks failed" in capsys.readouterr().out


def test_a_filter_that_chooses_no_test_fails(planter, capsys):
    planter.printed["sound_unit"] = (0, "[doctest] test cases: 0 | 0 passed | 0 failed | 4 skipped\n")
    status, text = run(planter, capsys)
    assert status == 1
    assert "no test case is like" in text


@pytest.mark.parametrize("text,times", [("store();\nload();\n", 0), ("barrier();\nbarrier();\n", 2)])
def test_a_text_that_does_not_stand_once_in_the_file_fails(planter, capsys, text, times):
    (planter.ROOT / "kernel.cuh").write_text(text)
    status, text = run(planter, capsys)
    assert status == 1
    assert f"NOT FOUND: kernel.cuh has the text to change {times} times instead of once" in text


def test_an_unknown_name_is_refused(planter):
    with pytest.raises(SystemExit) as refused:
        planter.main(["no_such_bug"])
    assert refused.value.code == 2


@pytest.mark.parametrize("bug", load().BUGS, ids=lambda bug: bug.name)
def test_the_table_of_bugs_fits_the_sources(bug):
    module = load()
    assert bug.unit in module.UNITS
    assert bug.mode in module.MODES
    assert module.planted_text(bug, (ROOT / bug.file).read_text())


def test_the_table_shows_what_is_missed_and_keeps_other_rows(planter, monkeypatch):
    bug = planter.BUGS[0]
    other = dataclasses.replace(bug, name="other", what="another bug")
    monkeypatch.setattr(planter, "BUGS", (bug, other))
    table = planter.ROOT / "seen.csv"
    table.write_text("name\ngone\n")
    planter.write_table([(other, {"asan order": planter.Seen("report", "")})], table)
    planter.write_table([(bug, {"tsan order": planter.Seen("TSAN", ""), "asan order": planter.Seen("", "")})], table)
    assert table.read_text().splitlines() == [
        "name,bug,file,asan order,asan random:1,asan warps:1,tsan order",
        "no_barrier,a barrier is missing,kernel.cuh,-,?,?,TSAN",
        "other,another bug,kernel.cuh,report,?,?,?",
    ]


def test_the_table_has_every_bug_under_every_mode(tmp_path):
    module = load()
    rows = module.read_table(module.SEEN)
    for bug in module.BUGS:
        assert bug.name in rows, "plant_bugs --table NAME writes its row"
        assert rows[bug.name][bug.mode] != module.NOT_SEEN
        assert module.NOT_TRIED not in rows[bug.name].values()
    written = tmp_path / "seen.csv"
    written.write_text(module.SEEN.read_text())
    module.write_table([], written)
    assert written.read_text() == module.SEEN.read_text()
