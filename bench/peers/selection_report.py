"""What gpu_selection.py makes of the times that it measured: regrets, a report, rows of a CSV. Needs no GPU."""

import math
import re
import statistics

BAD_REGRET = 0.08


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


def csv_rows(rows):
    """As tools/measurements.py names the columns: a row for each kernel timed."""
    for number, row in enumerate(rows, 1):
        w = row["work"]
        for kernel, predicted in row["predicted"].items():
            if kernel not in row["times"]:
                continue
            least, most = row["quartiles"][kernel]
            yield {
                "problem": number, "batch": w["batch"], "heads": w["heads"], "channels": w["channels"],
                "levels": " ".join(f"{h}x{x}" for h, x in w["levels"]), "points": " ".join(map(str, w["points"])),
                "queries": w["queries"], "pattern": w["pattern"], "operation": "forward", "kernel_id": kernel,
                "value_dtype": row["value_dtype"], "coord_dtype": "f32", "math_mode": row["math_mode"],
                "input_mode": row["input_mode"], "predicted_us": predicted,
                "median_us": f"{row['times'][kernel]:.2f}", "q1_us": f"{least:.2f}", "q3_us": f"{most:.2f}"}
