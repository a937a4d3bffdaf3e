"""tools/measure compare on altered tables: what is worse fails, what is not passes."""

import contextlib
import csv
import io
import os
import pathlib
import subprocess
import sys

import pytest
from conftest import ROOT

KEY = ["workload", "operation", "kernel_id", "value_dtype", "coord_dtype", "math_mode", "input_mode"]
COLUMNS = [*KEY, "median_us", "q1_us", "q3_us", "max_error", "error_share", "compared", "elements"]
KERNELS = ["direct.sm75.f16.d32.p4@1", "persistent.sm90.f16.d32.p4.h8@3", "persistent.sm80.f16.d32.pany.s1@12"]
NAMED = "enc forward persistent.sm90.f16.d32.p4.h8 f16 f32 fast sampled"


def rows_of():
    fixed = ["enc", "forward", "", "f16", "f32", "fast", "sampled"]
    rows = []
    for i, kernel in enumerate(KERNELS):
        row = dict(zip(KEY, fixed, strict=True)) | {"kernel_id": kernel}
        median = 100.0 * (i + 1)
        row |= {"median_us": median, "q1_us": median - 1, "q3_us": median + 2}
        rows.append(row | {"max_error": 2e-3, "error_share": 0.25, "compared": 9, "elements": 9})
    return rows


def write(path, rows, columns=COLUMNS, comment=""):
    with path.open("w", newline="") as file:
        file.write(comment)
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


sys.path.insert(0, str(ROOT / "tools/lib"))
import parts  # noqa: E402


def baseline(*arguments):
    """Exit status and output of tools/measure compare."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        try:
            status = parts.run("", {"compare": "baseline"}, ["compare", *map(str, arguments)])
        except SystemExit as end:
            status = end.code
    return status, text.getvalue()


@pytest.fixture
def compare(tmp_path):
    """Exit status and output of a comparison of the usual rows with altered ones."""

    def run(alter, *arguments, columns=COLUMNS, old=None):
        new = rows_of()
        new = alter(new) or new
        before = [row | (old or {}) for row in rows_of()]
        return baseline(
            write(tmp_path / "new.csv", new, columns),
            write(tmp_path / "old.csv", before, comment="# a machine\n"),
            *arguments,
        )

    return run


def times(row, factor):
    for name in ("median_us", "q1_us", "q3_us"):
        row[name] *= factor


def change(**values):
    """Sets fields of the second row."""
    return lambda rows: rows[1].update(values)


def all_slower_with_new_revisions(rows):
    for row in rows:
        times(row, 3)
        row["kernel_id"] = row["kernel_id"].partition("@")[0] + "@99"


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (lambda rows: None, "3 rows, 0 of them new; 0 slower"),
        (lambda rows: times(rows[1], 1.07), "0 slower"),
        (lambda rows: times(rows[1], 0.5), "0.500"),
        (change(kernel_id="persistent.sm90.f16.d32.p4.h8@4"), "1.000  revision 3 -> 4"),
        (lambda rows: rows.append(rows[1] | {"kernel_id": "another@1"}), "us  new"),
        (lambda rows: rows[::-1], "3 rows, 0 of them new; 0 slower"),
        (change(max_error=5.9e-3, error_share=0.74), "0 with a larger error"),
    ],
    ids=["the same", "noise", "faster", "revision", "new row", "another order", "error"],
)
def test_what_is_not_worse_passes(compare, alter, said):
    status, text = compare(alter)
    assert status == 0 and said in text, text


@pytest.mark.parametrize(
    ("alter", "said", "counted"),
    [
        (lambda rows: times(rows[1], 1.1), "1.100  SLOWER", "1 slower"),
        (lambda rows: times(rows[2], 1.5), "1.500  SLOWER", "1 slower"),
        (all_slower_with_new_revisions, "3.000  revision 3 -> 99  SLOWER", "3 slower"),
        (lambda rows: rows[:1] + rows[2:], "NOT MEASURED", "1 not measured"),
        (change(max_error=99), "LARGER ERROR: max_error 0.002 -> 99", "1 with a larger error"),
        (change(error_share=1.01), "CHECK FAILED: error_share is 1.01", "1 whose check failed"),
        (
            change(median_us="", q1_us="", q3_us="", max_error="nan", error_share="nan"),
            "CHECK FAILED",
            "1 whose check failed",
        ),
    ],
    ids=["1.1 times", "1.5 times", "3 times, new revisions", "lost", "error", "share above 1", "no time"],
)
def test_what_is_worse_fails(compare, alter, said, counted):
    status, text = compare(alter)
    assert status == 1 and said in text and counted in text, text


def test_errors_may_grow_threefold_and_from_a_sample_sixfold(compare):
    for factor, status in ((3.1, 1), (2.9, 0)):
        assert compare(change(max_error=2e-3 * factor))[0] == status
        assert compare(change(error_share=0.25 * factor))[0] == status
    sample = {"compared": 8}
    for factor, status in ((6.1, 1), (5.9, 0)):
        assert compare(change(max_error=2e-3 * factor), old=sample)[0] == status
    for factor, status in ((6.1, 1), (3.9, 0)):  # 4 times would be above the bound
        assert compare(change(error_share=0.25 * factor), old=sample)[0] == status
    text = compare(change(compared=8))[1]
    assert "  LESS COMPARED: 8 elements, 9 before" in text and "1 of which less was compared" in text


def test_noise_excuses_no_more_than_it_is(compare):
    """10 % slower is no fault where the quartiles of old and new meet."""
    assert compare(change(median_us=220.0, q1_us=201.0, q3_us=221.0))[0] == 0  # the old third quartile is 202
    assert compare(change(median_us=220.0, q1_us=202.1, q3_us=221.0))[0] == 1


def test_rows_that_are_named_may_be_missing(compare):
    def lose(rows):
        return rows[:1] + rows[2:]

    for pattern in (NAMED, "enc forward persistent.sm90.*", "*"):
        status, text = compare(lose, "--gone", pattern)
        assert status == 0 and "  gone" in text and "0 not measured, 1 gone" in text, text
    assert compare(lambda rows: rows[:1], "--gone", NAMED, "--gone", "* persistent.sm80.*")[0] == 0
    # Another row is still missing; a name that is no missing row's is a mistake.
    assert compare(lambda rows: rows[:1], "--gone", NAMED)[0] == 1
    status, text = compare(lose, "--gone", NAMED, "--gone", "enc backward *")
    assert status == 1 and "--gone 'enc backward *' NAMES NO ROW that is missing" in text


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (change(median_us="nan"), "median_us is 'nan': it must be a number of at least 0.05"),
        (change(median_us=0), "median_us is '0'"),
        (change(q1_us="fast"), "q1_us is 'fast'"),
        (change(q3_us="inf"), "q3_us is 'inf'"),
        (change(q1_us=250), "median_us is 200.0: it must lie between q1_us, 250.0, and q3_us, 202.0"),
        (change(max_error="nan"), "max_error is 'nan'"),
        (change(error_share=""), "error_share is ''"),
        (change(kernel_id=KERNELS[0]), "is there twice"),
        (change(kernel_id="direct.sm75.f16.d32.p4@2"), "is there twice"),
        (lambda rows: rows.clear(), "has no rows"),
    ],
)
def test_tables_that_say_nothing_are_refused(compare, alter, said):
    status, text = compare(alter)
    assert status == 2 and said in text, text


def test_files_that_are_no_tables_are_refused(compare, tmp_path):
    good = write(tmp_path / "good.csv", rows_of())
    status, text = baseline(good, tmp_path / "none.csv")
    assert status == 2 and "none.csv cannot be read" in text
    for name in ("median_us", "kernel_id", "q3_us", "max_error", "compared"):
        status, text = compare(lambda rows: None, columns=[c for c in COLUMNS if c != name])
        assert status == 2 and f"has no column {name}" in text
    cut = tmp_path / "cut.csv"
    cut.write_text(good.read_text()[:-20])
    status, text = baseline(cut, good)
    assert status == 2 and "has not as many cells as there are columns" in text


def test_keeping_and_comparing(tmp_path):
    new, kept = write(tmp_path / "new.csv", rows_of()), tmp_path / "folder" / "kept.csv"
    assert baseline(new, kept, "--keep", "a GPU, a driver") == (0, "")
    assert kept.read_text() == "# a GPU, a driver\n" + new.read_text()
    assert baseline(new, kept)[0] == 0
    failed = rows_of()
    failed[1]["median_us"] = ""
    write(new, failed)
    status, text = baseline(new, kept, "--keep", "again")
    assert status == 2 and f"not kept: the check of '{NAMED}' failed" in text
    assert kept.read_text().startswith("# a GPU, a driver\n")


def test_the_baselines_that_are_kept_can_be_read():
    for path in (ROOT / "bench" / "baselines").glob("*.csv"):
        if path.stem.endswith("_peers"):  # of gpu_peers.py: tools/generate tables reads it
            continue
        status, text = baseline(path, path)
        assert status == 0 and "0 of them new; 0 slower" in text, text


def test_what_the_command_writes_can_be_read(tmp_path):
    msda = pathlib.Path(os.environ.get("MSDA_CLI", ROOT / "build" / "release" / "bin" / "msda"))
    if not msda.exists():
        pytest.fail(f"{msda} does not exist: build it, or set MSDA_CLI")
    new, kept = tmp_path / "new.csv", tmp_path / "kept.csv"
    problem = ["--levels", "9x7", "--queries", "40", "--kernels", "all", "--iterations", "5", "--flush-mib", "0"]
    subprocess.run([msda, "bench", *problem, "--csv", new], check=True, capture_output=True)
    assert {"q1_us", "q3_us"} <= set(new.read_text().splitlines()[0].split(","))
    assert baseline(new, kept, "--keep", "this machine") == (0, "")
    status, text = baseline(new, kept)
    assert status == 0 and " rows, 0 of them new; 0 slower" in text, text
