"""libmsda_trt.so in a host that plays TensorRT (mock_host.cpp), with a driver whose device is the CPU (mock_driver.c); with
MSDA_TEST_DEVICE=cuda on a GPU, too, by the driver that is there. A GPU's machine may have no NumPy: none is needed.

The host has the plugin's headers, of TensorRT 11; MSDA_TENSORRT_HEADERS=FOLDER gives it those of an installed 10 or 11."""

import array
import ast
import math
import os
import re
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARY = Path(os.environ["MSDA_LIBRARY"])
PLUGIN = LIBRARY.with_name("libmsda_trt.so")
CASES = ["creators", "output_shapes", "wrong_shapes", "formats", "fields", "wrong_fields", "results", "refusals", "damaged"]
DEVICES = ["cpu", "cuda"] if os.environ.get("MSDA_TEST_DEVICE") == "cuda" else ["cpu"]
THIRD_PARTY = ROOT / "plugins/tensorrt/third_party"  # with a stand-in for CUDA's header
HEADERS = Path(os.environ.get("MSDA_TENSORRT_HEADERS", THIRD_PARTY))
MAJOR = re.search(r"_MAJOR\w* (\d+)", (HEADERS / "NvInferVersion.h").read_text()).group(1)
MAJORS = sorted({"10", MAJOR})  # whose loggers the host has
GOLDEN = sorted((ROOT / "tests" / "golden").glob("*.npz"))
# TensorRT's number of the type, and how far an output may be from float64, of the largest value: inputs beside values are rounded
# to float32, and outputs to the type.
TYPES = {"f32": (0, 2**-16), "f16": (1, 2**-10), "bf16": (7, 2**-7)}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("host")


@pytest.fixture(scope="session")
def host(folder):
    program = folder / "mock_host"
    subprocess.run(["c++", "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "include",
                    "-isystem", HEADERS, "-isystem", THIRD_PARTY, HERE / "mock_host.cpp", LIBRARY,
                    f"-Wl,-rpath,{LIBRARY.parent}", "-ldl", "-o", program], check=True)
    return program


@pytest.fixture(scope="session")
def drivers(folder):
    """By device. The mock has the driver's name, by which the plugin finds what is loaded already."""
    mock = folder / "libcuda.so.1"
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", HERE / "mock_driver.c",
                    "-o", mock], check=True)
    return {"cpu": mock, "cuda": "libcuda.so.1"}


@pytest.fixture(scope="session")
def environments(folder):
    """By TensorRT's major version."""
    mock = folder / "libnvinfer.so.10"
    subprocess.run(["c++", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", mock, HERE / "mock_nvinfer10.cpp"],
                   check=True)
    return {"10": os.environ | {"MOCK_NVINFER": str(mock)}, "11": os.environ}


def test_every_case_is_run(host):
    run = subprocess.run([host], capture_output=True, text=True)
    assert run.returncode == 2 and sorted([*CASES, "golden"]) == run.stdout.split()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("major", MAJORS)
def test_a_host_gets_what_it_asks_for(host, drivers, environments, major, device, case):
    run = subprocess.run([host, drivers[device], PLUGIN, case], capture_output=True, text=True, env=environments[major])
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_a_host_without_a_driver_says_so(host):
    run = subprocess.run([host, "libcuda.so.0", PLUGIN, "creators"], capture_output=True, text=True)
    assert run.returncode == 1 and re.match(r"thrown: libcuda\.so\.0: cannot open shared object file", run.stdout)


def read_npz(path):
    """Shape and numbers of each array."""
    arrays = {}
    with zipfile.ZipFile(path) as files:
        for name in files.namelist():
            data = files.read(name)
            start = 10 + struct.unpack_from("<H", data, 8)[0]  # version 1.0
            header = ast.literal_eval(data[10:start].decode())
            assert data[:8] == b"\x93NUMPY\x01\x00" and not header["fortran_order"]
            numbers = array.array({"<f8": "d", "<i4": "i"}[header["descr"]])
            numbers.frombytes(data[start:])
            assert len(numbers) == math.prod(header["shape"])
            arrays[name.removesuffix(".npy")] = (header["shape"], numbers)
    return arrays


def encode(numbers, kind):
    if kind == "bf16":  # of numbers that it has
        return b"".join(struct.pack("<f", number)[2:] for number in numbers)
    return struct.pack(f"<{len(numbers)}{'e' if kind == 'f16' else 'f'}", *numbers)


def decode(data, kind):
    if kind == "bf16":
        return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]
    form = "e" if kind == "f16" else "f"
    return struct.unpack(f"<{len(data) // struct.calcsize(form)}{form}", data)


def run_golden(host, driver, path, kind, file):
    """The output beside the file's, and the largest value."""
    arrays = read_npz(path)
    is_fused = "offset" in arrays
    names = ["reference", "offset", "logit"] if is_fused else ["coord", "weight"]
    (batch, _, heads, channels), values = arrays["value"]
    queries = arrays["output"][0][1]
    components = arrays["reference"][0][3] if is_fused else 2
    (levels,), points = arrays["points"]
    head = [is_fused, TYPES[kind][0], batch, queries, heads, channels, components, levels, *arrays["level_hw"][1], *points]
    assert list(decode(encode(values, kind), kind)) == list(values)
    file.write_bytes(struct.pack(f"<{len(head)}i", *head) + encode(values, kind) +
                     b"".join(encode(arrays[name][1], "f32") for name in names))
    run = subprocess.run([host, driver, PLUGIN, "golden", file], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    return decode(Path(f"{file}.out").read_bytes(), kind), arrays["output"][1], max(map(abs, values))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("device", DEVICES)
def test_golden_vectors(host, drivers, device, kind, tmp_path):
    assert len(GOLDEN) == 16
    for path in GOLDEN:
        found, expected, largest = run_golden(host, drivers[device], path, kind, tmp_path / path.stem)
        assert len(found) == len(expected) > 0
        difference = max(abs(one - other) for one, other in zip(found, expected))
        assert difference <= TYPES[kind][1] * largest, path.stem


def symbols(option):
    listed = subprocess.run(["nm", "-D", option, PLUGIN], check=True, capture_output=True, text=True).stdout
    return [line.split()[-1] for line in listed.splitlines()]


def test_nothing_of_tensorrt_or_cuda_is_needed():
    needed = symbols("--undefined-only")
    assert any(name.startswith("msda_execute") for name in needed)
    assert [name for name in needed if re.match(r".*nvinfer|cuda|cu[A-Z]|getPluginRegistry|getLogger", name)] == []


def test_two_functions_are_exported():
    assert sorted(symbols("--defined-only")) == ["getCreators", "setLoggerFinder"]
