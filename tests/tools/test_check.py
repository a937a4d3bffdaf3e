"""tools/check adds up the seconds of a core and fails above its budget, on a source folder whose set-up and one step are
stubs."""

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


def check(tree, budget=None):
    path = tree / "tools/check"
    text, count = re.subn(r"^readonly budget_core_seconds=\d+", f"readonly budget_core_seconds={budget}", path.read_text(),
                          flags=re.M) if budget is not None else (path.read_text(), 1)
    assert count == 1
    path.write_text(text)
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run([path, STEP], capture_output=True, text=True, env=environment)


def test_within_the_budget(tree):
    result = check(tree)
    assert result.returncode == 0, result.stdout + result.stderr
    used = int(re.search(r"^2 passed, 0 failed;.*; (\d+) seconds of a core of 4800$", result.stdout, re.M)[1])
    assert used >= 3 and "install    passed" in result.stdout


def test_above_the_budget(tree):
    """Fails although every step passed; the steps are named, the longest first."""
    result = check(tree, budget=2)
    assert result.returncode == 1
    found = re.search(r"^FAILED: (\d+) seconds of a core, allowed are 2; docs/build.md .*:\n +(\d+) install\n +(\d+) setup\n",
                      result.stdout, re.M)
    assert found and int(found[1]) == int(found[2]) + int(found[3]) and int(found[2]) >= 2


def test_a_step_that_fails(tree):
    script(tree / "tests/install/run", "false\n")
    result = check(tree)
    assert result.returncode == 1 and "1 passed, 1 failed" in result.stdout and "install    FAILED" in result.stdout


def test_a_set_up_that_fails(tree):
    script(tree / "tools/setup", "false\n")
    result = check(tree)
    assert result.returncode == 1 and "tools/setup check failed" in result.stderr and "Summary" not in result.stdout
