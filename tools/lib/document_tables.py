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

A column is a workload. A row is a label and, behind bars, one or more selections of measurements: words COLUMN=PATTERN
with columns of the CSV and patterns of a shell; operation=forward and input_mode=sampled are the defaults. A cell has
the smallest median of each selection in microseconds, and is empty where nothing was measured; with a line
`ratio: yes` it also has the ratio of the last one to the first. The line below the table names the CSV and where it was measured.
"""

import difflib
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


def selection(words: str, columns: dict[str, str]) -> dict[str, str]:
    patterns = dict(UNSAID)
    for word in words.split():
        column, equals, pattern = word.partition("=")
        if not equals or column not in columns or column == "workload":
            raise Refused(f"'{word}' is not COLUMN=PATTERN, COLUMN of {', '.join(c for c in columns if c != 'workload')}")
        patterns[column] = pattern
    return patterns


def fits(row: dict[str, str], patterns: dict[str, str]) -> bool:
    return all(fnmatch.fnmatchcase(row[column], pattern) for column, pattern in patterns.items())


def number(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


def cell(times: list[float | None], with_ratio: bool) -> str:
    known = [time for time in times if time is not None]
    if len(known) < len(times):
        return ", ".join(map(number, known)) if len(times) == 1 else ""
    ratio = f" ({times[-1] / times[0]:.2f})" if with_ratio else ""
    return ", ".join(map(number, times)) + ratio


def table_row(line: str, workloads: list[str], rows: list[dict[str, str]], with_ratio: bool) -> str:
    label, *selections = (part.strip() for part in line.split("|"))
    if not selections:
        raise Refused(f"'{line}' is not LABEL | SELECTION")
    cells = []
    chosen = [[row for row in rows if fits(row, selection(words, rows[0]))] for words in selections]
    for words, found in zip(selections, chosen):
        if not any(row["workload"] in workloads for row in found):
            raise Refused(f"row '{label}': '{words}' selects nothing")
    for workload in workloads:
        times = [min((microseconds(row) for row in found if row["workload"] == workload), default=None)
                 for found in chosen]
        cells.append(cell(times, with_ratio))
    return f"| {label} | {' | '.join(cells)} |"


def make_table(csv_name: str, lines: list[str], root: pathlib.Path) -> str:
    about, rows = read_once(root / csv_name)
    settings, row_lines = {}, []
    for line in filter(None, map(str.strip, lines)):
        name, colon, value = line.partition(":")
        if colon and name in ("columns", "ratio"):
            settings[name] = value.split()
        else:
            row_lines.append(line)
    workloads = settings.get("columns", [])
    known = {row["workload"] for row in rows}
    if not workloads or not row_lines:
        raise Refused("there are no columns or no rows: one line is 'columns: WORKLOAD ...', others are rows")
    if unknown := [w for w in workloads if w not in known]:
        raise Refused(f"columns has {', '.join(unknown)}: {csv_name} has {', '.join(sorted(known))}")
    if (ratio := settings.get("ratio", ["no"])) not in (["yes"], ["no"]):
        raise Refused(f"ratio is '{' '.join(ratio)}': must be yes or no")
    body = [table_row(line, workloads, rows, ratio == ["yes"]) for line in row_lines]
    head = ["| | " + " | ".join(workloads) + " |", "|---" * (len(workloads) + 1) + "|"]
    return "\n".join([*head, *body, "", f"From {csv_name}: {about}.", ""])


def rewritten(file: pathlib.Path, root: pathlib.Path) -> tuple[str, str, int]:
    """(text, text as it should be, tables in it)."""
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

    return text, BLOCK.sub(replacement, text), begun


def markdown_files(root: pathlib.Path) -> list[pathlib.Path]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=root, capture_output=True, text=True, check=True).stdout
    return [root / name for name in listed.split()]


def main(words: list[str]) -> int:
    parser = parts.parser("generate tables", __doc__)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE.md")
    parser.add_argument("--check", action="store_true", help="compare only")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="folder that the names of CSV files start from")
    arguments = parser.parse_args(words)
    tables = stale = 0
    try:
        for file in arguments.files or markdown_files(arguments.root):
            text, wanted, count = rewritten(file, arguments.root)
            tables += count
            if text == wanted:
                continue
            stale += 1
            if arguments.check:
                sys.stdout.writelines(difflib.unified_diff(
                    text.splitlines(True), wanted.splitlines(True), str(file), "as its CSV has it", n=0))
            else:
                file.write_text(wanted)
                print(f"{file}: written")
    except (Refused, OSError) as error:
        print(f"generate: error: {error}", file=sys.stderr)
        return 2
    if arguments.check and stale:
        print(f"{stale} documents have tables that are not what their CSV says: run tools/generate tables",
              file=sys.stderr)
        return 1
    print(f"{tables} tables are what their CSV says")
    return 0
