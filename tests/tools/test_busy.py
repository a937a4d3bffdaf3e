"""tools/check busy: processes spin beside the command, which runs so often, and end with it."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Leaves the ids of the processes that were started beside it, a line a run.
NOTE_OTHERS = """
import os, pathlib, sys
others = []
for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
    try:
        parent = path.read_text().rpartition(")")[2].split()[1]
    except OSError:  # it has ended
        continue
    if parent == str(os.getppid()) and path.parent.name != str(os.getpid()):
        others.append(path.parent.name)
with open(sys.argv[1], "a") as file:
    print(*others, file=file)
sys.exit(int(sys.argv[2]))
"""


def busy(tmp_path, *options, status=0):
    """Exit status of tools/check busy, and the spinning processes that each run had beside it."""
    notes = tmp_path / "notes"
    command = [ROOT / "tools/check", "busy", *options, sys.executable, "-c", NOTE_OTHERS, notes, str(status)]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.returncode, [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []


def has_ended(process):
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    return False


def test_processes_spin_beside_each_run_and_end(tmp_path):
    status, runs = busy(tmp_path, "--spinners", "3", "--times", "2")
    assert status == 0 and len(runs) == 2
    assert len(runs[0]) == 3 and set(runs[0]) == set(runs[1])
    patience = time.process_time() + 10  # of a core
    while not all(map(has_ended, runs[0])) and time.process_time() < patience:
        pass
    assert all(map(has_ended, runs[0]))


def test_the_first_run_that_fails_ends_it(tmp_path):
    status, runs = busy(tmp_path, "--spinners", "1", status=7)
    assert status == 7 and len(runs) == 1


@pytest.mark.parametrize("options", [("--spinners", "0"), ("--times", "many"), ("--times",), ("--slowly", "1")])
def test_wrong_options_are_refused(tmp_path, options):
    status, runs = busy(tmp_path, *options)
    assert status == 1 and runs == []
