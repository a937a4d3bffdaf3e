"""Runs torch-ms-deform-attn's own tests with its operator replaced by libmsda's.

    python tests/peers/torch_ms_deform_attn.py FOLDER       tests/peers/run has the environment that it needs

pip fetches the sdist of tests/peers/torch_ms_deform_attn.txt into FOLDER, by its hash. Nothing of it is compiled: its extension
module is replaced by tests/peers/torch_ms_deform_attn_operator.py. Exit status 1 if a test failed, if one was skipped for
another reason than that there is no GPU, or if one that is to be left out is not there.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
# Tests that are left out, by their name for pytest, and why.
LEFT_OUT = {
    "tests/test_cpu.py::CPUAttentionTest::test_cpu_parallel_workers_honor_thread_count": (
        "a private helper, _cpu_parallel_worker_count, which counts the workers of its own loops"
    ),
    "tests/test_indexing.py": (
        "a private helper, _check_cuda_indexing, which splits a batch for the index types of its own kernels"
    ),
}
NO_GPU = ("Requires CUDA", "Requires GPU", "Requires Metal", "Requires two GPUs")


def pip(*arguments: object, path: object = "") -> None:
    environment = os.environ | {"PYTHONPATH": str(path)}
    subprocess.run([sys.executable, "-m", "pip", *map(str, arguments)], check=True, env=environment)


def fetch(folder: pathlib.Path) -> pathlib.Path:
    """The sdist's sources. pip asks a package's setup.py for its name, so it needs the setuptools that this one needs."""
    shutil.rmtree(folder, ignore_errors=True)
    tools = folder / "setuptools"
    pip("install", "--quiet", "--no-deps", "--target", tools, "setuptools==83.0.0")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--require-hashes")
    pip("download", *options, "--dest", folder, "-r", HERE / "torch_ms_deform_attn.txt", path=tools)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        sources.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def run(sources: pathlib.Path) -> tuple[int, list[xml.etree.ElementTree.Element]]:
    """The exit status of pytest, and the test cases as it writes them into a file for machines."""
    package, report = sources / "src" / "torch_ms_deform_attn", sources / "report.xml"
    shutil.copy(HERE / "torch_ms_deform_attn_operator.py", package / "_C.py")
    path = os.pathsep.join([str(sources / "src"), os.environ["PYTHONPATH"]])
    pytest = [sys.executable, "-m", "pytest", "-q"]
    place = {"cwd": sources, "env": os.environ | {"PYTHONPATH": path}}
    subprocess.run([*pytest, "--collect-only", *LEFT_OUT], check=True, **place)  # they are there
    left_out = [f"--deselect={name}" for name in LEFT_OUT]
    result = subprocess.run([*pytest, f"--junitxml={report}", *left_out, "tests"], check=False, **place)
    return result.returncode, list(xml.etree.ElementTree.parse(report).iter("testcase"))


def main() -> int:
    sources = fetch(pathlib.Path(sys.argv[1]).resolve())
    status, cases = run(sources)
    skipped = {
        f"{case.get('classname')}.{case.get('name')}": case.find("skipped").get("message", "")
        for case in cases
        if case.find("skipped") is not None
    }
    wrong = {name: why for name, why in skipped.items() if not why.startswith(NO_GPU)}
    for name, why in LEFT_OUT.items():
        print(f"left out: {name}: {why}")
    for name, why in wrong.items():
        print(f"FAILED: {name} was skipped: {why}")
    failed = " with failures, which are above" if status else ""
    print(f"{sources.name}: {len(cases) - len(skipped)} ran{failed}, {len(skipped)} skipped, which need a GPU")
    return 1 if status or wrong or len(cases) == len(skipped) else 0


if __name__ == "__main__":
    sys.exit(main())
