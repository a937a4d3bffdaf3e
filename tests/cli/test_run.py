"""msda run: the right numbers from every kind of input, in every type."""

import ml_dtypes
import numpy as np
import pytest

from conftest import GOLDEN, golden, old_contract, oracle, usual_names, with_border, write_folder

NAMES = sorted(path.stem for path in GOLDEN.glob("*.npz"))
TYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8_e4m3": ml_dtypes.float8_e4m3fn,
}


def close(actual, expected):
    return np.allclose(actual, expected, rtol=0, atol=1e-12 * max(1, np.abs(expected).max()))


def line(text, word):
    return next(row for row in text.splitlines() if row.split()[0] == word)


def test_golden_vectors_are_all_here():
    assert len(NAMES) >= 14 and any(name.startswith("fused") for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_forward_is_golden(msda_ok, tmp_path, name):
    msda_ok("run", GOLDEN / f"{name}.npz", "--output", tmp_path / "out.npz", "--iterations", 1)
    with np.load(tmp_path / "out.npz") as out:
        assert out.files == ["output"]
        assert out["output"].dtype == np.float64
        assert close(out["output"], golden(name)["output"])


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_golden(msda_ok, tmp_path, name):
    msda_ok(
        "run",
        GOLDEN / f"{name}.npz",
        "--backward",
        "--output",
        tmp_path / "out.npz",
        "--iterations",
        1,
    )
    expected = {
        k: v for k, v in golden(name).items() if k.startswith("grad_") and k != "grad_output"
    }
    with np.load(tmp_path / "out.npz") as out:
        assert sorted(out.files) == sorted(expected)
        for gradient in out.files:
            assert close(out[gradient], expected[gradient]), gradient


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f8_e4m3"])
@pytest.mark.parametrize(
    "name", ["edges", "fused_ref2", "fused_ref4", "ragged_points", "head_dim_71"]
)
def test_check_passes_in_every_type(msda_ok, name, dtype):
    text = msda_ok("run", GOLDEN / f"{name}.npz", "--check", "--dtype", dtype, "--iterations", 1)
    assert line(text, "kernel").split()[1].startswith("simd.cpu." + dtype.split("_")[0])
    assert line(text, "check").endswith(": ok")


@pytest.mark.parametrize("name", ["fused_ref2", "fused_ref4"])
def test_attention_is_the_softmax(msda_ok, tmp_path, name):
    out = tmp_path / "out.npz"
    text = msda_ok("run", GOLDEN / f"{name}.npz", "--attention", "--check", "--output", out, "--iterations", 1)
    assert line(text, "check").endswith(": ok")
    power = np.exp(golden(name)["logit"])
    with np.load(out) as found:
        assert found.files == ["output", "attention"]
        assert close(found["output"], golden(name)["output"])
        assert close(found["attention"], power / power.sum(-1, keepdims=True))


def test_gradients_can_be_chosen(msda_ok, tmp_path):
    msda_ok(
        "run",
        GOLDEN / "edges.npz",
        "--backward",
        "--gradients",
        "grad_weight",
        "--output",
        tmp_path / "out.npy",
        "--iterations",
        1,
    )
    assert close(np.load(tmp_path / "out.npy"), golden("edges")["grad_weight"])


def test_raw_output(msda_ok, tmp_path):
    msda_ok("run", GOLDEN / "edges.npz", "--dtype", "f32", "--output", tmp_path / "out.bin")
    msda_ok("run", GOLDEN / "edges.npz", "--dtype", "f32", "--output", tmp_path / "out.npy")
    raw = np.fromfile(tmp_path / "out.bin", np.float32)
    assert raw.tobytes() == np.load(tmp_path / "out.npy").tobytes()


def test_same_output_file_twice(msda_ok, tmp_path):
    contents = []
    for _ in range(2):
        msda_ok("run", GOLDEN / "edges.npz", "--output", tmp_path / "out.npz")
        contents.append((tmp_path / "out.npz").read_bytes())
    assert contents[0] == contents[1]


# One pixel, one point in its middle, weight 1: the output is the value as it was converted.
def one_pixel(numbers):
    return {
        "level_hw": np.array([[1, 1]], np.int32),
        "points": np.array([1], np.int32),
        "value": numbers.reshape(1, 1, 1, -1),
        "coord": np.full((1, 1, 1, 1, 2), 0.5),
        "weight": np.ones((1, 1, 1, 1)),
    }


@pytest.mark.parametrize("dtype", TYPES)
def test_conversion_rounds_to_nearest_even(msda_ok, tmp_path, dtype):
    rng = np.random.default_rng(7)
    every_f8 = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    exact = np.sort(every_f8[np.isfinite(every_f8)])
    ties = (exact[1:] + exact[:-1]) / 2
    scales = 2.0 ** rng.integers(-30, 8, 4000)
    # Neighbours in float32: ml_dtypes goes through it, and would round twice from float64.
    ties32 = ties.astype(np.float32)
    numbers = np.concatenate(
        [
            exact,
            ties,
            np.nextafter(ties32, 9e9),
            np.nextafter(ties32, -9e9),
            (rng.uniform(-1, 1, 4000) * scales).astype(np.float32),
            [0.0, -0.0, 448.0, 464.0, -448.0],
        ]
    )
    np.savez(tmp_path / "in.npz", **one_pixel(numbers))
    msda_ok(
        "run",
        tmp_path / "in.npz",
        "--value-dtype",
        dtype,
        "--output-dtype",
        "f64",
        "--kernel",
        "ref.cpu@1",
        "--output",
        tmp_path / "out.npy",
        "--iterations",
        1,
    )
    expected = numbers.astype(TYPES[dtype]).astype(np.float64)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy").ravel(), expected)


def test_conversion_that_overflows_warns(msda, tmp_path):
    np.savez(tmp_path / "in.npz", **one_pixel(np.array([1e6, 1.0, -1e6])))
    result = msda(
        "run", tmp_path / "in.npz", "--value-dtype", "f16", "--output", tmp_path / "out.npy"
    )
    assert result.returncode == 0
    assert result.stderr == "warning: value: 2 of 3 numbers are too large for f16\n"
    assert np.load(tmp_path / "out.npy").ravel().tolist() == [np.inf, 1.0, -np.inf]


@pytest.mark.parametrize("dtype", ["bf16", "f8_e4m3"])
@pytest.mark.parametrize("form", ["ml_dtypes", "bits"])
def test_small_types_in_files(msda_ok, tmp_path, dtype, form):
    arrays = golden("edges")
    value = arrays["value"].astype(TYPES[dtype])
    arrays["value"] = value if form == "ml_dtypes" else value.view(f"u{value.itemsize}")
    np.savez(tmp_path / "small.npz", **arrays)
    stated = ["--stored-value-dtype", dtype] if form == "bits" else []
    msda_ok("run", tmp_path / "small.npz", *stated, "--output", tmp_path / "a.npy")
    arrays["value"] = value.astype(np.float64)
    np.savez(tmp_path / "wide.npz", **arrays)
    msda_ok("run", tmp_path / "wide.npz", "--value-dtype", dtype, "--output", tmp_path / "b.npy")
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    # And from the small type to a wide one.
    msda_ok(
        "run",
        tmp_path / "small.npz",
        *stated,
        "--value-dtype",
        "f64",
        "--output-dtype",
        "f64",
        "--output",
        tmp_path / "c.npy",
    )
    exact = oracle.forward(*(arrays[n] for n in ("value", "level_hw", "points", "coord", "weight")))
    assert close(np.load(tmp_path / "c.npy"), exact)


def test_bf16_output_is_what_ml_dtypes_reads(msda_ok, tmp_path):
    msda_ok("run", GOLDEN / "edges.npz", "--dtype", "bf16", "--output", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        output = out["output"].view(ml_dtypes.bfloat16).astype(np.float64)
    expected = golden("edges")["output"]
    assert np.abs(output - expected).max() <= 0.02 * np.abs(expected).max()


def test_value_scale(msda_ok, tmp_path):
    arrays = golden("edges")
    scale = np.array([0.5, 4.0], np.float32)
    exact = (arrays["value"] * 4).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
    arrays["value"] = exact.astype(ml_dtypes.float8_e4m3fn)
    np.savez(tmp_path / "f8.npz", value_scale=scale, **arrays)
    arrays["value"] = exact * scale[:, None]
    np.savez(tmp_path / "f64.npz", **arrays)
    np.savez(tmp_path / "to_f8.npz", value_scale=scale, **arrays)
    outputs = []
    for name, flags in (
        ("f8", []),
        ("f8", ["--value-dtype", "f64"]),
        ("f64", []),
        ("to_f8", ["--value-dtype", "f8_e4m3"]),
    ):
        msda_ok(
            "run",
            tmp_path / f"{name}.npz",
            *flags,
            "--output-dtype",
            "f64",
            "--output",
            tmp_path / "out.npy",
            "--kernel",
            "ref.cpu@1",
        )
        outputs.append(np.load(tmp_path / "out.npy"))
    for output in outputs:
        assert close(output, outputs[2])


@pytest.mark.parametrize("order", ["stored", "compressed"])
def test_usual_names(msda_ok, tmp_path, order):
    save = np.savez if order == "stored" else np.savez_compressed
    save(tmp_path / "in.npz", **usual_names(golden("edges")))
    msda_ok("run", tmp_path / "in.npz", "--output", tmp_path / "out.npy")
    assert close(np.load(tmp_path / "out.npy"), golden("edges")["output"])


@pytest.mark.parametrize("name", ["edges", "fused_ref4"])
def test_border(msda_ok, tmp_path, name):
    arrays = golden(name)
    arrays["value"] = with_border(arrays["value"], arrays["level_hw"])
    np.savez(tmp_path / "in.npz", **arrays)
    text = msda_ok("run", tmp_path / "in.npz", "--output", tmp_path / "out.npy")
    assert line(text, "problem").endswith("bordered")
    assert close(np.load(tmp_path / "out.npy"), golden(name)["output"])


def expected_of_old_contract(arrays):
    return oracle.forward(
        arrays["value"],
        arrays["spatial_shapes"],
        [8, 8],
        arrays["sampling_locations"].reshape(3, 5, 1, 16, 2),
        arrays["attention_weights"].reshape(3, 5, 1, 16),
        value_border=1,
    )


SIZES = {
    "flags": (["--batch", "3", "--queries", "5"], {}),
    "words": (["batch=3", "queries=5", "value_border=1"], {}),
    "old words": (["batch_size=3", "num_query=5", "channels=32", "num_iterations=2"], {}),
    "environment": (
        [],
        {"BATCH_SIZE": "3", "NUM_QUERY": "5", "CHANNELS": "32", "NUM_ITERATIONS": "2"},
    ),
    "flags win": (["--batch", "3", "batch=7", "queries=5"], {"BATCH_SIZE": "9", "NUM_QUERY": "x"}),
}


@pytest.mark.parametrize("sampling", [np.float32, np.float16])
@pytest.mark.parametrize("sizes", SIZES)
def test_folder_of_raw_files(msda_ok, tmp_path, sizes, sampling):
    arrays = old_contract()
    for name in ("sampling_locations", "attention_weights"):
        arrays[name] = arrays[name].astype(sampling)
    write_folder(tmp_path / "data", arrays, sampling_type=sampling)
    words, variables = SIZES[sizes]
    text = msda_ok(
        "run",
        f"dir={tmp_path / 'data'}",
        *words,
        "kernel=ref.cpu@1",
        "--output-dtype",
        "f64",
        "--output",
        tmp_path / "out.npy",
        env=variables,
    )
    assert close(np.load(tmp_path / "out.npy"), expected_of_old_contract(arrays))
    if "2" in variables.values() or "num_iterations=2" in words:
        assert "(2 runs" in text


def test_folder_named_without_a_flag_and_other_types(msda_ok, tmp_path):
    arrays = golden("head_dim_3")
    usual = usual_names(arrays)
    usual["grad_output"] = arrays["grad_output"]
    write_folder(tmp_path / "data", usual, np.float64, np.float64)
    sizes = [
        "batch=1",
        "queries=7",
        "heads=3",
        "channels=3",
        "points=4",
        "--dtype",
        "f64",
        "--coord-dtype",
        "f64",
        "--weight-dtype",
        "f64",
    ]
    msda_ok("run", tmp_path / "data", *sizes, "--output", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        assert close(out["output"], arrays["output"])
    msda_ok("run", tmp_path / "data", *sizes, "--backward", "--output", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        for name in out.files:
            assert close(out[name], arrays[name]), name


def test_stored_type_then_conversion(msda_ok, tmp_path):
    arrays = old_contract()
    write_folder(tmp_path / "data", arrays)
    sizes = ["--dir", tmp_path / "data", "batch=3", "queries=5", "output-dtype=f64"]
    msda_ok(
        "run",
        *sizes,
        "--stored-value-dtype",
        "f16",
        "--value-dtype",
        "f64",
        "--output",
        tmp_path / "out.npy",
    )
    assert close(np.load(tmp_path / "out.npy"), expected_of_old_contract(arrays))


def test_one_bordered_level_in_a_folder(msda_ok, tmp_path):
    arrays = golden("one_level_d16")
    usual = usual_names(arrays)
    usual["value"] = with_border(usual["value"], arrays["level_hw"])
    write_folder(tmp_path / "data", usual, sampling_type=np.float32)
    text = msda_ok(
        "run",
        tmp_path / "data",
        "batch=2",
        "queries=7",
        "heads=8",
        "channels=16",
        "points=2",
        "check=1",
    )
    assert line(text, "problem").endswith("bordered")
    assert line(text, "check").endswith(": ok")


def test_old_arrays_without_a_head_axis(msda_ok, tmp_path):
    arrays = old_contract()
    expected = expected_of_old_contract(arrays)
    np.savez(
        tmp_path / "in.npz", **{k: v.squeeze(2) if v.ndim > 2 else v for k, v in arrays.items()}
    )
    msda_ok("run", tmp_path / "in.npz", "--output-dtype", "f64", "--output", tmp_path / "out.npy")
    assert close(np.load(tmp_path / "out.npy"), expected)


@pytest.mark.parametrize("axis", ["batch", "queries", "heads", "channels"])
def test_empty_sizes(msda_ok, tmp_path, axis):
    arrays = golden("head_dim_3")
    cut = {"batch": (0, "BBB"), "queries": (1, "-QQ"), "heads": (2, "MMM"), "channels": (3, "D--")}
    position, used = cut[axis]
    for name, letter in zip(("value", "coord", "weight"), used):
        if letter != "-":
            arrays[name] = np.take(arrays[name], [], position)
    np.savez(tmp_path / "in.npz", **arrays)
    msda_ok("run", tmp_path / "in.npz", "--check", "--output", tmp_path / "out.npy")
    assert np.load(tmp_path / "out.npy").size == 0


def test_kernel_is_forced_and_threads_change_nothing(msda_ok, tmp_path):
    for threads in (1, 2, 3):
        text = msda_ok(
            "run",
            GOLDEN / "edges.npz",
            "--dtype",
            "f32",
            "--kernel",
            "simd.cpu.f32@2",
            "--threads",
            threads,
            "--output",
            tmp_path / f"{threads}.npy",
        )
        assert line(text, "kernel").startswith("kernel   simd.cpu.f32@2,")
    contents = {(tmp_path / f"{threads}.npy").read_bytes() for threads in (1, 2, 3)}
    assert len(contents) == 1


def test_check_of_some_queries(msda_ok):
    text = msda_ok("run", GOLDEN / "edges.npz", "--dtype", "f32", "--check-queries", 5)
    assert line(text, "check").startswith(f"check    {5 * 2 * 8} elements")


def test_unused_arrays_are_noted(msda, tmp_path):
    np.savez(tmp_path / "in.npz", photo=np.zeros(3), **golden("edges"))
    result = msda("run", tmp_path / "in.npz")
    assert result.returncode == 0
    assert result.stderr == f"note: {tmp_path / 'in.npz'}: photo is not used\n"


def with_levels_at(arrays, starts, tokens):
    """The arrays by their usual names with each level where `starts` says, and NaN elsewhere."""
    sizes, value = arrays["spatial_shapes"].prod(1), arrays["value"]
    moved = np.full((value.shape[0], tokens, *value.shape[2:]), np.nan, value.dtype)
    for size, old, new in zip(sizes, arrays["level_start_index"], starts):
        moved[:, new : new + size] = value[:, old : old + size]
    return {**arrays, "value": moved, "level_start_index": np.array(starts)}


@pytest.mark.parametrize("starts, tokens", [([58, 16, 4, 0], 226), ([60, 5, 47, 228], 240), ([0, 168, 210, 222], 230)])
def test_levels_start_anywhere(msda, tmp_path, starts, tokens):
    arrays = {**usual_names(golden("edges")), "grad_output": golden("edges")["grad_output"]}
    sizes = arrays["spatial_shapes"].prod(1)
    moved = with_levels_at(arrays, starts, tokens)
    np.savez(tmp_path / "in.npz", **arrays)
    np.savez(tmp_path / "moved.npz", **moved)
    for operation in ([], ["--backward"]):
        results = {}
        for name in ("in", "moved"):
            target = tmp_path / f"{name}_out.npz"
            done = msda("run", tmp_path / f"{name}.npz", *operation, "--check", "--output", target)
            assert done.returncode == 0, done.stderr
            results[name] = dict(np.load(target))
        rest = tokens - 226
        assert done.stderr.endswith(f" {rest} of {tokens} tokens are of no level\n" if rest else "")
        inside = np.zeros(tokens, bool)
        if operation:
            gradient = results["moved"].pop("grad_value")
            expected = results["in"].pop("grad_value")
            for size, old, new in zip(sizes, arrays["level_start_index"], starts):
                assert (gradient[:, new : new + size] == expected[:, old : old + size]).all()
                inside[new : new + size] = True
            assert (gradient[:, ~inside] == 0).all()
        for name, array in results["in"].items():
            assert (array == results["moved"][name]).all(), name


def test_levels_are_placed_by_options(msda, msda_ok, tmp_path):
    problem = ["--levels", "6x4,3x2", "--queries", 9, "--level-start", "7,1", "--tokens", 40]
    assert "starts 7,1  tokens 40" in msda_ok("explain", *problem)
    msda_ok("bench", *problem, "--save-inputs", tmp_path / "in.npz")
    with np.load(tmp_path / "in.npz") as saved:
        assert saved["level_start"].tolist() == [7, 1] and saved["value"].shape[1] == 40
    result = msda("run", tmp_path / "in.npz", "--check", "--level-start", "7,1", "--tokens", 40)
    assert result.returncode == 0 and "starts 7,1  tokens 40" in result.stdout
    assert result.stderr.endswith("10 of 40 tokens are of no level\n")
    for words in (["--level-start", "7,0"], ["--tokens", 41]):
        assert "but the input has" in msda("run", tmp_path / "in.npz", *words).stderr
