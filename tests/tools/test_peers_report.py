"""What bench/peers/gpu_peers.py makes of measured times. The script itself needs a GPU; this part does not."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench/peers"), str(ROOT / "tools/lib")]
from measurements import read_csv  # noqa: E402
from peers_report import COLUMNS, Side, best_direct, rows_of_sides, table_lines, write_peers  # noqa: E402

EXPLAINED = """1  persistent.s1@3  predicted 20.5 us
2  direct.sm75.f16.dany.pany@3  predicted 25.0 us
3  direct.sm75.f16.d32.p4@1  predicted 31.0 us
4  direct.sm75.f16.d32.pany@1  predicted 31.5 us
-  direct.sm75.f32.d32.p4@1  rejected: does not take this value_dtype
"""
DOCUMENT = """<!-- table: peers.csv
columns: dec enc
ratio: yes
hinted, deformops | side=hinted cache=flushed | side=deformops cache=flushed
-->
<!-- end of table -->
"""


def side(name, kernel):
    return Side(name, kernel, "f32", "accurate", "sampled", print, None)


@pytest.fixture
def rows():
    rows = []
    for workload, factor in (("dec", 1), ("enc", 10)):
        measured = {side("plan", "a@1"): ([12, 10, 11], (1e-3, 0.5)), side("hinted", "b@1"): ([8, 8, 9], (1e-3, 0.5)),
                    side("deformops", "deformops"): ([20, 20, 21], (2e-3, 2.0))}
        scaled = {s: ([t * factor for t in times], error) for s, (times, error) in measured.items()}
        rows += rows_of_sides(workload, "f16", "flushed", scaled)
    return rows


def test_the_first_direct_kernel_but_for_the_generic_one():
    assert best_direct(EXPLAINED) == "direct.sm75.f16.d32.p4@1"
    assert best_direct(EXPLAINED.splitlines()[0]) is None


def test_sides_with_one_call_stay_apart():
    assert len({side("plan", "a@1"): 1, side("hinted", "a@1"): 2, side("plan", "a@1"): 3}) == 2
    assert side("deformops", "x").is_peer and side("ms_deform_attn", "x").is_peer and not side("tuned", "x").is_peer


def test_medians_quartiles_and_errors_are_kept(rows):
    assert all(tuple(row) == COLUMNS for row in rows)
    assert rows[0] == {
        "workload": "dec", "operation": "forward", "side": "plan", "kernel_id": "a@1", "value_dtype": "f16",
        "coord_dtype": "f32", "math_mode": "accurate", "input_mode": "sampled", "cache": "flushed", "median_us": "11.00",
        "q1_us": "10.50", "q3_us": "11.50", "max_error": "1.000e-03", "error_share": "5.000e-01"}


def test_the_printed_table_has_a_line_for_each_problem(rows):
    head, dec, enc = table_lines(rows)
    assert head.split()[:4] == ["median", "us", "direct", "plan"]
    assert dec.split() == ["dec", "f16", "coord", "f32", "accurate", "sampled", "flushed", "11.0", "8.0", "20.0", "2.50"]
    assert enc.split()[-4:] == ["110.0", "80.0", "200.0", "2.50"]


def test_documents_have_tables_of_the_csv(rows, tmp_path):
    write_peers(tmp_path / "peers.csv", "A GPU, two peers; medians of 3", rows)
    about, kept = read_csv(tmp_path / "peers.csv", COLUMNS)
    assert about == "A GPU, two peers; medians of 3" and kept == rows
    (tmp_path / "doc.md").write_text(DOCUMENT)
    subprocess.run([ROOT / "tools/generate", "tables", "--root", tmp_path, tmp_path / "doc.md"], check=True)
    assert "| hinted, deformops | 8.0, 20.0 (2.50) | 80.0, 200 (2.50) |" in (tmp_path / "doc.md").read_text()
