"""What gpu_peers.py makes of the times that it measured: rows of a CSV and a table. Needs no GPU and no torch."""

import csv
import re
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

PEER_NAMES = ("deformops", "ms_deform_attn")
COLUMNS = ("workload", "operation", "side", "kernel_id", "value_dtype", "coord_dtype", "math_mode", "input_mode", "cache",
           "median_us", "q1_us", "q3_us", "max_error", "error_share")
GENERIC = "dany.pany"


class Side(NamedTuple):
    """One way to compute: a peer, or a kernel of libmsda and who chose it. given: sampled inputs, as it gets them."""

    name: str
    kernel_id: str
    coord_dtype: str
    math_mode: str
    input_mode: str
    call: Callable
    given: Any

    @property
    def is_peer(self):
        return self.name in PEER_NAMES

    def __hash__(self):
        return hash(self[:5])

    def __eq__(self, other):
        return self[:5] == other[:5]


def best_direct(explained):
    """The id of family direct, but for its generic kernels, that msda_explain() ranks first; None: there is none."""
    for kernel in re.findall(r"^\d+  (direct\.\S+)  predicted", explained, re.M):
        if GENERIC not in kernel:
            return kernel
    return None


def rows_of_sides(workload, value_dtype, cache, measured):
    """measured: side to (microseconds, (largest error, the same over what is allowed))."""
    for side, (times, (error, share)) in measured.items():
        least, _, most = statistics.quantiles(times, n=4, method="inclusive")
        yield {"workload": workload, "operation": "forward", "side": side.name, "kernel_id": side.kernel_id,
               "value_dtype": value_dtype, "coord_dtype": side.coord_dtype, "math_mode": side.math_mode,
               "input_mode": side.input_mode, "cache": cache, "median_us": f"{statistics.median(times):.2f}",
               "q1_us": f"{least:.2f}", "q3_us": f"{most:.2f}", "max_error": f"{error:.3e}",
               "error_share": f"{share:.3e}"}


def write_peers(path, about, rows):
    with path.open("w", newline="") as file:
        file.write(f"# {about}\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def table_lines(rows):
    """For each workload, type, coordinates, mode, input and cache one line: the median of each side, and of the faster
    peer over the plan that is told where points land."""
    lines = {}
    for row in rows:
        key = tuple(row[c] for c in ("workload", "value_dtype", "coord_dtype", "math_mode", "input_mode", "cache"))
        lines.setdefault(key, {})[row["side"]] = float(row["median_us"])
    sides = ("direct", "plan", "hinted", "tuned", *PEER_NAMES)
    yield f"{'median us':70}" + "".join(f"{side:>15}" for side in sides) + "  peer / hinted"
    for key, times in lines.items():
        cells = "".join(f"{times[side]:15.1f}" if side in times else " " * 15 for side in sides)
        peers = [times[peer] for peer in PEER_NAMES if peer in times]
        ratio = f"{min(peers) / times['hinted']:15.2f}" if peers and "hinted" in times else ""
        words = f"{key[0]:18} {key[1]:7} coord {key[2]:4} {key[3]:8} {key[4]:7} {key[5]}"
        yield f"{words:70}{cells}{ratio}"
