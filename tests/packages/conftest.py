"""What tests of packages share: the installed library that is packaged, and programs run as on a machine
where nothing is set."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUGINS = ("libmsda_jax.so", "libmsda_ort.so", "libmsda_trt.so")  # beside the library
sys.path.insert(0, str(ROOT / "tests" / "support"))
from hang import HANG_SECONDS  # noqa: E402

# What users' packages come from where no index can be reached; pinned as everything else.
RUN_TIME = ["cffi", "ml_dtypes", "numpy", "pycparser"]
TEST_TOOLS = ["iniconfig", "packaging", "pluggy", "Pygments", "pytest"]


def pytest_addoption(parser):
    parser.addoption("--prefix", default=ROOT / "build" / "stage", type=pathlib.Path,
                     help="where `cmake --install` put the library that is packaged")
    parser.addoption("--trees", default=ROOT / "build" / "portable", type=pathlib.Path,
                     help="where pkg/portable/build installed x86_64 and aarch64")
    parser.addoption("--policy", default="manylinux_2_28_x86_64",
                     help="the newest platform that the wheel may need; linux_x86_64: any")


def run(*command, **options):
    """A program with an empty environment: no PATH, no LD_LIBRARY_PATH, no MSDA_LIBRARY."""
    options = {"env": {}, "timeout": HANG_SECONDS} | options
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)


# At the end of an installed libmsda/__init__.py: results that are wrong by a thousandth.
FAULT = """
_right = forward
def forward(*arrays, **options):
    return _right(*arrays, **options) * 1.001
"""


def passed(*command, **options):
    """Standard output of a program that has to succeed."""
    result = run(*command, **options)
    assert result.returncode == 0, f"{command}:\n{result.stdout}\n{result.stderr}"
    return result.stdout


def golden_vectors(python, folder, *options):
    """Every golden vector through every kernel of the msda that this Python finds by itself."""
    return run(python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", *options,
               ROOT / "tests" / "python" / "test_golden_vectors.py", cwd=folder)


def python_suite(python, folder, command, *tests, **environment):
    """The Python tests, or those named, with the msda that this Python finds by itself and a command that is installed. They
    need a C compiler."""
    result = run(python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", *(tests or [ROOT / "tests" / "python"]),
                 cwd=folder, env={"PATH": "/usr/bin:/bin", "MSDA_CLI": str(command)} | environment)
    assert result.returncode == 0, result.stdout + result.stderr
    print(result.stdout)


@pytest.fixture(scope="session")
def prefix(request):
    prefix = request.config.getoption("--prefix").resolve()
    if not list(prefix.glob("lib*/**/libmsda.so")):
        pytest.fail(f"--prefix is {prefix}: it holds no lib/libmsda.so; fill it by cmake --install")
    return prefix


@pytest.fixture(scope="session")
def wheelhouse():
    """A folder with wheels of what msda and its tests need; they are installed from there alone."""
    folder = ROOT / "build" / "packages" / "wheelhouse"
    lists = [ROOT / "tools" / name for name in ("requirements.txt", "requirements-check.txt")]
    pins = {line.split("==")[0]: line for path in lists for line in path.read_text().split()
            if "==" in line}
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder,
               *(pins[name] for name in RUN_TIME + TEST_TOOLS)]
    subprocess.run(command, check=True)
    return folder


# ---- the wheel ----


def build_wheel(prefix, folder, policy=None):
    command = [ROOT / "pkg" / "wheel" / "build", prefix, folder, *([policy] if policy else [])]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="session")
def policy(request):
    return request.config.getoption("--policy")


@pytest.fixture(scope="session")
def dist(prefix, policy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    result = build_wheel(prefix, folder, policy)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="session")
def wheel(dist):
    (wheel,) = dist.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def sdist(dist):
    (sdist,) = dist.glob("*.tar.gz")
    return sdist


def clean_environment(folder, wheelhouse, *packages):
    """The Python of a new environment into which pip installed the packages."""
    passed(os.path.realpath(sys.executable), "-m", "venv", folder)
    passed(folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check",
           "--no-compile", "--no-index", "--find-links", wheelhouse, "pytest", *packages)
    return folder / "bin" / "python"


@pytest.fixture(scope="session")
def python(wheel, wheelhouse, tmp_path_factory):
    return clean_environment(tmp_path_factory.mktemp("installed") / "venv", wheelhouse, wheel)


def environment_beside_torch(wheel, folder, name="torch"):
    """The Python of a new environment with the wheel alone, which finds the packages of that which tools/lib/python_env
    makes by this name as well; and the variables that torch needs there."""
    python_env = [ROOT / "tools" / "lib" / "python_env", name]
    subprocess.run(python_env, check=True)
    path = subprocess.run([*python_env, "--library-path"], capture_output=True, text=True, check=True).stdout.strip()
    packages = pathlib.Path(path.split(":")[0]).parents[2]
    python = folder / "venv" / "bin" / "python"
    passed((packages.parents[2] / "bin" / "python").resolve(), "-m", "venv", folder / "venv")
    (own,) = folder.glob("venv/lib/python3*/site-packages")
    (own / "torch.pth").write_text(f"{packages}\n")
    passed(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile", "--no-index", "--no-deps", wheel)
    return python, {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": path, "OMP_NUM_THREADS": "1"}
