"""What gpu_selection.py makes of the times that it measured: regrets, a report, rows of a CSV. Needs no GPU."""

import math
import re
import statistics
from typing import NamedTuple

BAD_REGRET = 0.08
# What binds a gather: the data pipe of L1, issue slots, L2, device memory, or none of them, which is latency.
METRICS = ("gpu__time_duration.sum", "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
           "l1tex__data_pipe_lsu_wavefronts.sum", "smsp__inst_executed.sum",
           "smsp__inst_issued.avg.pct_of_peak_sustained_elapsed", "l1tex__t_sector_hit_rate.pct", "lts__t_bytes.sum",
           "dram__bytes_read.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed",
           "sm__warps_active.avg.pct_of_peak_sustained_active", "launch__registers_per_thread")


def ranked(text):
    """What msda_explain() says of the kernels that take a problem: id to predicted microseconds, the chosen one first."""
    found = re.findall(r"^\d+  (\S+)  predicted (\S+) us(?:, .*)?$", text, re.M)
    return {kernel: float(microseconds) for kernel, microseconds in found}


def judged(row):
    """The row with regrets beside the fastest kernel: the chosen kernel's time over that one's, less 1, of the plan that
    is told where points land and of the one that is not. row has work, chosen, chosen_untold, times (medians by name;
    peers among them) and predicted (by kernel)."""
    ours = {kernel: time for kernel, time in row["times"].items() if kernel in row["predicted"]}
    fastest = min(ours, key=ours.get)
    chosen = ours.get(row["chosen"], math.inf)
    peers = [time for name, time in row["times"].items() if name not in ours]
    return row | {"fastest": fastest, "regret": chosen / ours[fastest] - 1,
                  "regret_untold": ours.get(row["chosen_untold"], math.inf) / ours[fastest] - 1,
                  "against_peers": min(peers, default=math.inf) / chosen}


def describe(row):
    w = row["work"]
    levels = ",".join(f"{h}x{x}" for h, x in w["levels"])
    return (f"{row['value_dtype']:7} {row['input_mode']:7} B {w['batch']:2} M {w['heads']:2} D {w['channels']:3}"
            f" P {w['points'][0]:2} Q {w['queries']:5} {w['pattern']:7} {levels}")


def percentile(sorted_values, fraction):
    return sorted_values[min(len(sorted_values) - 1, int(fraction * len(sorted_values)))]


def regret_cells(regrets):
    regrets = sorted(regrets)
    return (f"{statistics.median(regrets):.1%} | {statistics.fmean(regrets):.1%} | {percentile(regrets, 0.9):.1%} |"
            f" {regrets[-1]:.1%} | {sum(r > BAD_REGRET for r in regrets)}")


def table_lines(rows):
    """A table of Markdown: regret beside all kernels, told and not told where points land, of all rows and of groups."""
    groups = {}
    for row in rows:
        kinds = (f"{row['math_mode']}", f"{row['value_dtype']}, {row['input_mode']}", f"points {row['work']['pattern']}")
        for kind in kinds:
            groups.setdefault(kind, []).append(row)
    yield "| problems | | told | median | mean | 90th percentile | worst | above 8 % |"
    yield "|---|---|---|---|---|---|---|---|"
    for kind, of_kind in sorted(groups.items()):
        for told, regret in (("yes", "regret"), ("no", "regret_untold")):
            yield f"| {kind} | {len(of_kind)} | {told} | {regret_cells([row[regret] for row in of_kind])} |"


def worst_lines(rows, count=12):
    for row in sorted(rows, key=lambda r: -r["regret"])[:count]:
        yield (f"  {row['regret']:6.1%}  {describe(row)}: {row['chosen']} {row['times'].get(row['chosen'], math.inf):.1f} us,"
               f" {row['fastest']} {row['times'][row['fastest']]:.1f} us")


def peer_lines(rows):
    compared = [row for row in rows if row["against_peers"] < math.inf]
    if not compared:
        return
    ratios = sorted(row["against_peers"] for row in compared)
    yield (f"{len(ratios)} problems beside peers; the faster peer's time over ours: least {ratios[0]:.2f},"
           f" median {statistics.median(ratios):.2f}, most {ratios[-1]:.2f}; below 1: {sum(r < 1 for r in ratios)}")
    for row in sorted(compared, key=lambda r: r["against_peers"])[:8]:
        yield f"  {row['against_peers']:5.2f}  {describe(row)}: {row['chosen']}"


def report_lines(rows):
    yield f"{len(rows)} problems; the chosen kernel's regret beside the fastest of all kernels, where the plan is told where"
    yield "points land and where it is not"
    yield from table_lines(rows)
    yield "Worst of the told ones:"
    yield from worst_lines(rows)
    yield from peer_lines(rows)


class Nearest(NamedTuple):
    row: dict
    kernel: str  # the family's fastest one
    other: str  # the fastest one of all other families
    ratio: float  # the other one's time over the family's: above 1 where the family is the fastest


def nearest_of(row, family):
    """Of a problem, or None where the family or all others were not timed."""
    times = {kernel: time for kernel, time in row["times"].items() if kernel in row["predicted"]}
    own = [kernel for kernel in times if kernel.startswith(f"{family}.")]
    others = [kernel for kernel in times if kernel not in own]
    if not own or not others:
        return None
    kernel, other = (min(of, key=times.get) for of in (own, others))
    return Nearest(row, kernel, other, times[other] / times[kernel])


def nearest(rows, family):
    """The problem where the family does best, or None where it took part in none."""
    found = filter(None, (nearest_of(row, family) for row in rows))
    return max(found, key=lambda n: n.ratio, default=None)


def sizes_of(row):
    """The options of `msda bench` for a problem."""
    w, fused = row["work"], {"fused2": " --fused 2", "fused4": " --fused 4"}
    levels, points = ",".join(f"{h}x{x}" for h, x in w["levels"]), ",".join(map(str, w["points"]))
    return (f"--batch {w['batch']} --queries {w['queries']} --heads {w['heads']} --channels {w['channels']} --levels {levels}"
            f" --points {points} --pattern {w['pattern']} --dtype {row['value_dtype']} --math {row['math_mode']}"
            f"{fused.get(row['input_mode'], '')}")


def family_lines(rows, family, tuned=None):
    """How often a family was the fastest, where it did best, what the tuner took there, and how both kernels' work is counted."""
    found = [n for n in (nearest_of(row, family) for row in rows) if n]
    won = sorted((n for n in found if n.ratio > 1), key=lambda n: -n.ratio)
    yield f"{family}: took part in {len(found)} of {len(rows)} problems, the fastest of all on {len(won)}"
    best = nearest(rows, family)
    if not best:
        return
    for n in won[:5] or [best]:
        yield (f"  {n.ratio:5.2f}  {describe(n.row)} {n.row['math_mode']}: {n.kernel} {n.row['times'][n.kernel]:.1f} us,"
               f" {n.other} {n.row['times'][n.other]:.1f} us")
    if tuned:
        yield f"  the tuner takes {tuned} on the first one; counters of both kernels:"
    for kernel in (best.kernel, best.other):
        yield (f"  ncu --csv --page raw --clock-control none --launch-skip 2 --launch-count 1 --metrics {','.join(METRICS)}"
               f" msda bench --device 0 {sizes_of(best.row)} --kernels {kernel} --check none --iterations 3")


def csv_rows(rows):
    """As tools/lib/measurements.py names the columns: a row for each kernel timed."""
    for number, row in enumerate(rows, 1):
        w = row["work"]
        for kernel, predicted in row["predicted"].items():
            if kernel not in row["times"]:
                continue
            least, most = row["quartiles"][kernel]
            yield {
                "problem": number, "batch": w["batch"], "heads": w["heads"], "channels": w["channels"],
                "levels": " ".join(f"{h}x{x}" for h, x in w["levels"]), "points": " ".join(map(str, w["points"])),
                "queries": w["queries"], "pattern": w["pattern"], "operation": row["operation"], "kernel_id": kernel,
                "value_dtype": row["value_dtype"], "coord_dtype": "f32", "math_mode": row["math_mode"],
                "input_mode": row["input_mode"], "predicted_us": predicted,
                "median_us": f"{row['times'][kernel]:.2f}", "q1_us": f"{least:.2f}", "q3_us": f"{most:.2f}"}
