"""What bench/peers/gpu_selection.py makes of measured times. The script itself needs a GPU; this part does not."""

import csv
import pathlib
import random
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench/peers"), str(ROOT / "tools/lib")]
from drawn_problems import NEAR, draw, draw_near, fits  # noqa: E402
from measurements import DRAWN, measured_problem, read_csv, write_drawn  # noqa: E402
from selection_report import csv_rows, family_lines, judged, nearest, ranked, report_lines  # noqa: E402

EXPLAINED = """1  persistent.s1@3  predicted 20.5 us
2  persistent.s1c@1  predicted 20.1 us, only chosen for scattered points or by tuning
3  direct.p4@1  predicted 31.0 us
-  simd.cpu.f32@2  rejected: runs on the CPU, the handle's device is a GPU
"""
WORK = {"batch": 2, "heads": 8, "channels": 32, "levels": [[40, 60], [20, 30]], "queries": 900, "points": [4, 4],
        "pattern": "uniform"}


def row_of(times, **changes):
    return judged({
        "work": WORK, "operation": "forward", "value_dtype": "f8_e4m3", "input_mode": "fused2", "math_mode": "accurate",
        "chosen": "persistent.s1c@1", "chosen_untold": "persistent.s1@3", "times": times,
        "quartiles": {name: (t - 1, t + 1) for name, t in times.items()},
        "predicted": ranked(EXPLAINED)} | changes)


def test_explained_kernels():
    assert list(ranked(EXPLAINED).items()) == [("persistent.s1@3", 20.5), ("persistent.s1c@1", 20.1), ("direct.p4@1", 31.0)]


@pytest.mark.parametrize("times, told, untold", [
    ((20, 20, 30), 0, 0),
    ((20, 16, 30), 0, 0.25),
    ((20, 25, 30), 0.25, 0),
    ((20, 8, 4), 1, 4),
])
def test_regret_of_plans_that_are_told_where_points_land_and_of_those_that_are_not(times, told, untold):
    row = row_of(dict(zip(("persistent.s1@3", "persistent.s1c@1", "direct.p4@1"), times)))
    assert row["regret"] == pytest.approx(told)
    assert row["regret_untold"] == pytest.approx(untold)


def test_peers_are_no_kernels_of_ours():
    row = row_of({"persistent.s1@3": 25, "persistent.s1c@1": 20, "direct.p4@1": 30, "a peer": 10, "another": 30})
    assert row["regret"] == 0 and row["against_peers"] == 0.5
    assert "1 problems beside peers; the faster peer's time over ours: least 0.50" in "\n".join(report_lines([row]))


def test_the_report_names_what_was_lost_and_to_which_kernel():
    rows = [row_of({"persistent.s1@3": 20, "persistent.s1c@1": c, "direct.p4@1": 25}) for c in (30, 25, 16)]
    lines = list(report_lines(rows))
    assert "| accurate | 3 | yes | 25.0% | 25.0% | 50.0% | 50.0% | 2 |" in lines
    assert "| accurate | 3 | no | 0.0% | 8.3% | 25.0% | 25.0% | 1 |" in lines
    assert "| f8_e4m3, fused2 | 3 | yes | 25.0% | 25.0% | 50.0% | 50.0% | 2 |" in lines
    assert "| points uniform | 3 | no | 0.0% | 8.3% | 25.0% | 25.0% | 1 |" in lines
    worst = lines[lines.index("Worst of the told ones:") + 1]
    assert worst.startswith("   50.0%  f8_e4m3 fused2")
    assert worst.endswith(": persistent.s1c@1 30.0 us, persistent.s1@3 20.0 us")


def test_times_are_kept_as_the_fit_reads_them(tmp_path):
    path = tmp_path / "drawn.csv.gz"
    rows = [row_of({"persistent.s1@3": 20, "persistent.s1c@1": 25.123, "direct.p4@1": 30, "a peer": 10}), row_of(
        {"persistent.s1@3": 21, "direct.p4@1": 31})]  # without a time of one kernel
    write_drawn(path, "A GPU", csv_rows(rows))
    about, kept = read_csv(path, DRAWN)
    assert about == "A GPU" and len(kept) == 5 and [row["problem"] for row in kept] == ["1", "1", "1", "2", "2"]
    assert kept[1]["median_us"] == "25.12" and kept[1]["q1_us"] == "24.12" and kept[1]["q3_us"] == "26.12"
    assert measured_problem(kept[0], {}) == {
        "batch": 2, "heads": 8, "channels": 32, "queries": 900, "levels": [[40, 60], [20, 30]], "points": [4, 4],
        "point_locality": "scattered", "reference_dim": 2, "operation": "forward", "math_mode": "accurate",
        "value_dtype": "F8_E4M3", "coord_dtype": "F32"}
    plain = tmp_path / "drawn.csv"
    write_drawn(plain, "A GPU", csv_rows(rows))
    assert list(csv.DictReader(plain.read_text().splitlines()[1:])) == kept


def two_families(persistent, cached, direct):
    return row_of({"persistent.s1@3": persistent, "persistent.s1c@1": cached, "direct.p4@1": direct, "a peer": 1})


def test_a_family_is_compared_with_the_fastest_kernel_of_the_others():
    rows = [two_families(20, 30, 25), two_families(20, 30, 16), two_families(24, 30, 15), row_of({"persistent.s1@3": 3})]
    best = nearest(rows, "direct")
    assert best.row is rows[2] and (best.kernel, best.other, best.ratio) == ("direct.p4@1", "persistent.s1@3", 1.6)
    lines = list(family_lines(rows, "direct", "direct.p4@1"))
    assert lines[0] == "direct: took part in 3 of 4 problems, the fastest of all on 2"
    assert [line[:8] for line in lines[1:3]] == ["   1.60 ", "   1.25 "]
    assert lines[1].endswith(" accurate: direct.p4@1 15.0 us, persistent.s1@3 24.0 us")
    assert "the tuner takes direct.p4@1 on the first one" in lines[3]
    assert lines[4].endswith("msda bench --device 0 --batch 2 --queries 900 --heads 8 --channels 32 --levels 40x60,20x30"
                             " --points 4,4 --pattern uniform --dtype f8_e4m3 --math accurate --fused 2 --kernels direct.p4@1"
                             " --check none --iterations 3")
    assert "--kernels persistent.s1@3 " in lines[5] and len(lines) == 6


def test_a_family_that_never_wins_has_its_best_problem_and_one_without_times_none():
    lines = list(family_lines([two_families(20, 30, 40), two_families(20, 30, 25)], "direct"))
    assert lines[0].endswith("took part in 2 of 2 problems, the fastest of all on 0") and lines[1].startswith("   0.80  ")
    assert list(family_lines([two_families(1, 2, 3)], "tma")) == ["tma: took part in 0 of 1 problems, the fastest of all on 0"]


@pytest.mark.parametrize("family", NEAR)
def test_problems_near_a_family_are_those_of_their_seed_and_fit_a_machine(family):
    drawn = [[draw_near(random.Random(seed), family) for seed in range(50)] for _ in range(2)]
    assert drawn[0] == drawn[1] and all(fits(case.work) for case in drawn[0])
    assert all(len(case.work["points"]) == len(case.work["levels"]) and sum(case.work["points"]) <= 512 for case in drawn[0])


def test_problems_drawn_stay_those_of_their_seed():
    assert draw(random.Random(402)) == {  # as bench/draws/h200-accurate-2.csv.gz has it
        "batch": 8, "heads": 4, "channels": 32, "levels": [[13, 68], [6, 34], [3, 17], [1, 8]], "queries": 1147,
        "points": [8, 8, 8, 8], "pattern": "local"}
