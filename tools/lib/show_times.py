"""Prints kept measurements as a table in Markdown, workloads beside each other.

    tools/measure show FILE.csv[.gz] [--value COLUMN] [COLUMN=PATTERN ...]

FILE is one of bench/baselines, or what `msda bench --csv` or bench/peers write. A row stands for what differs among the
measurements that the patterns select, such as a side, a kernel or a type. For example the gradients of float16 values by
all sides:

    tools/measure show bench/baselines/h200_backward_peers.csv operation=backward value_dtype=f16
"""

import pathlib

import parts
from document_tables import NEEDED, cell, fits, markdown, measured, selection
from measurements import Refused, read_csv

KEYS = ("operation", "side", "kernel_id", "value_dtype", "coord_dtype", "math_mode", "input_mode", "cache")


def table(rows: list[dict[str, str]], column: str) -> str:
    # A side has another kernel on each workload: its name alone says which measurements belong together.
    keys = [key for key in KEYS if key in rows[0] and not (key == "kernel_id" and "side" in rows[0])]
    keys = [key for key in keys if len({row[key] for row in rows}) > 1] or keys[:1]
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    numbers = {}
    for row in rows:
        times = numbers.setdefault(tuple(row[key] for key in keys), {})
        times[row["workload"]] = min(measured(row, column), times.get(row["workload"], float("inf")))
    body = [[" ".join(label), *(cell([times.get(workload)], False) for workload in workloads)]
            for label, times in numbers.items()]
    return markdown([[" ".join(keys), *workloads], *body])


def main(words: list[str]) -> int:
    parser = parts.parser("measure show", __doc__)
    parser.add_argument("file", type=pathlib.Path, metavar="FILE.csv")
    parser.add_argument("patterns", nargs="*", metavar="COLUMN=PATTERN", help="all have to hold; none: everything")
    parser.add_argument("--value", default="median_us", metavar="COLUMN", help="default %(default)s; of bytes it prints MB")
    arguments = parser.parse_intermixed_args(words)
    about, rows = read_csv(arguments.file, NEEDED + (arguments.value,))
    patterns = selection(" ".join(arguments.patterns), rows[0], {})
    chosen = [row for row in rows if fits(row, patterns)]
    if not chosen:
        raise Refused(f"{arguments.file} has no row with {' '.join(arguments.patterns)}")
    print(f"{table(chosen, arguments.value)}\nFrom {arguments.file}: {about}.")
    return 0
