"""What bench/peers/gpu_selection.py makes of measured times. The script itself needs a GPU; this part does not."""

import csv
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench/peers"), str(ROOT / "tools")]
from measurements import DRAWN, measured_problem, read_csv, write_drawn  # noqa: E402
from selection_report import csv_rows, judged, ranked, report_lines  # noqa: E402

EXPLAINED = """1  persistent.s1@3  predicted 20.5 us
2  persistent.s1c@1  predicted 20.1 us, only chosen by tuning
3  direct.p4@1  predicted 31.0 us
-  simd.cpu.f32@1  rejected: runs on the CPU, the handle's device is a GPU
"""
WORK = {"batch": 2, "heads": 8, "channels": 32, "levels": [[40, 60], [20, 30]], "queries": 900, "points": [4, 4],
        "pattern": "uniform"}


def row_of(times, **changes):
    kernels = ranked(EXPLAINED)
    return judged({
        "work": WORK, "value_dtype": "f8_e4m3", "input_mode": "fused2", "math_mode": "accurate",
        "chosen": "persistent.s1@3", "times": times, "quartiles": {name: (t - 1, t + 1) for name, t in times.items()},
        "predicted": {kernel: us for kernel, us, _ in kernels},
        "only_by_tuning": {kernel: flag for kernel, _, flag in kernels}} | changes)


def test_explained_kernels():
    assert ranked(EXPLAINED) == [("persistent.s1@3", 20.5, False), ("persistent.s1c@1", 20.1, True),
                                 ("direct.p4@1", 31.0, False)]


@pytest.mark.parametrize("times, regret, by_prediction", [
    ((20, 25, 30), 0, 0),
    ((20, 16, 30), 0.25, 0),  # only tuning finds it
    ((20, 16, 10), 1, 1),
    ((20, 8, 16), 1.5, 0.25),
])
def test_regret_beside_all_kernels_and_beside_those_that_may_be_chosen(times, regret, by_prediction):
    row = row_of(dict(zip(("persistent.s1@3", "persistent.s1c@1", "direct.p4@1"), times)))
    assert row["regret"] == pytest.approx(regret)
    assert row["regret_by_prediction"] == pytest.approx(by_prediction)


def test_peers_are_no_kernels_of_ours():
    row = row_of({"persistent.s1@3": 20, "persistent.s1c@1": 25, "direct.p4@1": 30, "a peer": 10, "another": 30})
    assert row["regret"] == 0 and row["against_peers"] == 0.5
    assert "1 problems beside peers; the faster peer's time over ours: least 0.50" in "\n".join(report_lines([row]))


def test_the_report_names_what_was_lost_and_to_which_kernel():
    rows = [row_of({"persistent.s1@3": 20, "persistent.s1c@1": c, "direct.p4@1": 25}) for c in (30, 25, 16)]
    text = "\n".join(report_lines(rows))
    assert "all kernels:                         median 0.0%, mean 8.3%, 90 % at most 25.0%, worst 25.0%; above 8%: 1" in text
    assert "may be chosen" not in text and "those that a prediction may choose:  median 0.0%, mean 0.0%" in text
    assert "f8_e4m3, fused2, 3 problems" in text
    assert "On 1 of them a kernel that only tuning chooses is the fastest of all" in text
    assert "25.0%  f8_e4m3 fused2" in text and "persistent.s1c@1 16.0 us" in text


def test_times_are_kept_as_the_fit_reads_them(tmp_path):
    path = tmp_path / "drawn.csv.gz"
    rows = [row_of({"persistent.s1@3": 20, "persistent.s1c@1": 25.123, "direct.p4@1": 30, "a peer": 10}), row_of(
        {"persistent.s1@3": 21, "direct.p4@1": 31})]  # without a time of one kernel
    write_drawn(path, "A GPU", csv_rows(rows))
    about, kept = read_csv(path, DRAWN)
    assert about == "A GPU" and len(kept) == 5 and [row["problem"] for row in kept] == ["1", "1", "1", "2", "2"]
    assert [row["only_by_tuning"] for row in kept] == ["0", "1", "0", "0", "0"]
    assert kept[1]["median_us"] == "25.12" and kept[1]["q1_us"] == "24.12" and kept[1]["q3_us"] == "26.12"
    assert measured_problem(kept[0], {}) == {
        "batch": 2, "heads": 8, "channels": 32, "queries": 900, "levels": [[40, 60], [20, 30]], "points": [4, 4],
        "reference_dim": 2, "operation": "forward", "math_mode": "accurate", "value_dtype": "F8_E4M3",
        "coord_dtype": "F32"}
    plain = tmp_path / "drawn.csv"
    write_drawn(plain, "A GPU", csv_rows(rows))
    assert list(csv.DictReader(plain.read_text().splitlines()[1:])) == kept
