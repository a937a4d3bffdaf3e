"""Writes the tables of the documents that are made from a CSV of measurements.

    tools/generate tables [--check] [FILE.md ...]

Without files: all Markdown files that git knows. With --check nothing is written: the exit status is 1 if a table is
not what its CSV says. A table stands behind a comment that describes it, and ends at a second comment:

    <!-- table: bench/baselines/h200.csv
    columns: bev-fold enc-local dec
    fp16 | value_dtype=f16 math_mode=accurate kernel_id=persistent.*.s[14]@*
    fp16, cached levels | value_dtype=f16 math_mode=accurate kernel_id=persistent.*.s1c@*
    -->
    ...
    <!-- end of table -->

A column is a workload; with `rows:` in place of `columns:` a row is one. A line is a label and, behind bars, one or more
selections of measurements: words COLUMN=PATTERN with columns of the CSV and patterns of a shell. A line `where: WORDS`
holds for all of them; operation=forward and input_mode=sampled are the defaults. A cell has the smallest median of each
selection in microseconds, or with `value: COLUMN_bytes` that column's smallest number in MB; with a line `ratio: yes` it
also has the ratio of the last one to the first. It is empty where nothing of the first selection was measured, and has a
dash for another one. The line below the table names the CSV and where it was measured.
"""

import fnmatch
import functools
import pathlib
import re
import subprocess
import sys

import parts
from measurements import ROOT, Refused, microseconds, read_csv

NEEDED = ("workload", "operation", "kernel_id", "value_dtype", "math_mode", "input_mode", "median_us")
UNSAID = {"operation": "forward", "input_mode": "sampled"}
BEGIN = "<!-- table:"
END = "<!-- end of table -->"
BLOCK = re.compile(rf"^{BEGIN} *(?P<csv>\S+)\n(?P<lines>.*?)^-->\n(?P<table>.*?)^{END}$", re.S | re.M)

read_once = functools.cache(functools.partial(read_csv, needed=NEEDED))


def selection(words: str, columns: dict[str, str], unsaid: dict[str, str] = UNSAID) -> dict[str, str]:
    patterns = dict(unsaid)
    for word in words.split():
        column, equals, pattern = word.partition("=")
        if not equals or column not in columns or column == "workload":
            raise Refused(f"'{word}' is not COLUMN=PATTERN, COLUMN of {', '.join(c for c in columns if c != 'workload')}")
        patterns[column] = pattern
    return patterns


def fits(row: dict[str, str], patterns: dict[str, str]) -> bool:
    return all(fnmatch.fnmatchcase(row[column], pattern) for column, pattern in patterns.items())


def measured(row: dict[str, str], column: str) -> float:
    value = microseconds(row, column)
    return value / 1e6 if column.endswith("_bytes") else value


def number(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


def cell(times: list[float | None], with_ratio: bool) -> str:
    if times[0] is None:
        return ""
    ratio = f" ({times[-1] / times[0]:.2f})" if with_ratio and len(times) > 1 and times[-1] is not None else ""
    return ", ".join("-" if time is None else number(time) for time in times) + ratio


def label_and_cells(line: str, workloads: list[str], rows: list[dict[str, str]], settings: dict[str, str]) -> list[str]:
    label, *selections = (part.strip() for part in line.split("|"))
    if not selections:
        raise Refused(f"'{line}' is not LABEL | SELECTION")
    where = selection(settings["where"], rows[0])
    chosen = []
    for words in selections:
        patterns = selection(words, rows[0], where)
        chosen.append([row for row in rows if row["workload"] in workloads and fits(row, patterns)])
        if not chosen[-1]:
            raise Refused(f"row '{label}': '{words}' selects nothing")
    cells = []
    for workload in workloads:
        times = [min((measured(row, settings["value"]) for row in found if row["workload"] == workload), default=None)
                 for found in chosen]
        cells.append(cell(times, settings["ratio"] == "yes"))
    return [label, *cells]


def markdown(cells: list[list[str]]) -> str:
    """A table whose first row is its head."""
    lines = [f"| {' | '.join(row)} |" for row in cells]
    lines[0] = lines[0].replace("|  |", "| |", 1)
    return "\n".join([lines[0], "|---" * len(cells[0]) + "|", *lines[1:], ""])


def make_table(csv_name: str, lines: list[str], root: pathlib.Path) -> str:
    about, rows = read_once(root / csv_name)
    settings, row_lines = {"columns": "", "rows": "", "ratio": "no", "where": "", "value": "median_us"}, []
    for line in filter(None, map(str.strip, lines)):
        name, colon, value = line.partition(":")
        if colon and name in settings:
            settings[name] = value.strip()
        else:
            row_lines.append(line)
    if bool(settings["columns"]) == bool(settings["rows"]) or not row_lines:
        raise Refused("one line is 'columns: WORKLOAD ...' or 'rows: WORKLOAD ...', and others are LABEL | SELECTION")
    workloads = (settings["columns"] or settings["rows"]).split()
    known = {row["workload"] for row in rows}
    if unknown := [w for w in workloads if w not in known]:
        raise Refused(f"workloads have {', '.join(unknown)}: {csv_name} has {', '.join(sorted(known))}")
    if settings["ratio"] not in ("yes", "no"):
        raise Refused(f"ratio is '{settings['ratio']}': must be yes or no")
    if settings["value"] not in rows[0]:
        raise Refused(f"value is '{settings['value']}': {csv_name} has {', '.join(rows[0])}")
    cells = [["", *workloads], *(label_and_cells(line, workloads, rows, settings) for line in row_lines)]
    if settings["rows"]:
        cells = [list(column) for column in zip(*cells)]
    return f"{markdown(cells)}\nFrom {csv_name}: {about}.\n"


def rewritten(file: pathlib.Path, root: pathlib.Path) -> tuple[str, int]:
    """(text as it should be, tables in it)."""
    text = file.read_text()
    begun, ended = (len(re.findall(rf"^{re.escape(mark)}", text, re.M)) for mark in (BEGIN, END))
    if begun != ended or begun != len(BLOCK.findall(text)):
        raise Refused(f"{file}: {begun} comments begin a table, {ended} end one: each table has both, and --> on a line"
                      " of its own between them")

    def replacement(found: re.Match) -> str:
        try:
            table = make_table(found["csv"], found["lines"].split("\n"), root)
        except Refused as error:
            raise Refused(f"{file}:{text.count(chr(10), 0, found.start()) + 1}: {error}") from error
        return f"{BEGIN} {found['csv']}\n{found['lines']}-->\n{table}{END}"

    return BLOCK.sub(replacement, text), begun


def markdown_files(root: pathlib.Path) -> list[pathlib.Path]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=root, capture_output=True, text=True, check=True).stdout
    return [root / name for name in listed.split()]


def main(words: list[str]) -> int:
    parser = parts.parser("generate tables", __doc__)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE.md")
    parser.add_argument("--check", action="store_true", help="compare only")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="folder that the names of CSV files start from")
    arguments = parser.parse_args(words)
    documents, tables = {}, 0
    for file in arguments.files or markdown_files(arguments.root):
        documents[file], count = rewritten(file, arguments.root)
        tables += count
    stale = parts.renew(documents, arguments.check, "its CSV")
    if arguments.check and stale:
        print(f"{stale} documents have tables that are not what their CSV says: run tools/generate tables",
              file=sys.stderr)
        return 1
    print(f"{tables} tables are what their CSV says")
    return 0
