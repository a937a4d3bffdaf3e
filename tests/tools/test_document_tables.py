"""tools/generate tables, and tools/measure show, on made-up measurements."""

import pathlib
import subprocess
import sys

import pytest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"

CSV = """# A GPU, commit abc; medians of 11
workload,operation,kernel_id,value_dtype,coord_dtype,math_mode,input_mode,median_us,spread_us,max_error
dec,forward,direct.f16@1,f16,f32,accurate,sampled,18.66,0.1,1e-3
dec,forward,persistent.f16.s1@3,f16,f32,accurate,sampled,15.26,0.1,1e-3
dec,forward,persistent.f16.s1c@1,f16,f32,accurate,sampled,14.0,0.1,1e-3
dec,forward,persistent.f16.s1@3,f16,f32,accurate,fused2,17.55,0.1,1e-3
dec,backward,persistent.f16.s1@3,f16,f32,accurate,sampled,1.0,0.1,1e-3
enc,forward,persistent.f16.s1@3,f16,f32,accurate,sampled,134.6,0.1,1e-3
enc,forward,persistent.f16.s4@3,f16,f32,accurate,sampled,99.94,0.1,1e-3
"""
BLOCK = """# A document

12 us in running text.

<!-- table: times.csv
columns: dec enc
fp16 | value_dtype=f16 kernel_id=persistent.*.s[14]@*
fp16 `direct` | kernel_id=direct.*
-->
<!-- end of table -->

The end.
"""
TABLE = """-->
| | dec | enc |
|---|---|---|
| fp16 | 15.3 | 99.9 |
| fp16 `direct` | 18.7 |  |

From times.csv: A GPU, commit abc; medians of 11.
<!-- end of table -->
"""


@pytest.fixture
def tables(tmp_path):
    """Runs the tool on one document; the document's text is `tables.file`'s."""

    def run(*options, text=None, csv=CSV):
        if text is not None:
            run.file.write_text(text)
        (tmp_path / "times.csv").write_text(csv)
        return subprocess.run([sys.executable, TOOLS / "generate", "tables", "--root", tmp_path, *options, run.file],
                              capture_output=True, text=True)

    run.file = tmp_path / "page.md"
    return run


def test_a_table_is_written_and_then_up_to_date(tables):
    assert tables(text=BLOCK).returncode == 0
    written = tables.file.read_text()
    assert written == BLOCK.replace("-->\n<!-- end of table -->\n", TABLE)
    checked = tables("--check")
    assert checked.returncode == 0 and checked.stdout == "1 tables are what their CSV says\n"
    assert tables().returncode == 0 and tables.file.read_text() == written


@pytest.mark.parametrize("change", [
    ("times.csv", "15.26", "15.36"),  # a new measurement
    ("times.csv", "commit abc", "commit def"),  # of another run
    ("page.md", "| 15.3 |", "| 15.1 |"),  # a number edited by hand
    ("page.md", "| fp16 | 15.3 | 99.9 |\n", ""),
])
def test_a_stale_table_is_named_and_left_as_it_is(tables, change):
    tables(text=BLOCK)
    name, old, new = change
    assert old in (CSV if name == "times.csv" else tables.file.read_text())
    text = tables.file.read_text().replace(old, new) if name == "page.md" else tables.file.read_text()
    checked = tables("--check", text=text, csv=CSV.replace(old, new) if name == "times.csv" else CSV)
    assert checked.returncode == 1
    assert str(tables.file) in checked.stdout and "run tools/generate tables" in checked.stderr
    assert tables.file.read_text() == text


def test_columns_may_come_and_revisions_may_change(tables):
    tables(text=BLOCK)
    lines = CSV.replace("@3", "@4").splitlines()
    lines[1] += ",q1_us,q3_us,error_share"
    wider = "\n".join([*lines[:2], *(line + ",1,2,0.5" for line in lines[2:])]) + "\n"
    assert tables("--check", csv=wider).returncode == 0


def test_several_selections_and_their_ratio(tables):
    row = "fp16 | kernel_id=persistent.*.s1@* | input_mode=fused2 kernel_id=persistent.*.s1@*\n"
    text = "<!-- table: times.csv\ncolumns: dec enc\nratio: yes\n" + row + "-->\n<!-- end of table -->\n"
    assert tables(text=text).returncode == 0
    assert "| fp16 | 15.3, 17.6 (1.15) | 135, - |\n" in tables.file.read_text()
    tables(text=text.replace("ratio: yes\n", ""))
    assert "| fp16 | 15.3, 17.6 | 135, - |\n" in tables.file.read_text()


def test_workloads_may_be_rows_and_all_lines_may_share_a_selection(tables):
    rows = "fp16 | kernel_id=persistent.*\nfp16 `direct` | kernel_id=direct.*\n"
    text = "<!-- table: times.csv\nrows: enc dec\nwhere: input_mode=sampled\n" + rows + "-->\n<!-- end of table -->\n"
    assert tables(text=text).returncode == 0
    written = tables.file.read_text()
    assert "| | fp16 | fp16 `direct` |\n|---|---|---|\n| enc | 99.9 |  |\n| dec | 14.0 | 18.7 |\n" in written
    tables(text=text.replace("input_mode=sampled", "input_mode=*").replace("kernel_id=persistent.*", "operation=backward"))
    assert "| dec | 1.0 |" in tables.file.read_text()


def test_a_table_of_bytes_is_in_megabytes(tables):
    csv = CSV.replace("max_error", "peak_bytes").replace(",1e-3", ",1500000")
    text = "<!-- table: times.csv\ncolumns: dec\nvalue: peak_bytes\nfp16 | value_dtype=f16\n-->\n<!-- end of table -->\n"
    assert tables(text=text, csv=csv).returncode == 0
    assert "| fp16 | 1.5 |\n" in tables.file.read_text()


def show(*words):
    return subprocess.run([sys.executable, TOOLS / "measure", "show", *words], capture_output=True, text=True)


def test_measurements_are_shown_by_what_differs_among_them(tmp_path):
    times = tmp_path / "times.csv"
    times.write_text(CSV)
    shown = show(times, "operation=forward", "kernel_id=persistent.*.s1@*")
    assert shown.stdout == ("| input_mode | dec | enc |\n|---|---|---|\n| sampled | 15.3 | 135 |\n| fused2 | 17.6 |  |\n\n"
                            f"From {times}: A GPU, commit abc; medians of 11.\n")
    assert "| backward | 1.0 |" in show(times, "--value", "median_us", "operation=backward").stdout


def test_of_a_side_the_kernels_that_it_took_are_one_row(tmp_path):
    times = tmp_path / "times.csv"
    lines = CSV.splitlines()
    times.write_text("\n".join([lines[0], lines[1] + ",side", lines[2] + ",plan", lines[7] + ",plan", lines[8] + ",tuned"]))
    assert "| side | dec | enc |\n|---|---|---|\n| plan | 18.7 | 135 |\n| tuned |  | 99.9 |\n" in show(times).stdout


@pytest.mark.parametrize("words, message", [
    (["dtype=f16"], "'dtype=f16' is not COLUMN=PATTERN"),
    (["value_dtype=f64"], "has no row with value_dtype=f64"),
    (["--value", "mean_us"], "has no column mean_us"),
    (["--value", "kernel_id"], "kernel_id is 'direct.f16@1': must be a time above 0"),
])
def test_what_cannot_be_shown(tmp_path, words, message):
    times = tmp_path / "times.csv"
    times.write_text(CSV)
    shown = show(times, *words)
    assert shown.returncode == 2 and message in shown.stderr and not shown.stdout


@pytest.mark.parametrize("old, new, message", [
    ("columns: dec enc", "columns: dec bev", "workloads have bev: times.csv has dec, enc"),
    ("columns: dec enc\n", "", "one line is 'columns: WORKLOAD ...' or 'rows: WORKLOAD ...'"),
    ("columns: dec enc", "columns: dec enc\nrows: dec", "one line is 'columns: WORKLOAD ...' or 'rows: WORKLOAD ...'"),
    ("columns: dec enc", "columns: dec enc\nwhere: dtype=f16", "'dtype=f16' is not COLUMN=PATTERN"),
    ("columns: dec enc", "columns: dec enc\nvalue: bytes", "value is 'bytes': times.csv has workload, operation"),
    ("value_dtype=f16", "dtype=f16", "'dtype=f16' is not COLUMN=PATTERN"),
    ("value_dtype=f16", "value_dtype=f64", "row 'fp16': 'value_dtype=f64 kernel_id=persistent.*.s[14]@*' selects nothing"),
    ("fp16 `direct` | kernel_id=direct.*", "fp16 `direct`", "'fp16 `direct`' is not LABEL | SELECTION"),
    ("columns: dec enc", "columns: dec enc\nratio: maybe", "ratio is 'maybe': must be yes or no"),
    ("times.csv", "gone.csv", "gone.csv cannot be read"),
    ("<!-- end of table -->\n", "", "1 comments begin a table, 0 end one"),
    ("<!-- table: times.csv", "", "0 comments begin a table, 1 end one"),
    ("-->\n<!-- end", "<!-- end", "1 comments begin a table, 1 end one"),
])
def test_descriptions_that_are_wrong(tables, old, new, message):
    assert BLOCK.count(old) == 1
    text = BLOCK.replace(old, new)
    for option in ((), ("--check",)):
        done = tables(*option, text=text)
        assert done.returncode == 2 and message in done.stderr and str(tables.file) in done.stderr
        assert tables.file.read_text() == text


@pytest.mark.parametrize("csv, message", [
    (CSV.replace("median_us", "mean_us"), "has no column median_us"),
    ("\n".join(CSV.splitlines()[:2]) + "\n", "has no rows"),
    (CSV.replace("15.26", "nan"), "median_us is 'nan': must be a time above 0"),
    (CSV.replace("15.26", "-1"), "median_us is '-1': must be a time above 0"),
    (CSV.replace(",15.26,0.1,1e-3", ""), "row 2: has not as many cells as there are columns"),
])
def test_measurements_that_cannot_be_used(tables, csv, message):
    done = tables("--check", text=BLOCK, csv=csv)
    assert done.returncode == 2 and message in done.stderr
