"""msda roofline: what is counted, the bounds that follow, and what stands beside them."""

import collections
import csv
import io
import json
import re
import xml.etree.ElementTree

import pytest

from conftest import ROOT

RATES = ROOT / "bench/rates/h200.json"
BASELINE = ROOT / "bench/baselines/h200.csv"



def kernel(name):
    """The id of a kernel of the persistent family: with its revision."""
    variants = (ROOT / "kernels/persistent/variants.inc").read_text()
    for row in re.findall(r"^MSDA_VARIANT\((.*)\)", variants, re.M):
        dtype, channels, points, spread, revision, sm, *_ = row.split(", ")
        if name == f"persistent.sm{sm}.{dtype}.{channels}.{points}.{spread}":
            return f"{name}@{revision}"
    raise KeyError(name)


def rate(name):
    return json.loads(RATES.read_text())["rates"][name]["value"]


def baseline():
    with open(BASELINE) as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


KERNEL = kernel("persistent.sm80.f16.d32.p4.s1")
SMALL = ["--levels", "8x16,4x8", "--batch", 2, "--queries", 40, "--dtype", "f16", "--kernels", KERNEL]
LOCAL = ["--workload", "bev-local", "--dtype", "f16", "--kernels", kernel("persistent.sm80.f16.d32.p8.s1")]


def roofline(msda_ok, tmp_path, *words):
    """(what it prints, its JSON)"""
    text = msda_ok("roofline", *words, "--json", tmp_path / "out.json")
    return text, json.loads((tmp_path / "out.json").read_text())


def test_counts_and_bounds_of_a_small_problem(msda_ok, tmp_path):
    text, report = roofline(msda_ok, tmp_path, *SMALL)
    (row,) = report["results"]
    # 640 rows of 8 points. A job of a warp is 4 queries with 2 heads: 10 x 4 x 2 jobs, a chunk each, 8 records a slot.
    jobs = 80
    counts = row["counts"]
    assert counts["input_bytes"] == 640 * 8 * 12
    assert counts["output_bytes"] == 640 * 64
    assert counts["value_bytes"] == 2 * 160 * 8 * 64
    assert counts["compulsory_bytes"] == 61440 + 40960 + 163840
    assert counts["gathered_bytes"] == 640 * 8 * 4 * 64
    assert counts["gathered_sectors"] == 640 * 8 * 4 * 2
    assert counts["gather_loads"] == jobs * 8 * 4
    assert counts["wavefronts"] == {
        "all": 10240 + 1920 + 480 + 320,
        "gather": jobs * 8 * 4 * 4,
        "records": jobs * (2 * 4 + 8 * 2),
        "inputs": 61440 / 128,
        "outputs": 40960 / 128,
        "copies": 0,
    }
    assert counts["instructions"] == jobs * (144 + 24 + 2 * 30 + 8 * 76)
    bounds = row["bounds_us"]
    most = 61440 + 40960 + 1310720
    for level in ("hbm", "l2"):
        bytes_per_us = [rate(f"{level}_tb_per_s_{width}") * 1e6 for width in (128, 64)]
        assert bounds[level] == pytest.approx([266240 / bytes_per_us[0], most / bytes_per_us[1]])
    assert bounds["l1"] == pytest.approx((2560 * rate("load_cycles") + 1920 + 480 + 320) / (132 * 1980))
    assert bounds["issue"] == pytest.approx(66880 / (4 * 132 * 1980))
    assert bounds["launch"] == bounds["largest"] == rate("launch_us") and bounds["binds"] == "launch"
    assert row["measured_us"] is None
    cells = [line.split() for line in text.splitlines() if line.startswith("custom")]
    assert cells[0][-7:] == ["81.0", "64.0", "12.0", "3.0", "2.0", "0.0", "418.0"]
    assert cells[1][-4:] == ["2.7", "launch", "-", "-"]


def test_rows_that_do_not_fill_a_job_are_counted_as_the_kernel_does_them(msda_ok, tmp_path):
    words = [41 if word == 40 else word for word in SMALL]
    (row,) = roofline(msda_ok, tmp_path, *words)[1]["results"]
    assert row["counts"]["gather_loads"] == 88 * 8 * 4  # 11 jobs of 4 queries
    assert row["counts"]["output_bytes"] == 656 * 64


def test_rows_of_32_bytes_are_bound_by_lines(msda_ok, tmp_path):
    words = ["--workload", "bev-local", "--dtype", "f8_e4m3", "--kernels", kernel("persistent.sm90.f8.d32.p8.s1")]
    (row,) = roofline(msda_ok, tmp_path, *words)[1]["results"]
    waves = row["counts"]["wavefronts"]
    cycles = row["counts"]["gather_loads"] * 16 / rate("lines_per_cycle") + waves["all"] - waves["gather"]
    assert row["bounds_us"]["l1"] == pytest.approx(cycles / (132 * 1980))


def test_json_has_settings_and_nothing_else(msda_ok, tmp_path):
    _, report = roofline(msda_ok, tmp_path, *LOCAL)
    assert set(report) == {"build", "machine", "settings", "results", "ncu"}
    assert report["settings"]["times"] == "bench/baselines/h200.csv"
    stored = json.loads(RATES.read_text())
    for name, rate in stored["rates"].items():
        assert report["settings"]["rates"]["rates"][name]["value"] == rate["value"]
        assert rate["source"]
    (row,) = report["results"]
    assert set(row) == {"workload", "kernel_id", "problem", "counts", "bounds_us", "measured_us"}
    assert row["problem"]["value_dtype"] == "f16" and row["problem"]["queries"] == 15422
    assert report["ncu"] == []
    assert row["measured_us"]["median"] == float(stored_row(row["kernel_id"])["median_us"])


def stored_row(kernel_id):
    """Of bev-local, sampled and accurate."""
    wanted = {"workload": "bev-local", "kernel_id": kernel_id, "input_mode": "sampled", "math_mode": "accurate"}
    (row,) = [row for row in baseline() if wanted.items() <= row.items()]
    return row


def test_no_bound_is_above_a_time_of_the_baseline(msda_ok, tmp_path):
    modelled = ("direct.", "persistent.")
    rows = [row for row in baseline() if row["median_us"] and row["kernel_id"].startswith(modelled)]
    problems = collections.defaultdict(dict)
    for row in rows:
        key = row["value_dtype"], row["coord_dtype"], row["math_mode"], row["input_mode"]
        problems[key][row["workload"], row["kernel_id"]] = float(row["median_us"])
    assert {row["operation"] for row in rows} == {"forward"}
    compared, binding = 0, collections.Counter()
    for (value, coord, math, mode), times in problems.items():
        words = ["--workload", "all", "--kernels", "all", "--value-dtype", value, "--coord-dtype", coord, "--math", math]
        words += [] if mode == "sampled" else ["--fused", mode.removeprefix("fused")]
        for row in roofline(msda_ok, tmp_path, *words)[1]["results"]:
            median = times.get((row["workload"], row["kernel_id"]))
            assert (row["measured_us"] or {}).get("median") == median
            if median is None:
                continue
            bounds = row["bounds_us"]
            assert bounds["largest"] <= median, (row["workload"], row["kernel_id"], bounds, median)
            assert bounds["hbm"][0] <= bounds["hbm"][1] and bounds["l2"][0] <= bounds["l2"][1]
            compared += 1
            binding[bounds["binds"]] += 1
    assert compared == len(rows) > 400
    assert {"L1 data pipe", "issue slots", "HBM"} <= set(binding)


def test_the_best_kernel_is_that_of_the_predictions(msda_ok, tmp_path):
    _, report = roofline(msda_ok, tmp_path, "--dtype", "f16")
    assert {row["workload"]: row["kernel_id"].split("@")[0] for row in report["results"]} == {
        "bev-fold": "persistent.sm80.f16.d32.p8.s1",
        "bev-fold-local": "persistent.sm80.f16.d32.p8.s1",
        "bev-local": "persistent.sm80.f16.d32.p8.s1",
        "enc-local": "persistent.sm80.f16.d32.p4.s1",
        "enc-uniform": "persistent.sm80.f16.d32.p4.s1",
        "dec": "persistent.sm80.f16.d32.p4.s4",
    }


def test_the_best_kernel_for_scattered_points_caches_levels(msda_ok, tmp_path):
    words = ["--workload", "bev-fold", "--dtype", "f16", "--point-locality", "scattered"]
    (row,) = roofline(msda_ok, tmp_path, *words)[1]["results"]
    assert row["kernel_id"] == kernel("persistent.sm90.f16.d32.p8.s1c")
    assert row["counts"]["copied_bytes"] == 128 * row["counts"]["wavefronts"]["copies"] > 0


@pytest.mark.parametrize("empty", ["--queries", "--batch", "--heads", "--channels"])
def test_an_empty_problem_asks_for_nothing(msda_ok, tmp_path, empty):
    words = ["--workload", "dec", "--dtype", "f16", "--math", "fast", "--kernels", "all", empty, 0]
    rows = roofline(msda_ok, tmp_path, *words)[1]["results"]
    assert rows
    for row in rows:
        assert row["counts"]["gathered_bytes"] == row["counts"]["value_bytes"] == row["counts"]["output_bytes"] == 0
        assert row["bounds_us"]["hbm"][0] < 1


def test_kernels_of_the_cpu_are_not_modelled(msda_ok, tmp_path):
    text, report = roofline(msda_ok, tmp_path, "--levels", "4x4", "--kernels", "ref.cpu@1")
    (row,) = report["results"]
    assert row["counts"] is None and row["bounds_us"] is None
    assert text.count("not modelled") == 2


def test_other_rates_change_the_bounds(msda_ok, tmp_path):
    rates = json.loads(RATES.read_text())
    rates["gpu"] = "a slower one"
    rates["rates"]["clock_mhz"]["value"] = 990
    (tmp_path / "rates.json").write_text(json.dumps(rates))
    text, slower = roofline(msda_ok, tmp_path, *LOCAL, "--rates", tmp_path / "rates.json")
    _, stored = roofline(msda_ok, tmp_path, *LOCAL)
    a, b = slower["results"][0], stored["results"][0]
    assert a["bounds_us"]["l1"] == pytest.approx(2 * b["bounds_us"]["l1"])
    assert a["bounds_us"]["hbm"] == b["bounds_us"]["hbm"]
    assert a["measured_us"] is None and text.startswith("a slower one, rates: ")


def test_times_of_a_file(msda_ok, tmp_path):
    times = tmp_path / "times.csv"
    row = stored_row(LOCAL[-1]) | {"median_us": "1362.6"}
    times.write_text(f"# one row\n{','.join(row)}\n{','.join(row.values())}\n")
    _, report = roofline(msda_ok, tmp_path, *LOCAL, "--times", times)
    assert report["results"][0]["measured_us"]["median"] == 1362.6
    assert report["settings"]["times"] == str(times)


@pytest.mark.parametrize(
    "words",
    [["--weight-dtype", "f16"], ["--output-dtype", "f32"], ["--value-border", 1], ["--batch", 3], ["--coord-dtype", "bf16"]],
)
def test_a_time_of_another_problem_is_not_taken(msda_ok, tmp_path, words):
    (row,) = roofline(msda_ok, tmp_path, *LOCAL, *words)[1]["results"]
    assert row["counts"] is not None and row["measured_us"] is None


def test_an_npz_file(msda_ok, tmp_path):
    msda_ok("bench", "--levels", "8x16,4x8", "--queries", 40, "--dtype", "f16", "--save-inputs", tmp_path / "in.npz")
    (row,) = roofline(msda_ok, tmp_path, tmp_path / "in.npz", "--kernels", KERNEL)[1]["results"]
    assert row["workload"] == str(tmp_path / "in.npz")
    assert row["counts"]["output_bytes"] == 40 * 8 * 64


SVG = "{http://www.w3.org/2000/svg}"


def drawn(msda_ok, path, *words):
    """(texts, places of all lines by their colour) of the roofline as SVG."""
    msda_ok("roofline", *words, "--plot", path)
    tree = xml.etree.ElementTree.parse(path)
    lines = collections.defaultdict(list)
    for line in tree.iter(f"{SVG}polyline"):
        lines[line.get("stroke")].append([tuple(map(float, place.split(","))) for place in line.get("points").split()])
    return [text.text for text in tree.iter(f"{SVG}text")], lines


def middle(outline):
    """Of a mark: of its corners without the first, which is the last again."""
    corners = outline[1:]
    return [sum(numbers) / len(corners) for numbers in zip(*corners)]


def test_each_kernel_is_under_the_roofline(msda_ok, tmp_path):
    texts, lines = drawn(msda_ok, tmp_path / "out.svg", "--workload", "enc-local,dec", "--dtype", "f16")
    assert "msda roofline - NVIDIA H200" in texts
    for name in ("HBM, 4.3 TB/s", "L2, 9.3 TB/s", "L1 data pipe, 33.5 TB/s"):
        assert name in texts
    (us,) = [float(row["median_us"]) for row in baseline() if row["workload"] == "enc-local" and row["kernel_id"] == KERNEL
             and row["math_mode"] == "accurate" and row["input_mode"] == "sampled"]
    assert f"enc-local  {KERNEL}: {us} us, 69 % of its bound (issue slots)" in texts
    for colour in ("#0072B2", "#E69F00", "#009E73"):
        (roof,) = [line for line in lines[colour] if len(line) == 2]
        marks = [line for line in lines[colour] if len(line) > 2]
        assert len(marks) == 3  # of the legend and of two kernels
        (left, low), (right, high) = roof
        slope = (low - high) / (right - left)
        for x, y in map(middle, marks[1:]):
            assert y > max(high, low - slope * (x - left))


def test_a_kernel_without_a_time_is_drawn_at_its_bound(msda_ok, tmp_path):
    texts, lines = drawn(msda_ok, tmp_path / "out.svg", "--workload", "dec", "--dtype", "f16", "--batch", 47)
    assert any("not measured, drawn at its bound" in text and text.endswith("(HBM)") for text in texts)
    (roof,) = [line for line in lines["#0072B2"] if len(line) == 2]
    (left, low), (right, high) = roof
    x, y = middle(lines["#0072B2"][-1])
    assert y == pytest.approx(low - (low - high) / (right - left) * (x - left), abs=0.3)


def test_a_kernel_without_counts_is_named_and_not_drawn(msda_ok, tmp_path):
    texts, lines = drawn(msda_ok, tmp_path / "out.svg", "--levels", "4x4", "--kernels", "ref.cpu@1")
    assert any("ref.cpu@1: not drawn, no instructions are counted" in text for text in texts)
    assert all(len(lines[colour]) == 2 for colour in ("#0072B2", "#E69F00", "#009E73"))  # roof and legend


# ---- Nsight Compute


COUNTERS = {
    "l1tex__data_pipe_lsu_wavefronts.sum": ("", "68,409,523"),
    "smsp__inst_executed.sum": ("inst", "273937230"),
    "l1tex__t_sector_hit_rate.pct": ("%", "90"),
    "lts__t_bytes.sum": ("Gbyte", "1.0"),
    "dram__bytes_read.sum": ("Mbyte", "492"),
}


def ncu_csv(counters=COUNTERS, launches=("0",), units=True):
    text = io.StringIO()
    text.write("==PROF== Connected to process 7\n")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["ID", "Kernel Name", *counters])
    if units:
        writer.writerow(["", "", *(unit for unit, _ in counters.values())])
    for launch in launches:
        writer.writerow([launch, 'rows(Params, "x")', *(value for _, value in counters.values())])
    text.write("==PROF== Disconnected from process 7\n")
    return text.getvalue()


def test_ncu_counters_stand_beside_the_counts(msda_ok, tmp_path):
    (tmp_path / "ncu.csv").write_text(ncu_csv(launches=("0", "4")))
    text, report = roofline(msda_ok, tmp_path, *LOCAL, "--ncu", tmp_path / "ncu.csv")
    counts = report["results"][0]["counts"]
    rows = {(row["launch"], row["counter"]): row for row in report["ncu"]}
    assert len(rows) == 2 * len(COUNTERS)
    waves = rows["4", "l1tex__data_pipe_lsu_wavefronts.sum"]
    assert waves["counted"] == counts["wavefronts"]["all"] and waves["measured"] == 68409523
    assert waves["ratio"] == pytest.approx(92.4 / 79.5, rel=1e-3)
    assert rows["0", "smsp__inst_executed.sum"]["ratio"] == pytest.approx(370 / 364, rel=1e-3)
    assert rows["0", "l1tex__t_sector_hit_rate.pct"]["counted"] is None
    l2 = rows["0", "lts__t_bytes.sum"]
    assert l2["measured"] == 1e9
    missed = counts["input_bytes"] + counts["output_bytes"] + 0.1 * counts["gathered_bytes"]
    assert l2["counted"] == pytest.approx(missed)
    assert rows["0", "dram__bytes_read.sum"]["counted"] == counts["input_bytes"] + counts["value_bytes"]
    assert "Nsight Compute" in text and "1.162" in text


LONG = '"ID","Metric Name","Metric Unit","Metric Value"\n"0","x","",1\n'


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "ncu.csv: no line begins with ID"),
        ("ncu failed\n", "ncu.csv: no line begins with ID"),
        (LONG, "ncu.csv: has a line a counter: must be of `ncu --csv --page raw`"),
        (ncu_csv({}), "ncu.csv: has no launch with one of the counters l1tex__data_pipe_lsu_wavefronts.sum, "),
        (ncu_csv(launches=()), "ncu.csv: has no launch with one of the counters"),
        (ncu_csv(units=False), "ncu.csv, line 3: must be the line of units, whose ID is empty, but its ID is 0"),
        (ncu_csv() + '"1","cut"\n', "ncu.csv, line 6: has 2 cells, but the line of names has 7"),
        (ncu_csv() + '"1","cut', "ncu.csv, line 6: a quote is not closed"),
        (
            ncu_csv({"smsp__inst_executed.sum": ("inst", "many")}),
            "ncu.csv, line 4: smsp__inst_executed.sum is 'many': must be a number",
        ),
    ],
)
def test_malformed_ncu_file(msda, tmp_path, text, message):
    (tmp_path / "ncu.csv").write_text(text)
    result = msda("roofline", *LOCAL, "--ncu", "ncu.csv", cwd=tmp_path)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith(f"msda roofline: error: {message}"), result.stderr
    assert result.stderr.count("\n") == 1


def without(*path):
    rates = json.loads(RATES.read_text())
    inner = rates
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return json.dumps(rates)


def changed(value, *path):
    rates = json.loads(RATES.read_text())
    inner = rates
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return json.dumps(rates)


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "rates.json: is not JSON: "),
        ("[]", "rates.json: must be an object"),
        (without("gpu"), "rates.json: gpu is missing: must be the GPU's name"),
        (without("sm_count"), "rates.json: sm_count is missing"),
        (without("rates"), "rates.json: rates.clock_mhz.value is missing: must be a number above 0"),
        (without("rates", "launch_us"), "rates.json: rates.launch_us.value is missing: must be a number"),
        (without("rates", "launch_us", "value"), "rates.json: rates.launch_us.value is missing"),
        (changed(0, "rates", "clock_mhz", "value"), "rates.json: rates.clock_mhz.value is 0: must be a number above 0"),
        (changed("fast", "rates", "clock_mhz", "value"), "rates.json: rates.clock_mhz.value is \"fast\": must be"),
    ],
)
def test_malformed_rates(msda, tmp_path, text, message):
    (tmp_path / "rates.json").write_text(text)
    result = msda("roofline", *LOCAL, "--rates", "rates.json", cwd=tmp_path)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith(f"msda roofline: error: {message}"), result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "text, message",
    [
        ("a,b\n1,2\n", "times.csv: no line begins with workload"),
        ("workload,operation\nx,forward\n", "times.csv: has no column kernel_id: must be a CSV of `msda bench`"),
        ("\n".join([*BASELINE.read_text().splitlines()[:2], "bev-local,forward"]), "times.csv, line 3: has 2 cells"),
    ],
)
def test_malformed_times(msda, tmp_path, text, message):
    (tmp_path / "times.csv").write_text(text)
    result = msda("roofline", *LOCAL, "--times", "times.csv", cwd=tmp_path)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith(f"msda roofline: error: {message}"), result.stderr
