"""Reads kept measurements: CSV as `msda bench --csv` and bench/peers/gpu_selection.py --csv write it, maybe compressed.

Lines that begin with # say where and how it was measured; then come a line with the columns' names and the rows."""

import csv
import gzip
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Refused(Exception):
    """A file or a table's description that cannot be used; the text says why."""


def read_csv(path: pathlib.Path, needed: tuple[str, ...]) -> tuple[str, list[dict[str, str]]]:
    """(what its comment says, its rows). Columns beyond those needed may come and go."""
    try:
        opened = gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="")
        with opened as file:
            lines = file.read().splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read: {error}") from error
    about = " ".join(line[1:].strip() for line in lines if line.startswith("#"))
    reader = csv.DictReader(line for line in lines if line.strip() and not line.startswith("#"))
    rows = list(reader)
    for name in needed:
        if name not in (reader.fieldnames or []):
            raise Refused(f"{path} has no column {name}: it has {', '.join(reader.fieldnames or [])}")
    if not rows:
        raise Refused(f"{path} has no rows")
    for number, row in enumerate(rows, 1):
        if None in row or None in row.values():
            raise Refused(f"{path}, row {number}: has not as many cells as there are columns")
    return about, rows


def microseconds(row: dict[str, str], column: str = "median_us") -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise Refused(f"{column} is {row[column]!r}: must be a time above 0")
    return value
