"""Compares measurements with those kept in bench/baselines, or keeps them.

    tools/measure compare NEW.csv BASELINE.csv            table of both; exit status 1 if a row became worse
    tools/measure compare NEW.csv BASELINE.csv --keep "GPU, driver, clocks, commit"

Both are CSV as `msda bench --csv` writes it; a baseline begins with a comment that says where it was measured.
Rows belong together whatever the revision of their kernel (the number behind @). A row is worse when

- it is slower: its median grew by more than the tolerance, and its first quartile lies above the baseline's third.
- its error grew: error_share, the largest error over the error that is allowed, is more than 3 times the
  baseline's; or max_error is. Where the baseline compared fewer elements, 6 times is allowed: the largest is taken
  among up to 4,000 times as many errors, and the rounding of results is twice as coarse for those twice as large.
- its check failed, so that it has no time, or its error_share is above 1; or fewer of its elements were compared.
- it is in the baseline and was not measured now, unless --gone names it.

Exit status 2 if a file cannot be read as such a table.
"""

import dataclasses
import fnmatch
import math
import pathlib
import re

import parts
from measurements import Refused, read_csv, write_csv

# The columns that tell a row from others, each with its width.
KEY = {"workload": 20, "operation": 8, "kernel_id": 32, "value_dtype": 8, "coord_dtype": 8, "math_mode": 8, "input_mode": 7}
NUMBERS = ("q1_us", "q3_us", "max_error", "error_share", "compared")
ERROR_GROWTH = 3
ERROR_GROWTH_FROM_SAMPLE = 6
# Verdicts name what is worse about a row, and how such rows are counted.
VERDICTS = {"SLOWER": "slower", "LARGER ERROR": "with a larger error", "CHECK FAILED": "whose check failed",
            "LESS COMPARED": "of which less was compared", "NOT MEASURED": "not measured"}
SMALLEST_SHARE = 0.001  # what a smaller share in the baseline counts as


@dataclasses.dataclass
class Row:
    """A line of a table. Without a median its check failed, and its other numbers mean nothing."""

    fields: dict
    median: float | None = None
    q1: float = 0
    q3: float = 0
    max_error: float = 0
    error_share: float = 0
    compared: float = 0


def key_of(fields: dict) -> tuple:
    return tuple(re.sub(r"@\d+$", "", fields[name]) if name == "kernel_id" else fields[name] for name in KEY)


def text_of(key: tuple) -> str:
    return " ".join(f"{part:{width}}" for part, width in zip(key, KEY.values()))


def row_of(fields: dict, where: str) -> Row:
    def number(name: str, least: float) -> float:
        try:
            value = float(fields[name])
        except ValueError:
            value = math.nan
        if not least <= value < math.inf:
            raise Refused(f"{where}: {name} is '{fields[name]}': it must be a number of at least {least}")
        return value

    if fields["median_us"] == "":
        return Row(fields)
    row = Row(fields, number("median_us", 0.05), *(number(name, 0) for name in NUMBERS))
    if not row.q1 <= row.median <= row.q3:
        raise Refused(f"{where}: median_us is {row.median}: it must lie between q1_us, {row.q1}, and q3_us, {row.q3}")
    return row


def read(path: pathlib.Path) -> dict[tuple, Row]:
    _, table = read_csv(path, (*KEY, "median_us", *NUMBERS))
    rows = {}
    for fields in table:
        where = f"{path}: row '{' '.join(fields[name] for name in KEY)}'"
        key = key_of(fields)
        if key in rows:
            raise Refused(f"{where} is there twice")
        rows[key] = row_of(fields, where)
    return rows


def keep(rows: dict[tuple, Row], path: pathlib.Path, about: str) -> None:
    for key, row in rows.items():
        if row.median is None:
            raise Refused(f"not kept: the check of '{' '.join(key)}' failed")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_csv(path, about, next(iter(rows.values())).fields.keys(), (row.fields for row in rows.values()))


def error_grew(new: Row, old: Row) -> str:
    """What grew, or nothing."""
    growth = ERROR_GROWTH_FROM_SAMPLE if old.compared < new.compared else ERROR_GROWTH
    for name, least in (("error_share", SMALLEST_SHARE), ("max_error", 0)):
        before, after = getattr(old, name), getattr(new, name)
        if after > growth * max(before, least):
            return f"{name} {before:g} -> {after:g}"
    return ""


def judge(new: Row, old: Row | None, tolerance: float) -> list[str]:
    """What is bad about a row."""
    if new.median is None:
        return ["CHECK FAILED"]
    bad = []
    if new.error_share > 1:
        bad.append(f"CHECK FAILED: error_share is {new.error_share:g}, more than 1")
    if old is None:
        return bad
    if new.median > old.median * (1 + tolerance) and new.q1 > old.q3:
        bad.append("SLOWER")
    if grown := error_grew(new, old):
        bad.append(f"LARGER ERROR: {grown}")
    if new.compared < old.compared:
        bad.append(f"LESS COMPARED: {new.compared:.0f} elements, {old.compared:.0f} before")
    return bad


def describe(new: Row, old: Row | None) -> str:
    if new.median is None:
        return f"{'':>32}"
    if old is None:
        return f"{'':>10} {new.median:10.1f} us  new  "
    text = f"{old.median:10.1f} {new.median:10.1f} us  {new.median / old.median:.3f}"
    before, after = (row.fields["kernel_id"].rpartition("@")[2] for row in (old, new))
    return text if before == after else f"{text}  revision {before} -> {after}"


def compare(new: dict[tuple, Row], old: dict[tuple, Row], tolerance: float, gone: list[str]) -> bool:
    """Prints the table; true if nothing is worse."""
    counts = dict.fromkeys(VERDICTS, 0)
    for key, row in new.items():
        before = old.get(key)
        bad = judge(row, before, tolerance)
        print(f"{text_of(key)} {describe(row, before)}{''.join(f'  {what}' for what in bad)}")
        for what in bad:
            counts[what.partition(":")[0]] += 1
    unused = set(gone)
    removed = 0
    for key in (key for key in old if key not in new):
        name = " ".join(key)
        matching = {pattern for pattern in gone if fnmatch.fnmatchcase(name, pattern)}
        unused -= matching
        removed += bool(matching)
        counts["NOT MEASURED"] += not matching
        print(f"{text_of(key)} {old[key].median:10.1f} {'-':>10} us  {'gone' if matching else 'NOT MEASURED'}")
    for pattern in sorted(unused):
        print(f"--gone '{pattern}' NAMES NO ROW that is missing")
    added = len(new.keys() - old.keys())
    print(f"[baseline] {len(new)} rows, {added} of them new; " +
          ", ".join(f"{count} {VERDICTS[what]}" for what, count in counts.items()) +
          f", {removed} gone; tolerance {tolerance:.0%}")
    return not unused and not any(counts.values())


def main(words: list[str]) -> int:
    parser = parts.parser("measure compare", __doc__)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("baseline", type=pathlib.Path)
    parser.add_argument("--keep", metavar="TEXT", help="write the new rows as the baseline, with this comment")
    parser.add_argument("--gone", metavar="PATTERN", action="append", default=[],
                        help="rows that need not be measured any more: the row's first seven fields with a blank"
                             " between them, the kernel without its revision; * stands for anything. Can be repeated")
    parser.add_argument("--tolerance", type=float, default=0.08, help="default %(default)s")
    arguments = parser.parse_args(words)
    if not 0 <= arguments.tolerance < 1:
        parser.error(f"--tolerance is {arguments.tolerance}: it must be at least 0 and less than 1")
    new = read(arguments.new)
    if arguments.keep is not None:
        keep(new, arguments.baseline, arguments.keep)
        return 0
    return 0 if compare(new, read(arguments.baseline), arguments.tolerance, arguments.gone) else 1
