"""libmsda_trt.so in a host that plays TensorRT (mock_host.cpp), with a driver whose device is the CPU (mock_driver.c)."""

import os
import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARY = Path(os.environ["MSDA_LIBRARY"])
PLUGIN = LIBRARY.with_name("libmsda_trt.so")
CASES = ["creators", "output_shapes", "wrong_shapes", "formats", "fields", "wrong_fields", "results", "refusals"]


@pytest.fixture(scope="session")
def host(tmp_path_factory):
    folder = tmp_path_factory.mktemp("host")
    driver, program = folder / "libcuda.so.1", folder / "mock_host"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", HERE / "mock_driver.c", "-o", driver], check=True)
    subprocess.run(["c++", "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "include",
                    "-isystem", ROOT / "plugins/tensorrt/third_party", HERE / "mock_host.cpp", driver, LIBRARY,
                    # Before the folders of LD_LIBRARY_PATH, where another libcuda.so.1 may lie.
                    f"-Wl,--disable-new-dtags,-rpath,{folder}:{LIBRARY.parent}", "-ldl", "-o", program], check=True)
    return program


def test_every_case_is_run(host):
    run = subprocess.run([host], capture_output=True, text=True)
    assert run.returncode == 2 and sorted(CASES) == run.stdout.split()


@pytest.mark.parametrize("case", CASES)
def test_a_host_gets_what_it_asks_for(host, case):
    run = subprocess.run([host, PLUGIN, case], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def symbols(option):
    listed = subprocess.run(["nm", "-D", option, PLUGIN], check=True, capture_output=True, text=True).stdout
    return [line.split()[-1] for line in listed.splitlines()]


def test_nothing_of_tensorrt_or_cuda_is_needed():
    needed = symbols("--undefined-only")
    assert any(name.startswith("msda_execute") for name in needed)
    assert [name for name in needed if re.match(r".*nvinfer|cuda|cu[A-Z]|getPluginRegistry|getLogger", name)] == []


def test_two_functions_are_exported():
    assert sorted(symbols("--defined-only")) == ["getCreators", "setLoggerFinder"]
