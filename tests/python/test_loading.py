"""The library is found, and refused where it is not the one this package was written for."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import msda
from msda import _library

IMPORT = "import msda; print(msda.library_path)"
PACKAGE = pathlib.Path(msda.__file__).parent


def run(code=IMPORT, package=PACKAGE, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "MSDA_LIBRARY"} | variables
    environment["PYTHONPATH"] = str(package.parent)
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )


def refused(result):
    assert result.returncode == 1
    return result.stderr.strip()


def compile_library(folder, source):
    (folder / "other.c").write_text(source)
    library = folder / "libother.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, folder / "other.c"], check=True)
    return str(library)


def test_a_library_that_is_not_there(tmp_path):
    missing = str(tmp_path / "libnone.so")
    text = refused(run(MSDA_LIBRARY=missing))
    assert (
        "ImportError: msda: no libmsda could be loaded; set MSDA_LIBRARY" in text
        and missing in text
    )


def test_another_abi_version(tmp_path):
    library = compile_library(tmp_path, "unsigned msda_abi_version(void) { return 77; }")
    text = refused(run(MSDA_LIBRARY=library))
    assert (
        f"ImportError: msda: {library} has ABI version 77, this package was written for 0" in text
    )


def test_no_libmsda_at_all(tmp_path):
    library = compile_library(tmp_path, "int x;")
    text = refused(run(MSDA_LIBRARY=library))
    assert f"ImportError: msda: {library} is no libmsda" in text


def test_other_struct_sizes(monkeypatch):
    monkeypatch.setitem(_library.STRUCT_SIZES, "msda_problem", 999)
    with pytest.raises(
        ImportError, match="struct msda_problem has 216 bytes on this machine and 999"
    ):
        _library._check(_library.ffi, _library.lib, "libmsda.so")


def test_the_library_beside_the_package(tmp_path):
    """As in a wheel: libmsda.so.0 in the package's own folder, no variable set."""
    package = tmp_path / "msda"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "*.so*"))
    shutil.copy(os.path.realpath(msda.library_path), package / _library.FILE_NAME)
    result = run(package=package)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(package / _library.FILE_NAME)
