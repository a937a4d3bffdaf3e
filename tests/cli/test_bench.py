"""msda bench: the list of workloads, their data, and what is reported."""

import csv
import json
import re
import xml.etree.ElementTree

import numpy as np
import pytest

from conftest import ROOT, on_a_terminal

WORKLOADS = {
    w["name"]: w for w in json.loads((ROOT / "bench/workloads.json").read_text())["workloads"]
}
SMALL = ["--levels", "9x7,4x3", "--batch", 2, "--queries", 30, "--points", "3,5"]


def tokens(workload):
    return sum(h * w for h, w in workload["levels"])


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_are_consistent(name):
    workload = WORKLOADS[name]
    assert len(workload["points"]) == len(workload["levels"])
    assert workload["group"] in ("main", "more")
    if workload["pattern"] == "local":
        grid = workload.get("reference_grid")
        places = grid[0] * grid[1] if grid else tokens(workload)
        assert workload["queries"] == places or (grid and workload["queries"] < places)
    else:
        assert workload["pattern"] == "uniform"


def test_known_sizes():
    sizes = {name: tokens(WORKLOADS[name]) for name in ("enc-local", "enc-5scale", "mask2former")}
    assert sizes == {"enc-local": 22223, "enc-5scale": 89023, "mask2former": 21504}
    main = [name for name, workload in WORKLOADS.items() if workload["group"] == "main"]
    assert main == ["bev-fold", "bev-fold-local", "bev-local", "enc-local", "enc-uniform", "dec"]


def test_list_has_every_workload(msda_ok):
    rows = msda_ok("bench", "--list").splitlines()[1:]
    assert [row.split()[0] for row in rows] == list(WORKLOADS)


def saved(msda_ok, path, *arguments):
    msda_ok("bench", *arguments, "--save-inputs", path)
    with np.load(path) as arrays:
        return dict(arrays)


@pytest.mark.parametrize("name", ["dec", "dfine", "rf-detr"])
def test_uniform_data(msda_ok, tmp_path, name):
    workload = WORKLOADS[name]
    data = saved(msda_ok, tmp_path / "in.npz", "--workload", name)
    b, q, m, k = (
        workload["batch"],
        workload["queries"],
        workload["heads"],
        sum(workload["points"]),
    )
    assert data["level_hw"].tolist() == workload["levels"]
    assert data["points"].tolist() == workload["points"]
    assert data["value"].shape == (b, tokens(workload), m, workload["channels"])
    assert data["coord"].shape == (b, q, m, k, 2) and data["weight"].shape == (b, q, m, k)
    assert 0 <= data["coord"].min() < 1e-2 and 0.99 < data["coord"].max() < 1
    assert abs(data["coord"].mean() - 0.5) < 0.01
    assert np.allclose(data["weight"].sum(-1), 1, atol=1e-5)
    logit = np.log(data["weight"].astype(np.float64))
    spread = (logit - logit.mean(-1, keepdims=True)).std() * np.sqrt(k / (k - 1))
    assert abs(spread - 1) < 0.03
    assert abs(data["value"].mean()) < 0.01 and abs(data["value"].std() - 1) < 0.01


def offsets_in_pixels(data, reference):
    levels = np.repeat(np.arange(len(data["points"])), data["points"])
    size = data["level_hw"][levels][:, ::-1]
    return (data["coord"].astype(np.float64) - reference[None, :, None, None]) * size


def assert_star(offset, head_of, points, step):
    point = np.concatenate([np.arange(p) for p in points])
    for b, m in np.ndindex(offset.shape[0], offset.shape[2]):
        angle = 2 * np.pi * (head_of(b, m) % 8) / 8 + step * point
        expected = (point % 4 + 1)[:, None] * np.stack([np.cos(angle), np.sin(angle)], -1)
        noise = offset[b, :, m] - expected
        assert np.abs(noise.mean(0)).max() < 0.2
        assert abs(noise.std() - 1.5) < 0.06


def test_local_data_around_pixels(msda_ok, tmp_path):
    data = saved(
        msda_ok,
        tmp_path / "in.npz",
        "--workload",
        "enc-local",
        "--levels",
        "30x50,15x25",
        "--points",
        4,
        "--batch",
        1,
    )
    assert data["query_hw"].tolist() == [[30, 50], [15, 25]]
    places = [
        ((x + 0.5) / w, (y + 0.5) / h)
        for h, w in data["level_hw"]
        for y in range(h)
        for x in range(w)
    ]
    assert_star(offsets_in_pixels(data, np.array(places)), lambda b, m: m, data["points"], 0)


def test_local_data_around_a_grid(msda_ok, tmp_path):
    data = saved(
        msda_ok,
        tmp_path / "in.npz",
        "--workload",
        "bev-fold-local",
        "--batch",
        9,
        "--queries",
        2000,
        "--levels",
        "30x50,15x25",
    )
    assert data["query_hw"].tolist() == [[16, 125]]
    q = np.arange(2000)
    places = np.stack([0.05 + 0.9 * (q % 125) / 124, 0.1 + 0.8 * (q // 125 / 124) ** 2], -1)
    assert_star(offsets_in_pixels(data, places), lambda b, m: b, data["points"], 0.7)


def test_data_depends_on_the_seed_alone(msda_ok, tmp_path):
    first, again, other = (
        saved(msda_ok, tmp_path / f"{i}.npz", *SMALL, "--seed", seed)
        for i, seed in enumerate((1, 1, 2))
    )
    for name in ("value", "coord", "weight"):
        assert (first[name] == again[name]).all()
        assert (first[name] != other[name]).mean() > 0.9


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--fused", 2],
        ["--fused", 4],
        ["--backward"],
        ["--backward", "--fused", 4],
        ["--value-border", 1],
        ["--pattern", "local", "--fused", 2, "--dtype", "bf16"],
    ],
)
def test_saved_inputs_run(msda_ok, tmp_path, flags):
    saved(msda_ok, tmp_path / "in.npz", *SMALL, *flags)
    backward = ["--backward"] if "--backward" in flags else []
    assert "ok" in msda_ok("run", tmp_path / "in.npz", "--check", *backward)
    assert " ok" in msda_ok("bench", *SMALL, *flags, "--iterations", 3, "--flush-mib", 0)


def test_reports(msda_ok, tmp_path):
    text = msda_ok(
        "bench",
        *SMALL,
        "--workload",
        "dec,dfine",
        "--points",
        4,
        "--levels",
        "9x7,4x3",
        "--kernels",
        "all",
        "--iterations",
        5,
        "--seconds",
        0,
        "--flush-mib",
        1,
        "--threads",
        2,
        "--json",
        tmp_path / "out.json",
        "--csv",
        tmp_path / "out.csv",
        "--plot",
        tmp_path / "out.svg",
    )
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["settings"] == {"threads": 2, "seed": 20260, "warmup": 2, "flush_bytes": 1 << 20}
    names = ["dec[levels queries=30 points]", "dfine[levels batch=2 queries=30 points]"]
    kernels = ["ref.cpu@1", "simd.cpu.f32@2"]
    rows = report["results"]
    assert [(r["workload"], r["kernel_id"]) for r in rows] == [
        (n, k) for n in names for k in kernels
    ]
    for row in rows:
        assert row["check"]["passed"] and row["check"]["elements"] == 2 * 30 * 8 * 32
        times = row["time_us"]
        assert len(times["runs"]) == 5 and times["runs"] == sorted(times["runs"])
        assert times["min"] == times["runs"][0] and times["median"] == times["runs"][2]
        assert 0 < times["min"] <= times["max"] == times["runs"][4]
        assert row["points"] == 2 * 30 * 8 * 8 and row["problem"]["points"] == [4, 4]
        assert any(
            line.startswith(row["workload"]) and row["kernel_id"] in line and line.endswith("ok")
            for line in text.splitlines()
        )
    table = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert list(table[0]) == [
        "workload",
        "operation",
        "kernel_id",
        "value_dtype",
        "coord_dtype",
        "math_mode",
        "input_mode",
        "median_us",
        "q1_us",
        "q3_us",
        "max_error",
        "error_share",
        "compared",
        "elements",
    ]
    for row, line in zip(rows, table, strict=True):
        assert line["workload"] == row["workload"] and line["kernel_id"] == row["kernel_id"]
        assert abs(float(line["median_us"]) - row["time_us"]["median"]) <= 0.051
        # The quartiles of five runs are the second and the fourth.
        for name, run in (("q1", 1), ("q3", 3)):
            assert row["time_us"][name] == row["time_us"]["runs"][run]
            assert abs(float(line[f"{name}_us"]) - row["time_us"]["runs"][run]) <= 0.051
        share = row["check"]["max_share_of_bound"]
        assert abs(float(line["error_share"]) - share) <= 1e-3 * share
        assert line["compared"] == line["elements"] == str(2 * 30 * 8 * 32)
    assert_plot(tmp_path / "out.svg", names, kernels)


def assert_plot(path, groups, series):
    root = xml.etree.ElementTree.parse(path).getroot()
    space = "{http://www.w3.org/2000/svg}"
    texts = [element.text for element in root.iter(f"{space}text")]
    for group in groups:
        assert texts.count(group) == 1
    for name in series:
        assert any(text.startswith(name) for text in texts)
    bars = [r for r in root.iter(f"{space}rect") if r.get("height") == "16.0"]
    assert len(bars) == len(groups) * len(series)
    width = float(root.get("width"))
    for bar in bars:
        assert (
            0 < float(bar.get("x")) + float(bar.get("width")) < width
            and float(bar.get("width")) > 0
        )


def test_check_uses_the_number_of_queries_asked_for(msda_ok, tmp_path):
    for queries, rows in ((7, 2 * 7), (0, 5 * 40)):
        msda_ok(
            "bench",
            "--levels",
            "9x7",
            "--batch",
            5,
            "--queries",
            40,
            "--check-queries",
            queries,
            "--json",
            tmp_path / "out.json",
            "--iterations",
            3,
            "--flush-mib",
            0,
        )
        result = json.loads((tmp_path / "out.json").read_text())["results"][0]
        assert result["check"]["elements"] == rows * 8 * 32


def checks(msda_ok, tmp_path, *arguments):
    """What the reports say of the check of `msda bench`: of JSON, of the CSV, and the table."""
    table = msda_ok(
        *["bench", "--iterations", 3, "--flush-mib", 0, *arguments],
        *["--json", tmp_path / "out.json", "--csv", tmp_path / "out.csv"],
    )
    results = json.loads((tmp_path / "out.json").read_text())["results"]
    lines = list(csv.DictReader((tmp_path / "out.csv").open()))
    return [row["check"] for row in results], lines, table


PROBLEM = ["--levels", "9x7,4x3", "--batch", 5, "--queries", 40, "--points", "3,5"]
PROBLEM_ELEMENTS = 5 * 40 * 8 * 32


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "f8_e4m3"])
@pytest.mark.parametrize("flags", [[], ["--fused", 2], ["--fused", 4, "--math", "fast"]])
def test_check_of_all_elements(msda_ok, tmp_path, dtype, flags):
    arguments = [*PROBLEM, *flags, "--dtype", dtype, "--kernels", "all"]
    rows, lines, table = checks(msda_ok, tmp_path, "--check", "all", *arguments)
    assert len(rows) == (1 if dtype == "f64" else 2)
    for row, line in zip(rows, lines, strict=True):
        assert row["passed"] and row["reference"] == "ref.cpu@1"
        assert row["elements"] == row["all_elements"] == PROBLEM_ELEMENTS
        assert line["compared"] == line["elements"] == str(PROBLEM_ELEMENTS)
        assert float(line["error_share"]) <= 1
    # 16-bit results are mostly the exact ones rounded, which is no error.
    if dtype in ("f32", "f8_e4m3"):
        assert max(row["max_share_of_bound"] for row in rows) > 0
    assert "all of 51.2 k" in table


@pytest.mark.parametrize("flags", [[], ["--fused", 2], ["--fused", 4], ["--dtype", "f8_e4m3"]])
def test_check_of_all_gradients(msda_ok, tmp_path, flags):
    arguments = [*PROBLEM, "--backward", *flags]
    rows, _, _ = checks(msda_ok, tmp_path, "--check", "all", *arguments)
    tokens, points = 9 * 7 + 4 * 3, 8
    fused = {2: 2, 4: 4}.get(flags[1] if flags else 0)
    count = 5 * (tokens * 8 * 32 + 40 * 8 * points * 3 + (40 * 2 * fused if fused else 0))
    assert rows[0]["passed"] and rows[0]["elements"] == rows[0]["all_elements"] == count


def test_check_of_all_elements_takes_batch_items_in_turn(msda_ok, tmp_path):
    """64 MiB of float64 at a time: here 7, 7 and 6 batch items of 8 MiB of values."""
    arguments = ["--levels", "64x64", "--batch", 20, "--queries", 50, "--points", 2]
    rows, _, _ = checks(msda_ok, tmp_path, "--check", "all", *arguments)
    assert rows[0]["passed"] and rows[0]["elements"] == 20 * 50 * 8 * 32


def test_what_is_not_compared_is_said(msda_ok, tmp_path):
    sample = ["--check-queries", 7]
    rows, lines, table = checks(msda_ok, tmp_path, *PROBLEM, *sample)
    assert rows[0]["elements"] == 2 * 7 * 8 * 32 and rows[0]["all_elements"] == PROBLEM_ELEMENTS
    assert lines[0]["compared"] == str(2 * 7 * 8 * 32)
    assert lines[0]["elements"] == str(PROBLEM_ELEMENTS)
    assert "3.58 k of 51.2 k" in table
    rows, lines, table = checks(msda_ok, tmp_path, *PROBLEM, *sample, "--backward")
    assert rows[0]["of_smaller_problem"] and lines[0]["compared"] == "0"
    assert "smaller problem" in table
    rows, lines, table = checks(msda_ok, tmp_path, *PROBLEM, "--check", "none")
    assert rows[0] == {"passed": None, "elements": 0, "all_elements": PROBLEM_ELEMENTS}
    assert (lines[0]["max_error"], lines[0]["error_share"], lines[0]["compared"]) == ("", "", "0")
    assert float(lines[0]["median_us"]) > 0
    assert "not checked" in table


def test_check_modes_that_do_not_exist(msda):
    bad = msda("bench", *PROBLEM, "--check", "most")
    assert bad.returncode == 2
    assert bad.stderr == "msda bench: error: --check is 'most': must be sample, all or none\n"
    bad = msda("bench", *PROBLEM, "--check", "none", "--check-queries", 3)
    assert bad.returncode == 2
    assert bad.stderr == (
        "msda bench: error: --check-queries is 3: with --check none there is no sample\n"
    )


@pytest.mark.parametrize("flags", [[], ["--fused", 2], ["--fused", 4]])
def test_points_of_backward_problems_keep_away_from_pixel_lines(msda_ok, tmp_path, flags):
    sizes = ["--levels", "90x70", "--batch", 1, "--queries", 4000, "--points", 2]
    nearest = {}
    for backward in ([], ["--backward"]):
        data = saved(msda_ok, tmp_path / "in.npz", *sizes, *flags, *backward)
        data = {name: array.astype(np.float64) for name, array in data.items()}
        if flags:
            reference = data["reference"][:, :, None]
            unit = 1 / np.array([70, 90]) if flags[1] == 2 else reference[..., 2:] / (2 * 2)
            coord = reference[..., :2] + data["offset"] * unit
        else:
            coord = data["coord"]
        position = coord * [70, 90] - 0.5
        nearest[bool(backward)] = np.abs(position - np.rint(position)).min()
    assert nearest[False] < 1e-4 and nearest[True] > 0.9 * 2**-10


def test_slow_kernels_stop_early(msda_ok, tmp_path):
    msda_ok(
        "bench",
        "--workload",
        "rtdetr",
        "--kernels",
        "ref.cpu@1",
        "--seconds",
        "0.001",
        "--json",
        tmp_path / "out.json",
        "--warmup",
        0,
        "--flush-mib",
        0,
    )
    result = json.loads((tmp_path / "out.json").read_text())["results"][0]
    assert len(result["time_us"]["runs"]) == 3


def test_progress_bar_only_on_a_terminal(msda_ok):
    arguments = ["bench", *SMALL, "--iterations", 3, "--flush-mib", 0]
    bar, table = on_a_terminal(*arguments)
    assert "custom  making data" in bar and "simd.cpu.f32@2  timing" in bar and "%" in bar
    assert "[####" in bar
    assert bar.endswith("\r\x1b[2K"), "the bar is taken away at the end"
    assert "\x1b" not in table
    assert "\x1b" not in msda_ok(*arguments)  # and its stderr is empty


def test_runs_one_after_the_other(msda_ok, tmp_path):
    options = ["--threads", "1,2", "--dtype", "f32,f16", "--iterations", 3, "--json", tmp_path / "t.json"]
    lines = [line.split() for line in msda_ok("bench", *SMALL, *options).splitlines()]
    head = next(i for i, line in enumerate(lines) if line[0] == "workload")
    assert " ".join(lines[head]).startswith("workload kernel threads value coord times as fast median")
    rows = [line[1:4] for line in lines[head + 1 :]]  # behind the name, which has a word here
    results = json.loads((tmp_path / "t.json").read_text())
    assert results["settings"]["threads"] == [1, 2]
    kinds = [(r["threads"], r["problem"]["value_dtype"]) for r in results["results"]]
    assert kinds == [(1, "f32"), (1, "f16"), (2, "f32"), (2, "f16")]
    assert len(rows) == 4 and all(r["check"]["passed"] for r in results["results"])
    medians = [r["time_us"]["median"] for r in results["results"]]
    shown = [next(word for word in line[4:] if re.fullmatch(r"\d+\.\d\d", word)) for line in lines[head + 1 :]]
    assert shown == [f"{medians[0] / median:.2f}" for median in medians]


def test_quiet(msda_ok, tmp_path):
    assert msda_ok("bench", *SMALL, "-q", "--iterations", 3, "--csv", tmp_path / "t.csv") == ""
    assert json.loads(msda_ok("explain", "--levels", "4x4", "-q", "--json", "-"))["results"]  # and no word on stderr
    assert (tmp_path / "t.csv").stat().st_size > 0
