"""What the command reads: numpy's ways to store arrays, pipes, and options of other programs."""

import io
import os
import struct
import subprocess
import zipfile

import numpy as np
import pytest

from conftest import binary, golden, old_contract, usual_names, write_folder

RUN = ("--iterations", 1, "--warmup", 0)
VARIABLES = {"BATCH_SIZE": "32", "NUM_QUERY": "x", "CHANNELS": "9", "NUM_ITERATIONS": "3"}


def line(text, word):
    return next(row for row in text.splitlines() if row.split()[0] == word)


@pytest.fixture
def output(msda_ok, tmp_path):
    """The output of a file of these arrays."""

    def run(arrays, *words):
        np.savez(tmp_path / "in.npz", **arrays)
        return output_of(msda_ok, tmp_path, *words)

    return run


def output_of(msda_ok, tmp_path, *words):
    msda_ok("run", tmp_path / "in.npz", *RUN, *words, "--output", tmp_path / "out.npy")
    return np.load(tmp_path / "out.npy")


# ---- the environment, which may be meant for another program
def test_variables_do_not_change_a_file(msda_ok, tmp_path):
    arrays = golden("edges")
    np.savez(tmp_path / "in.npz", **arrays)
    for words in ([tmp_path / "in.npz"], ["--npz", tmp_path / "in.npz"]):
        text = msda_ok("run", *words, env=VARIABLES)
        assert "(11 runs" in text and "taken" not in text
    msda_ok("explain", tmp_path / "in.npz", env=VARIABLES)


def test_variables_that_count_are_in_the_report(msda_ok, tmp_path):
    write_folder(tmp_path / "data", old_contract())
    variables = {"BATCH_SIZE": "3", "NUM_QUERY": "5", "NUM_ITERATIONS": "2"}
    text = msda_ok("run", tmp_path / "data", env=variables)
    said = "taken    BATCH_SIZE=3 NUM_QUERY=5 NUM_ITERATIONS=2 from the environment"
    assert said in text.splitlines() and "(2 runs" in text
    # Not those that a flag replaces.
    text = msda_ok("run", tmp_path / "data", "batch=3", "--queries", 5, env=variables)
    assert "taken    NUM_ITERATIONS=2 from the environment" in text.splitlines()
    sizes = ["--levels", "4x4"]
    for command in ("bench", "tune", "explain", "roofline"):
        text = msda_ok(command, *sizes, env={"CHANNELS": "8"})
        assert "taken    CHANNELS=8 from the environment" in text.splitlines(), command


# ---- words behind "--"
@pytest.mark.parametrize("name", ["in.npz", "-in.npz", "--batch", "a=b.npz"])
def test_files_behind_two_dashes(msda_ok, tmp_path, name):
    np.savez(open(tmp_path / name, "wb"), **golden("edges"))
    msda_ok("run", *RUN, "--", name, cwd=tmp_path)
    msda_ok("explain", "--threads", 1, "--", name, cwd=tmp_path)


# ---- pipes
@pytest.mark.parametrize("name", ["-", "/dev/stdin", "--npz=-", "FIFO"])
def test_input_from_a_pipe(msda_ok, tmp_path, name):
    np.savez(tmp_path / "in.npz", **golden("edges"))
    if name == "FIFO":
        name = tmp_path / "fifo"
        os.mkfifo(name)
    path = name if str(name) == str(tmp_path / "fifo") else "/dev/stdin"
    words = 'cat "$1" > "$2" & exec "$0" run "$3" --iterations 1 --output "$4"'
    if path == "/dev/stdin":
        words = 'cat "$1" | "$0" run "$3" --iterations 1 --output "$4"'
    paths = [tmp_path / "in.npz", path, name, tmp_path / "out.npy"]
    subprocess.run(["sh", "-c", words, binary(), *map(str, paths)], check=True)
    assert np.load(tmp_path / "out.npy").tobytes() == golden_output(msda_ok, tmp_path)


def golden_output(msda_ok, tmp_path):
    return output_of(msda_ok, tmp_path).tobytes()


def test_other_inputs_from_a_pipe(msda_ok, tmp_path):
    words = ("--levels", "4x4", "--iterations", 3, "--budget-ms", 60000)
    msda_ok("tune", *words, "--wisdom", tmp_path / "w.txt")
    with open(tmp_path / "w.txt") as wisdom:
        msda_ok("bench", *words[:4], "--wisdom", "/dev/stdin", stdin=wisdom)
    records = (tmp_path / "w.txt").read_bytes()
    result = subprocess.run(
        [binary(), "bench", *map(str, words[:4]), "--wisdom", "-"], input=records, check=False
    )
    assert result.returncode == 0


# ---- numpy's ways
def npy(array, version=(1, 0)):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


def npy_of_header(header, data):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


STORED = {
    "Fortran order": np.asfortranarray,
    "big endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "both": lambda a: np.asfortranarray(a.astype(a.dtype.newbyteorder(">"))),
    "a transposed view": lambda a: np.moveaxis(np.moveaxis(a, 0, -1).copy(), -1, 0),
}


@pytest.mark.parametrize("name", ["edges", "fused_ref4", "head_dim_3"])
@pytest.mark.parametrize("how", STORED)
def test_every_array_as_numpy_stores_it(output, how, name):
    arrays = golden(name)
    expected = output(arrays)
    for array in arrays:
        changed = output({**arrays, array: STORED[how](arrays[array])})
        assert changed.tobytes() == expected.tobytes(), array
    usual = usual_names(golden("edges"))
    expected = output(usual)
    assert output({k: STORED[how](v) for k, v in usual.items()}).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_order_and_bytes_of_narrow_types(output, dtype):
    arrays = {**golden("edges"), "value": golden("edges")["value"].astype(dtype)}
    expected = output(arrays)
    arrays["value"] = STORED["both"](arrays["value"])
    assert output(arrays).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, ">i4", ">u8"])
def test_shapes_of_every_integer(output, dtype):
    usual = usual_names(golden("edges"))
    expected = output(usual)
    usual["spatial_shapes"] = usual["spatial_shapes"].astype(dtype)
    assert output(usual).tobytes() == expected.tobytes()


@pytest.mark.parametrize("spelling", ["(1L, 226L, 2L, 8L)", "(1L,226L,2L,8L,)", "(1, 226, 2, 8)"])
@pytest.mark.parametrize("mark", ["", "u"])
def test_headers_of_python_2(msda_ok, output, tmp_path, spelling, mark):
    arrays = golden("edges")
    expected = output(arrays)
    text = f"{{{mark}'descr': {mark}'<f8', 'fortran_order': False, 'shape': {spelling}, }}\n"
    data = npy_of_header(text.encode(), arrays["value"].tobytes())
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", data if name == "value" else npy(array))
    assert output_of(msda_ok, tmp_path).tobytes() == expected.tobytes()


@pytest.mark.parametrize("points", [4, [4], np.int64(4), np.array([4, 4, 4, 4])])
def test_points_as_one_number(output, points):
    arrays = golden("edges")
    expected = output(arrays)
    assert output({**arrays, "points": np.asarray(points)}).tobytes() == expected.tobytes()


@pytest.mark.parametrize("border", [0, 1])
def test_starts_follow_from_the_shapes(output, msda_ok, tmp_path, border):
    arrays = old_contract()
    if border == 0:
        arrays["value"] = np.ascontiguousarray(arrays["value"][:, :30])
        arrays["level_start_index"] = np.array([0, 24])
    expected = output(arrays, "--dtype", "f32")
    write_folder(tmp_path / "data", arrays)
    del arrays["level_start_index"]
    assert output(arrays, "--dtype", "f32").tobytes() == expected.tobytes()
    words = ("batch=3", "queries=5", "stored_value_dtype=f16", "--dtype", "f32")
    (tmp_path / "data" / "level_start_index.bin").unlink()
    msda_ok("run", tmp_path / "data", *words, "--output", tmp_path / "out.npy")
    assert np.load(tmp_path / "out.npy").tobytes() == expected.tobytes()


