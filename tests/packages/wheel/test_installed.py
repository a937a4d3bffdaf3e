"""The wheel as pip installs it into an empty environment: the Python tests run there, without the repository's package.

    pytest tests/packages/wheel/test_installed.py --prefix PREFIX --policy linux_x86_64
"""

import pathlib

from conftest import ROOT, clean_environment, passed, run


def test_first_use(python, tmp_path):
    """No variable set: the library is the one of the wheel, and types are known to type checkers."""
    code = "import libmsda; print(libmsda.library_path); print(libmsda.__version__)"
    path, version = passed(python, "-c", code, cwd=tmp_path).split()
    assert pathlib.Path(path).name == "libmsda.so.0" and path.startswith(str(python.parents[1]))
    assert (pathlib.Path(path).parent / "py.typed").exists()
    files = passed(python, "-m", "pip", "show", "-f", "libmsda", cwd=tmp_path)
    assert f"\nVersion: {version}\n" in files and "sboms/libmsda.cdx.json" in files


def test_python_suite(python, prefix, tmp_path):
    """The golden vectors through every kernel are among it, and one clear line for wrong libraries and drivers, which
    needs a C compiler."""
    result = run(python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", ROOT / "tests" / "python", cwd=tmp_path,
                 env={"PATH": "/usr/bin:/bin", "MSDA_CLI": str(prefix / "bin" / "msda")})
    assert result.returncode == 0, result.stdout
    print(result.stdout)


def test_uninstalls_without_leftovers(wheel, wheelhouse, tmp_path):
    python = clean_environment(tmp_path / "venv", wheelhouse, wheel)
    passed(python, "-c", "import libmsda", cwd=tmp_path)
    passed(python, "-m", "pip", "uninstall", "-q", "-y", "libmsda", cwd=tmp_path)
    assert list((tmp_path / "venv").rglob("*msda*")) == []
