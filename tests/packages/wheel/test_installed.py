"""The wheel as pip installs it: in an empty environment and in one with torch and JAX the Python tests run, without the
repository's package.

    pytest tests/packages/wheel/test_installed.py --prefix PREFIX --policy linux_x86_64
"""

import pathlib
import re

import pytest

from conftest import ROOT, clean_environment, environment_beside_torch, passed, python_suite, run


def test_first_use(python, tmp_path):
    """No variable set: the library is the one of the wheel, and types are known to type checkers."""
    code = "import libmsda; print(libmsda.library_path); print(libmsda.__version__)"
    path, version = passed(python, "-c", code, cwd=tmp_path).split()
    assert pathlib.Path(path).name == "libmsda.so.0" and path.startswith(str(python.parents[1]))
    assert (pathlib.Path(path).parents[1] / "py.typed").exists()
    files = passed(python, "-m", "pip", "show", "-f", "libmsda", cwd=tmp_path)
    assert f"\nVersion: {version}\n" in files and "sboms/libmsda.cdx.json" in files
    plugin = passed(python, "-m", "libmsda.onnx", "library", cwd=tmp_path).strip()
    assert plugin == str(pathlib.Path(path).with_name("libmsda_ort.so"))
    for name, function in ("ort", "RegisterCustomOps"), ("trt", "getCreators"), ("jax", "msda_jax_cpu_forward"):
        plugin = str(pathlib.Path(path).with_name(f"libmsda_{name}.so"))
        passed(python, "-c", f"import ctypes; ctypes.CDLL({plugin!r}).{function}", cwd=tmp_path)


def test_commands(python, tmp_path):
    """`msda` and `python -m libmsda` are of one library, and `msda` ends as the program does."""
    build = re.search(r"^build: (.*)$", passed(python, "-m", "libmsda", cwd=tmp_path), re.M)[1]
    command = python.with_name("msda")
    assert build in " ".join(passed(command, "info", cwd=tmp_path).split())
    vector = ROOT / "tests" / "golden" / "edges.npz"
    assert "max error" in passed(command, "run", vector, "--check", "--iterations", "1", "--warmup", "0", cwd=tmp_path)
    refused = run(command, "run", "none.npz", cwd=tmp_path)
    assert (refused.returncode, refused.stderr) == (2, "msda run: error: none.npz does not exist\n")


def test_python_suite(python, tmp_path):
    """The golden vectors through every kernel are among it, and one clear line for wrong libraries and drivers."""
    python_suite(python, tmp_path, python.with_name("msda"))


# ---- with torch and JAX ----


@pytest.fixture(scope="module")
def beside_torch(wheel, tmp_path_factory):
    return environment_beside_torch(wheel, tmp_path_factory.mktemp("beside_torch"))


@pytest.mark.parametrize("tests", ["python", "torch"])
def test_suites_with_torch(beside_torch, tests, tmp_path):
    python, variables = beside_torch
    python_suite(python, tmp_path, python.with_name("msda"), ROOT / "tests" / tests, **variables)


def test_first_lines_of_the_documentation(beside_torch, tmp_path):
    """The first program of docs/python.md, as it is written."""
    page = (ROOT / "docs" / "python.md").read_text()
    program = re.search(r"^```python\n(.*?)^```$", page, re.M | re.S)[1]
    assert "libmsda" in program
    python, variables = beside_torch
    passed(python, "-W", "error", "-c", program, cwd=tmp_path, env=variables)


# ---- removed ----


def test_uninstalls_without_leftovers(wheel, wheelhouse, tmp_path):
    python = clean_environment(tmp_path / "venv", wheelhouse, wheel)
    passed(python, "-c", "import libmsda", cwd=tmp_path)
    passed(python, "-m", "pip", "uninstall", "-q", "-y", "libmsda", cwd=tmp_path)
    assert list((tmp_path / "venv").rglob("*msda*")) == []
