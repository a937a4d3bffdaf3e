"""Reads kept measurements: CSV as `msda bench --csv` and bench/peers/gpu_selection.py --csv write it, maybe compressed.

Lines that begin with # say where and how it was measured; then come a line with the columns' names and the rows."""

import csv
import gzip
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


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


# What bench/peers/gpu_selection.py writes: a row for each kernel that took a problem drawn at random. Sizes are those of
# bench/workloads.json: levels "92x160 46x80", points "8 8", a number for each level.
DRAWN = ("problem", "batch", "heads", "channels", "levels", "points", "queries", "pattern", "operation", "kernel_id",
         "value_dtype", "coord_dtype", "math_mode", "input_mode", "predicted_us", "median_us", "q1_us", "q3_us")


def write_csv(path: pathlib.Path, about: str, columns, rows) -> None:
    opened = gzip.open(path, "wt", newline="") if path.suffix == ".gz" else path.open("w", newline="")
    with opened as file:
        file.write(f"# {about}\n")
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_drawn(path: pathlib.Path, about: str, rows: list[dict]) -> None:
    write_csv(path, about, DRAWN, rows)


# What msda_problem.point_locality says of the points of a pattern.
LOCALITIES = {"uniform": "scattered", "local": "local"}


def workload_list() -> list[dict]:
    return json.loads((ROOT / "bench/workloads.json").read_text())["workloads"]


def query_grids(work: dict) -> list[list[int]]:
    """Whose pixels the queries are, as msda_problem.query_hw has it; none where the library sees it by itself."""
    if "reference_grid" not in work:
        return []
    width = work["reference_grid"][1]
    rows, rest = divmod(work["queries"], width)
    return [[rows, width]] + ([[1, rest]] if rest else [])


def measured_problem(row: dict[str, str], workloads: dict[str, dict]) -> dict:
    """A row's problem as msda_cost_model takes it, of either kind of CSV."""
    if "workload" in row:
        if row["workload"] not in workloads:
            raise Refused(f"workload {row['workload']!r} is not in bench/workloads.json")
        work = workloads[row["workload"]]
        sizes = {name: work[name] for name in ("batch", "heads", "channels", "levels", "points", "queries")}
        sizes["query_hw"] = query_grids(work)
        pattern = work["pattern"]
    else:
        sizes = {name: int(row[name]) for name in ("batch", "heads", "channels", "queries")}
        sizes["levels"] = [[int(n) for n in level.split("x")] for level in row["levels"].split()]
        sizes["points"] = [int(n) for n in row["points"].split()]
        if any(len(level) != 2 for level in sizes["levels"]):
            raise Refused(f"levels are {row['levels']!r}: must be heights and widths such as 92x160 46x80")
        if len(sizes["points"]) != len(sizes["levels"]):
            raise Refused(f"points are {row['points']!r}: must be a number for each of {len(sizes['levels'])} levels")
        pattern = row["pattern"]
    if pattern not in LOCALITIES:
        raise Refused(f"pattern is {pattern!r}: must be {' or '.join(LOCALITIES)}")
    reference_dims = {"sampled": 0, "fused2": 2, "fused4": 4}
    if row["input_mode"] not in reference_dims:
        raise Refused(f"input_mode is {row['input_mode']!r}: must be sampled, fused2 or fused4")
    return sizes | {"point_locality": LOCALITIES[pattern], "reference_dim": reference_dims[row["input_mode"]],
                    "operation": row["operation"], "math_mode": row["math_mode"],
                    "value_dtype": row["value_dtype"].upper(), "coord_dtype": row["coord_dtype"].upper()}
