"""tools/measure fit on times made from known constants: does it find them again?"""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/lib"))
import fit_costs as tool  # noqa: E402
import parts  # noqa: E402
from measurements import measured_problem, read_csv, write_drawn  # noqa: E402

# A model of few constants in the place of msda_cost_model: the same words, the same bytes.
STUB = """
#!{python}
import json, struct, sys
NAMES = ["a.launch_us", "a.point_ns", "a.f16_factor", "a.large_us", "b.launch_us"]
SOURCES = {sources}
if len(sys.argv) == 1:
    print(json.dumps(list(zip(NAMES, SOURCES))))
    sys.exit()
rows = json.load(open(sys.argv[1]))
if any(row["heads"] == 13 for row in rows):
    sys.exit("stub: error: 13 heads are too many")
while len(read := sys.stdin.buffer.read(40)) == 40:
    launch, point, f16, large, _ = struct.unpack("5d", read)
    for row in rows:
        points = row["batch"] * row["queries"] * row["heads"] * sum(row["points"]) / row["sm_count"]
        factor = f16 if row["value_dtype"] == "F16" else 1
        if row["kernel_id"].startswith("a.plain"):
            factor *= 1.1
        us = launch + 1e-3 * point * points * factor + (large if row["heads"] > 64 else 0)
        sys.stdout.buffer.write(struct.pack("d", us))
    sys.stdout.flush()
"""
TRUTH = {"a.launch_us": 5.0, "a.point_ns": 2.0, "a.f16_factor": 0.6}
FAR = [8.0, 1.0, 1.0, 3.0, 4.0]  # in the sources
NEAR = [5.0, 2.0, 0.6, 3.0, 4.0]


def stub(folder, sources):
    program = folder / "model"
    program.write_text(textwrap.dedent(STUB).lstrip().format(python=sys.executable, sources=sources))
    program.chmod(0o755)
    return program


def drawn_rows(count, kernels=("a.fast@1", "a.plain@1"), seed=1):
    rng = random.Random(seed)
    for problem in range(count):
        dtype = rng.choice(["f32", "f16"])
        sizes = {"problem": problem, "batch": rng.choice([1, 2, 8]), "heads": 8, "channels": 32,
                 "levels": "40x60 20x30", "points": "4 4", "queries": round(10 ** rng.uniform(2, 4.5)),
                 "pattern": "local", "operation": "forward", "value_dtype": dtype, "coord_dtype": "f32",
                 "math_mode": "accurate", "input_mode": rng.choice(["sampled", "fused2"]),
                 "predicted_us": 0, "q1_us": 0, "q3_us": 0}
        yield from (sizes | {"kernel_id": kernel} for kernel in kernels)


def true_time(row):
    points = row["batch"] * row["queries"] * row["heads"] * 8 / 132
    factor = (TRUTH["a.f16_factor"] if row["value_dtype"] == "f16" else 1) * (1.1 if "plain" in row["kernel_id"] else 1)
    return TRUTH["a.launch_us"] + 1e-3 * TRUTH["a.point_ns"] * points * factor


def write(path, noise=0.0, **changes):
    rng = random.Random(2)
    rows = [row | changes for row in drawn_rows(150)]
    times = [{"median_us": true_time(row) * (1 + noise * rng.uniform(-1, 1))} for row in rows]
    write_drawn(path, "made up", [row | time | changes for row, time in zip(rows, times)])
    return path


@pytest.fixture
def fit_costs(capsys):
    """Runs the script in this process: (exit status, what it printed, what it complained of)."""

    def run(*arguments):
        status = parts.run("", {"fit": "fit_costs"}, ["fit", *map(str, arguments)])
        printed = capsys.readouterr()
        return types.SimpleNamespace(returncode=status, stdout=printed.out, stderr=printed.err)

    return run


def fitted(output):
    return {name: float(value) for name, value in re.findall(r"^(\S+\.\S+) +\S+ +(\S+) +\S+% +\S+%$", output, re.M)}


@pytest.mark.parametrize("noise, tolerance", [(0, 1e-3), (0.03, 0.02)])
@pytest.mark.parametrize("name", ["drawn.csv", "drawn.csv.gz"])
def test_known_constants_are_found_again(fit_costs, tmp_path, name, noise, tolerance):
    done = fit_costs("--model", stub(tmp_path, FAR), write(tmp_path / name, noise))
    assert done.returncode == 0, done.stderr
    assert fitted(done.stdout) == pytest.approx(TRUTH, rel=tolerance)
    # No row has more than 64 heads, and none is of b.
    assert "large_us" not in done.stdout and "b.launch_us" not in done.stdout
    assert "300 times of 150 problems" in done.stdout


def test_a_constant_that_the_data_leave_open_is_said_to_be(fit_costs, tmp_path):
    path = write(tmp_path / "drawn.csv", 0.1, queries=5, value_dtype="f32")
    done = fit_costs("--model", stub(tmp_path, FAR), path)
    assert re.search(r"^a.point_ns +1 +not identified by these data$", done.stdout, re.M), done.stdout


def test_regret_is_of_the_kernel_predicted_fastest(fit_costs, tmp_path):
    rows = [row | {"median_us": 10 if "fast" in row["kernel_id"] else 8} for row in drawn_rows(5)]
    write_drawn(tmp_path / "drawn.csv", "made up", rows)
    done = fit_costs("--model", stub(tmp_path, NEAR), tmp_path / "drawn.csv")
    assert "regret: median 25.0%, mean 25.0%, 90 % at most 25.0%, worst 25.0%, above 8 % 5 of 5" in done.stdout


def test_problems_are_held_out_by_their_number(fit_costs, tmp_path):
    """Held out are those that take twice as long: the fit does not see them, and is off by half for them."""
    rows = [row | {"median_us": true_time(row) * (2 if row["problem"] % 3 == 0 else 1)} for row in drawn_rows(150)]
    write_drawn(tmp_path / "drawn.csv", "made up", rows)
    done = fit_costs("--hold-out", 3, "--model", stub(tmp_path, FAR), tmp_path / "drawn.csv")
    assert done.returncode == 0, done.stderr
    assert fitted(done.stdout) == pytest.approx(TRUTH, rel=2e-3)
    assert "200 times of 100 problems" in done.stdout
    assert re.search(r"^  fitted, held out: predictions are off by 100\.\d%; .* of 50$", done.stdout, re.M), done.stdout
    every = fit_costs("--hold-out", 1, "--model", stub(tmp_path, FAR), tmp_path / "drawn.csv")
    assert every.returncode == 2 and "no problem is left to fit to" in every.stderr


def test_the_fit_weighs_the_regret(tmp_path):
    """The sizes of regret that the fit sees: of the kernels that may be chosen, beside the fastest of them."""
    rows = [row | {"median_us": 10 if "fast" in row["kernel_id"] else 8} for row in drawn_rows(5)]
    rows.append(rows[0] | {"problem": 5})  # a problem with one kernel leaves no choice
    write_drawn(tmp_path / "drawn.csv", "made up", rows)
    kernels, regrets = tool.Data([tmp_path / "drawn.csv"], {"sm": 90, "sm_count": 132}).choices()
    assert kernels.shape == regrets.shape == (5, 2)
    assert sorted(kernels.ravel()) == list(range(10))
    assert regrets == pytest.approx(np.array([[0.25, 0.0]] * 5))


@pytest.mark.parametrize("changes, message", [
    ({"median_us": 0}, "row 1: median_us is '0': must be a time above 0"),
    ({"median_us": "nan"}, "row 1: median_us is 'nan': must be a time above 0"),
    ({"levels": "40 60"}, "row 1: levels are '40 60': must be heights and widths such as 92x160 46x80"),
    ({"points": "4"}, "row 1: points are '4': must be a number for each of 2 levels"),
    ({"input_mode": "other"}, "row 1: input_mode is 'other': must be sampled, fused2 or fused4"),
    ({"heads": 13}, "stub: error: 13 heads are too many"),
])
def test_data_that_cannot_be_used(fit_costs, tmp_path, changes, message):
    done = fit_costs("--model", stub(tmp_path, FAR), write(tmp_path / "drawn.csv", **changes))
    assert done.returncode == 2 and message in done.stderr, done.stderr


def test_a_model_that_is_not_built(fit_costs, tmp_path):
    done = fit_costs("--model", tmp_path / "gone", write(tmp_path / "drawn.csv"))
    assert done.returncode == 2 and "gone does not exist: build the target msda_cost_model" in done.stderr


# The library's own model: times are made from constants that differ from those in the sources.

PERSISTENT = ["persistent.sm80.{t}.d32.pany.s1", "persistent.sm80.{t}.d64.pany.s1", "persistent.sm80.{t}.d16.pany.s1"]
DIRECT = ["direct.sm75.{t}.d32.pany", "direct.sm75.{t}.d64.pany", "direct.sm75.{t}.d16.pany"]


@pytest.fixture(scope="module")
def library_model():
    path = pathlib.Path(os.environ.get("MSDA_COST_MODEL", ROOT / "build" / "release" / "bin" / "msda_cost_model"))
    if not path.exists():
        pytest.fail(f"{path} does not exist: build the target msda_cost_model, or set MSDA_COST_MODEL")
    return path


def kernels_of(row, known):
    """Kernels that take the problem, ids with the revisions that the library has: two for any points and, where there
    are some, two for 4 a level, without which the work of a job and the factor for any points are one number."""
    of_width = [name for name in PERSISTENT + DIRECT if f".d{row['channels']}." in name]
    wanted = [name.format(t=row["value_dtype"]) for name in of_width]
    if row["channels"] == 32 and set(row["points"].split()) == {"4"}:
        wanted += [name.replace(".pany", ".p4") for name in wanted]
    return [next(k for k in known if k.startswith(name + "@")) for name in wanted]


def library_rows(known, count):
    rng = random.Random(3)
    for problem in range(count):
        levels = [(rng.randint(10, 100), rng.randint(10, 100)) for _ in range(rng.randint(1, 4))]
        row = {"problem": problem, "batch": rng.choice([1, 2, 8]), "heads": rng.choice([1, 4, 8]),
               "channels": rng.choice([16, 32, 64]), "levels": " ".join(f"{h}x{w}" for h, w in levels),
               "points": " ".join([str(rng.choice([1, 2, 3, 4, 8, 16]))] * len(levels)),
               "queries": round(10 ** rng.uniform(2, 4.5)), "pattern": "uniform", "operation": "forward",
               "value_dtype": rng.choice(["f32", "f16", "bf16"]), "coord_dtype": "f32", "math_mode": "accurate",
               "input_mode": "sampled", "predicted_us": 0, "median_us": 1, "q1_us": 1, "q3_us": 1}
        yield from (row | {"kernel_id": kernel} for kernel in kernels_of(row, known))


def test_the_librarys_own_constants_are_found_again(fit_costs, library_model, tmp_path):
    info = subprocess.run([library_model.with_name("msda"), "info", "--json", "-", "-q"], check=True, capture_output=True).stdout
    known = [kernel["id"] for kernel in json.loads(info)["kernels"]]
    if not any(kernel.startswith("direct.") for kernel in known):
        pytest.skip("built without CUDA: no GPU kernels")
    rows = list(library_rows(known, 600))
    path = tmp_path / "drawn.csv"
    write_drawn(path, "made up", rows)
    problems = [measured_problem(row, {}) | {"sm": 90, "sm_count": 132, "kernel_id": row["kernel_id"]}
                for row in read_csv(path, ())[1]]
    model = tool.Model(library_model, problems)
    # Each by its name, so that another family changes no other's.
    truth = model.values * [np.random.default_rng(list(name.encode())).uniform(0.75, 1.33) for name in model.names]
    rng = np.random.default_rng(4)
    times = model.predict(truth) * (1 + 0.01 * rng.uniform(-1, 1, len(rows)))
    model.close()
    write_drawn(path, "made up", [row | {"median_us": time} for row, time in zip(rows, times)])
    done = fit_costs("--model", library_model, path)
    assert done.returncode == 0, done.stderr
    found = fitted(done.stdout)
    wanted = {name: value for name, value in zip(model.names, truth) if name in found}
    assert {"direct.launch_us", "direct.wait_us", "direct.row_vec_ns", "persistent.f32_launch_us", "persistent.b16_job_ns",
            "persistent.b16_gather_ns", "persistent.f32_gather_ns"} <= found.keys()
    assert found == pytest.approx(wanted, rel=0.1)
    assert np.median([abs(found[n] / wanted[n] - 1) for n in found]) < 0.02
    assert re.search(r"fitted: predictions are off by 0\.\d%", done.stdout)
    assert re.search(r"sources: predictions are off by \d\d\.\d%", done.stdout)


def test_predictions_stand_beside_measured_times(fit_costs, tmp_path):
    """Without brackets where another row has a later revision of the kernel; nothing is fitted."""
    path = tmp_path / "workloads.csv"
    path.write_text("""# made up
workload,operation,kernel_id,value_dtype,coord_dtype,math_mode,input_mode,median_us
dec,backward,a.fast@1,f32,f32,accurate,sampled,200
enc-local,backward,a.fast@2,f32,f32,accurate,sampled,44.25
dec,backward,a.plain@1,f32,f32,accurate,sampled,50
""")
    done = fit_costs("--predictions", "--model", stub(tmp_path, [7.0, 0.0, 1.0, 3.0, 4.0]), path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "| predicted (measured) | dec | enc-local |",
        "|---|---|---|",
        "| `a.fast@2` | 7.0 | 7.0 (44.2) |",
        "| `a.plain@1` | 7.0 (50.0) |  |",
    ]


def test_predictions_need_workloads(fit_costs, tmp_path):
    done = fit_costs("--predictions", "--model", stub(tmp_path, NEAR), write(tmp_path / "drawn.csv"))
    assert done.returncode == 2 and "column workload" in done.stderr
