"""tools/check adds up the seconds of a core and fails a quarter above its budget, on a source folder whose set-up and one
step are stubs."""

import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT

BUSY = "python3 -c 'import time\nwhile time.process_time() < {}: pass'\n"
STEP = "install"  # runs tests/install/run, with the release build


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\nset -e\n{text}")
    path.chmod(0o755)


@pytest.fixture
def tree(tmp_path):
    for folder in ("tools", "tools/lib"):
        (tmp_path / folder).mkdir()
    shutil.copy2(ROOT / "tools/check", tmp_path / "tools")
    shutil.copy2(ROOT / "tools/lib/common.sh", tmp_path / "tools/lib")
    script(tmp_path / "tools/setup", BUSY.format(0.6))
    script(tmp_path / "build/release/bin/msda", "")
    # A process of a process, and one beside it.
    script(tmp_path / "tests/install/run", f"({BUSY.format(1.2)}) &\nbash -c \"$0.child\"\nwait\n")
    script(tmp_path / "tests/install/run.child", BUSY.format(1.2))
    return tmp_path


def check(tree, *steps, **budgets):
    path = tree / "tools/check"
    text = path.read_text()
    for name, budget in budgets.items():
        text, count = re.subn(rf"\b{name}=\d+", f"{name}={budget}", text)
        assert count == 1
    path.write_text(text)
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment["MSDA_CUDA"] = "OFF"
    return subprocess.run([path, *(steps or [STEP])], capture_output=True, text=True, env=environment)


def test_within_the_budget(tree):
    result = check(tree)
    assert result.returncode == 0, result.stdout + result.stderr
    pattern = r"^2 passed, 0 failed;.*; (\d+) seconds of a core of 5200, and 0 of 1300 for front ends$"
    used = int(re.search(pattern, result.stdout, re.M)[1])
    assert used >= 3 and "install    passed" in result.stdout


def test_above_the_budget(tree):
    """Fails although every step passed; the steps are named, the longest first."""
    result = check(tree, budget_core_seconds=2)
    assert result.returncode == 1
    found = re.search(r"; (\d+) seconds of a core of 2, .*\nFAILED: more .*:\n +(\d+) install\n +(\d+) setup\n", result.stdout)
    assert found and int(found[1]) == int(found[2]) + int(found[3]) and int(found[2]) >= 2


def test_within_the_tolerance(tree):
    result = check(tree, budget_core_seconds=2, tolerance_per_cent=900)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"^within the tolerance of 900 %: more .*:\n +\d+ install\n", result.stdout, re.M), result.stdout


def test_slow_cores_have_as_much_more(tree):
    script(tree / "build/venv/bin/python", "echo 500\n")  # milliseconds of the loop, twice as many as a core of its own takes
    result = check(tree, budget_core_seconds=3)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"takes 250 ms for a loop; here it takes 500\.\n.* seconds of a core of 6, and 0 of 2600", result.stdout)


def test_front_ends_have_a_budget_of_their_own(tree):
    script(tree / "build/venv/bin/python", BUSY.format(2.2))
    within = check(tree, "python", budget_core_seconds=1)
    assert within.returncode == 0, within.stdout + within.stderr
    assert re.search(r"; 1 seconds of a core of 1, and [2-9] of 1300 for front ends\n", within.stdout)
    above = check(tree, "python", budget_front_ends=1)
    assert above.returncode == 1 and "FAILED: more seconds" in above.stdout


def test_a_step_beside_is_counted_once(tree):
    """The shell adds the time of a job that has ended to what it waits for; a step's time has that of no other."""
    script(tree / "build/venv/bin/python", BUSY.format(1.8))  # twice for `generated`, which runs beside
    wait = "while [[ ! -e build/check/generated.result ]]; do sleep 0.1; done\nsleep 1\n"
    script(tree / "tests/install/run", BUSY.format(1.2) + wait)
    result = check(tree, STEP, "generated")
    used = dict(re.findall(r"^(\w+) +passed.* (\d+) of a core", result.stdout, re.M))
    assert int(used["install"]) <= 2 and int(used["generated"]) >= 3, result.stdout


def test_the_last_steps_are_taken_by_who_is_free(tree):
    """jax runs beside install, which waits for its result, when what runs beside has ended; and once."""
    script(tree / "tools/lib/python_env", "")
    script(tree / "build/torch-venv/bin/python", "")
    script(tree / "build/jax-venv/bin/python", "echo >>jax.calls\n")
    wait = "while [[ ! -e build/check/{}.result ]]; do sleep 0.1; done\n"
    script(tree / "build/venv/bin/python", f"[[ $* != *generate* ]] || {wait.format('torch')}")
    script(tree / "tests/install/run", f"timeout 60 bash -c '{wait.format('jax')}'\n")
    result = check(tree, "torch", "install", "jax", "generated")
    assert result.returncode == 0 and "5 passed, 0 failed" in result.stdout, result.stdout + result.stderr
    assert len((tree / "jax.calls").read_text().splitlines()) == 2  # one run of jax's step


def test_a_step_that_fails(tree):
    script(tree / "tests/install/run", "false\n")
    result = check(tree)
    assert result.returncode == 1 and "1 passed, 1 failed" in result.stdout and "install    FAILED" in result.stdout


def test_a_set_up_that_fails(tree):
    script(tree / "tools/setup", "false\n")
    result = check(tree)
    assert result.returncode == 1 and "tools/setup check failed" in result.stderr and "Summary" not in result.stdout
