"""Tests of what is in tools/, much of which works on machines that continuous integration has not.

tools/check gpu runs in a copy of the source folder that has nothing but the tools and stubs of the programs that
they run (gpu_stubs).
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from hang import HANG_SECONDS  # noqa: E402

STUBS = ROOT / "tests" / "tools" / "gpu_stubs"
TEST_CASE = re.compile(r'TEST_CASE\(\s*"([^"]*)"\s*\*\s*needs_(gpu\(\)|gpus\(2\))')
PROGRAMS = ("msda_test_unit", "msda_test_contract", "msda_test_kernel", "msda_test_ptx")
SUITES = {"gpu()": "gpu", "gpus(2)": "two gpus"}


def gpu_cases():
    """Program, suite and name of the GPU tests, as the sources have them."""
    cases = []
    for program in PROGRAMS:
        folder = ROOT / "tests" / program.rpartition("_")[2]
        for path in sorted([*folder.glob("*.cpp"), *folder.glob("*.cu")]):
            text = path.read_text()
            found = [(program, SUITES[needs], name) for name, needs in TEST_CASE.findall(text)]
            assert len(found) == len(re.findall(r"\bneeds_gpus?\(", text)), f"{path}: not all names found"
            cases += found
    return cases


class Machine:
    """A machine with a GPU, as far as tools/check gpu can tell."""

    def __init__(self, folder):
        self.folder = folder
        self.results = folder / "build" / "gpu_check"
        self.baseline = folder / "bench" / "baselines" / "h200.csv"
        (folder / "tools").mkdir(parents=True)
        for name in ("check", "measure"):
            shutil.copy(ROOT / "tools" / name, folder / "tools")
        shutil.copytree(ROOT / "tools" / "lib", folder / "tools" / "lib")
        for name in ("python", "torch", "jax", "tensorrt", "onnx", "distributed"):
            (folder / "tests" / name).mkdir(parents=True)
        for name in ("torch", "jax"):
            (folder / "tests" / name / "test_two_gpus.py").touch()
        for program in ("cmake", "nvcc", "nvidia-smi", "compute-sanitizer"):
            self.install(f"build/venv/bin/{program}", STUBS)
        self.install("build/stubs/pytest.py", STUBS.with_name("pytest_stub.py"))
        self.install("build/stubs/onnxruntime.py", STUBS.with_name("onnxruntime_stub.py"))
        self.install("bench/transformers_gpu.py", STUBS.with_name("models_stub.py"))
        for program in ("msda", "msda_soak", "msda_planted_gpu_bugs", *PROGRAMS):
            self.install(f"build/release/bin/{program}", STUBS)
        self.set_cases(gpu_cases())

    def install(self, place, program):
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(program)

    def set_cases(self, cases):
        (self.folder / "cases").write_text("".join("|".join(case) + "\n" for case in cases))

    def run(self, script, *arguments, **variables):
        """Exit status and output of a tool."""
        ours = ("MSDA_", "STUB_", "CUDA_")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        environment |= {"STUB_CASES": str(self.folder / "cases"), "PYTHONPATH": str(self.folder / "build" / "stubs")} | variables
        result = subprocess.run(
            [self.folder / "tools" / script, *map(str, arguments)],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=HANG_SECONDS,
        )
        return result.returncode, result.stdout

    def check(self, *arguments, fault="", **variables):
        """Exit status of tools/check gpu, and what it says in the summary and before it."""
        status, text = self.run("check", "gpu", *arguments, STUB_FAULT=fault, **variables)
        before, _, summary = text.partition("\n==> Summary\n")
        return status, summary, before


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """A CSV of the whole of tools/check gpu bench."""
    machine = Machine(tmp_path_factory.mktemp("measured"))
    status, summary, _ = machine.check("bench")
    assert status == 0
    assert "skipped: the comparison with a baseline: there is no bench/baselines/h200.csv with " in summary
    return machine.results / "bench.csv"


@pytest.fixture
def machine(tmp_path, measured):
    """One that has a baseline of each operation."""
    machine = Machine(tmp_path)
    header, *rows = measured.read_text().splitlines()
    for operation, name in (("forward", "h200.csv"), ("backward", "h200_backward.csv")):
        kept = [header] + [row for row in rows if f",{operation}," in row]
        (tmp_path / "kept.csv").write_text("\n".join(kept) + "\n")
        baseline = machine.baseline.with_name(name)
        status, text = machine.run("measure", "compare", tmp_path / "kept.csv", baseline, "--keep", "one stub")
        assert status == 0, text
    return machine
