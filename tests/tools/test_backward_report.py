"""What bench/peers/gpu_backward.py makes of measured times. The script itself needs a GPU; this part does not."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench/peers"), str(ROOT / "tools/lib")]
from backward_report import COLUMNS, fused_lines, table_lines, write_rows  # noqa: E402
from measurements import read_csv  # noqa: E402


def row(workload, side, microseconds, peak=0):
    return {"workload": workload, "operation": "backward", "side": side, "kernel_id": "k@1", "value_dtype": "f16",
            "median_us": f"{microseconds:.2f}", "q1_us": "1.00", "q3_us": "2.00", "error_share": "5.000e-01",
            "peak_bytes": peak}


ROWS = [row("dec", "plan", 90, 3e6), row("dec", "any order", 60, 2e6), row("dec", "deformops", 110, 5e6),
        row("dec", "ms_deform_attn", 126, 7e6), row("enc", "plan", 500, 1e6), row("enc", "any order", 500, 1e6),
        row("enc", "deformops 16", 250, 4e6), row("alone", "plan", 7)]


def test_ratios_and_memory_are_those_of_the_best_peer():
    lines = list(table_lines([*ROWS, row("alone", "any order", 7)]))
    assert lines[1].split() == ["dec", "f16", "90.0", "60.0", "110.0", "126.0", "1.22", "1.83", "3.0", "5.0"]
    assert lines[2].split() == ["enc", "f16", "500.0", "500.0", "250.0", "0.50", "0.50", "1.0", "4.0"]
    assert lines[3].split() == ["alone", "f16", "7.0", "7.0"]


def test_problems_on_which_a_peer_is_faster_are_named():
    lines = list(table_lines(ROWS[:7]))
    assert lines[3:5] == ["slower than the best peer: 1 of 2", "  enc f16: 500.0 us, deformops 16 250.0"]
    assert list(table_lines(ROWS[:4]))[2] == "slower than the best peer: 0 of 1"


def test_each_peer_is_compared_with_each_of_our_sides():
    lines = list(table_lines([*ROWS[:7], row("enc", "deformops", 400)]))[5:]
    assert lines == [
        "deformops over plan: least 0.80, median 1.01, most 1.22; below 1: 1 of 2",
        "deformops 16 over plan: least 0.50, median 0.50, most 0.50; below 1: 1 of 1",
        "ms_deform_attn over plan: least 1.40, median 1.40, most 1.40; below 1: 0 of 1",
        "deformops over any order: least 0.80, median 1.32, most 1.83; below 1: 1 of 2",
        "deformops 16 over any order: least 0.50, median 0.50, most 0.50; below 1: 1 of 1",
        "ms_deform_attn over any order: least 2.10, median 2.10, most 2.10; below 1: 0 of 1"]


def test_fused_input_is_compared_with_sampled():
    sides = {"plan": 100, "any order": 90, "points": 110, "points, ref": 125, "boxes": 112, "boxes, ref": 130}
    lines = list(fused_lines([row("dec", side, us) for side, us in sides.items()]))
    assert lines[1].split() == ["dec", "f16", "100.0", "110.0", "125.0", "112.0", "130.0", "1.100", "1.250", "1.120", "1.300"]


def test_the_csv_is_read_as_a_baseline_is(tmp_path):
    write_rows(tmp_path / "peers.csv", "a GPU", ROWS)
    assert (tmp_path / "peers.csv").read_text().startswith("# a GPU\n" + ",".join(COLUMNS))
    about, rows = read_csv(tmp_path / "peers.csv", COLUMNS)
    assert about == "a GPU" and [r["side"] for r in rows] == [r["side"] for r in ROWS]
