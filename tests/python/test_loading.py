"""The library is found, and refused where it is not the one this package was written for."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import libmsda
from hang import HANG_SECONDS
from libmsda._core import library as _library

IMPORT = "import libmsda; print(libmsda.library_path)"
PACKAGE = pathlib.Path(libmsda.__file__).parent


def run(code=IMPORT, package=PACKAGE, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "MSDA_LIBRARY"} | variables
    environment["PYTHONPATH"] = str(package.parent)
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=HANG_SECONDS
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
        "ImportError: libmsda: no shared library could be loaded; set MSDA_LIBRARY" in text
        and missing in text
    )


def test_another_abi_version(tmp_path):
    library = compile_library(tmp_path, "unsigned msda_abi_version(void) { return 77; }")
    text = refused(run(MSDA_LIBRARY=library))
    assert (
        f"ImportError: libmsda: {library} has ABI version 77, this package was written for 0" in text
    )


def test_no_libmsda_at_all(tmp_path):
    library = compile_library(tmp_path, "int x;")
    text = refused(run(MSDA_LIBRARY=library))
    assert f"ImportError: libmsda: {library} is not libmsda.so" in text


@pytest.mark.parametrize("part", [0.00001, 0.001, 0.3, 0.7])
def test_a_truncated_library(part, tmp_path):
    whole = pathlib.Path(os.path.realpath(libmsda.library_path)).read_bytes()
    truncated = tmp_path / "libmsda.so"
    truncated.write_bytes(whole[: int(part * len(whole))])
    text = refused(run(MSDA_LIBRARY=str(truncated)))
    assert re.search(
        rf"^ImportError: libmsda: no shared library could be loaded; .* Tried {truncated}: "
        r"(the file is truncated, \d+ bytes or more are missing|.*file too short)",
        text.splitlines()[-1],
    ), text


OPEN_DEVICE = """
import libmsda
try:
    libmsda.Handle(device=0)
except libmsda.CudaError as error:
    print(error)
"""


def device_error(**variables):
    result = run(OPEN_DEVICE, MSDA_LIBRARY=os.path.realpath(libmsda.library_path), **variables)
    assert result.returncode == 0, result.stderr
    (line,) = result.stdout.splitlines()
    return line.removeprefix("msda_handle_create: handle_options.device is 0: ")


needs_cuda = pytest.mark.skipif("CUDA: none" in libmsda.build_info(), reason="built without CUDA")


STUB_DRIVER = pathlib.Path(__file__).resolve().parents[1] / "support/stub_driver"


def device_error_with_driver(folder, version):
    subprocess.run([STUB_DRIVER, folder, version], check=True)
    paths = [str(folder), os.environ.get("LD_LIBRARY_PATH", "")]
    return device_error(LD_LIBRARY_PATH=os.pathsep.join(filter(None, paths)))


def test_a_device_without_a_backend():
    if "CUDA: none" not in libmsda.build_info():
        pytest.skip("built with CUDA")
    assert "this library has no CUDA backend (none" in device_error()


@needs_cuda
def test_a_device_without_a_driver(tmp_path):
    text = device_error_with_driver(tmp_path, "none")  # also where the machine has one
    assert text.startswith("no CUDA driver was found (libcuda.so.1); CUDA 13.0 needs driver 580")


@needs_cuda
def test_a_driver_that_is_too_old(tmp_path):
    text = device_error_with_driver(tmp_path, "12020")
    assert text.startswith("the CUDA driver is for CUDA 12.2; CUDA 13.0 needs driver 580")


def test_other_struct_sizes(monkeypatch):
    monkeypatch.setitem(_library.STRUCT_SIZES, "msda_problem", 999)
    with pytest.raises(
        ImportError, match=r"struct msda_problem has \d+ bytes on this machine and 999"
    ):
        _library._check(_library.ffi, _library.lib, "libmsda.so")


def test_the_library_in_the_package(tmp_path):
    """As in a wheel: libmsda.so.0 in the folder lib of the package, no variable set."""
    package = tmp_path / "libmsda"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "lib"))
    (package / "lib").mkdir()
    shutil.copy(os.path.realpath(libmsda.library_path), package / "lib" / _library.FILE_NAME)
    result = run(package=package)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(package / "lib" / _library.FILE_NAME)


@pytest.mark.skipif(
    pathlib.Path(sys.prefix, "lib", _library.FILE_NAME).exists(), reason="conda's library comes first"
)
@pytest.mark.parametrize("folder", [".", "libmsda"])
def test_the_system_s_library_and_a_plugin_of_it(tmp_path, folder):
    """As in Debian, where the loader knows the folder: the path is that of the file, and plugins lie in libmsda/."""
    file = tmp_path / _library.FILE_NAME
    shutil.copy(os.path.realpath(libmsda.library_path), file)
    package = tmp_path / "python" / "libmsda"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "lib"))
    variables = {"package": package, "LD_LIBRARY_PATH": str(tmp_path)}
    result = run(**variables)
    assert (result.returncode, result.stdout.strip()) == (0, str(file)), result.stderr
    code = "import libmsda.onnx; print(libmsda.onnx.ort_library())"
    assert f"FileNotFoundError: {tmp_path}/libmsda_ort.so is not there" in run(code, **variables).stderr
    plugin = tmp_path / folder / "libmsda_ort.so"
    plugin.parent.mkdir(exist_ok=True)
    plugin.touch()
    assert run(code, **variables).stdout.strip() == str(plugin)
