"""What gpu_selection.py makes of the times that it measured: regrets, a report, rows of a CSV. Needs no GPU."""

import math
import re
import statistics

ONLY_BY_TUNING = "only chosen by tuning"
BAD_REGRET = 0.08


def ranked(text):
    """What msda_explain() says of the kernels that take a problem: [(id, predicted microseconds, whether only tuning
    chooses it)], the chosen one first."""
    found = re.findall(rf"^\d+  (\S+)  predicted (\S+) us(, {ONLY_BY_TUNING})?$", text, re.M)
    return [(kernel, float(microseconds), bool(flag)) for kernel, microseconds, flag in found]


def judged(row):
    """The row with regrets: the chosen kernel's time over the fastest one's, less 1, of all kernels and of those that
    a plan may choose by prediction. row has work, chosen, times (medians by name; peers among them), predicted and
    only_by_tuning (by kernel)."""
    ours = {kernel: time for kernel, time in row["times"].items() if kernel in row["predicted"]}
    fastest = min(ours, key=ours.get)
    best = min((kernel for kernel in ours if not row["only_by_tuning"][kernel]), key=ours.get)
    chosen = ours.get(row["chosen"], math.inf)
    peers = [time for name, time in row["times"].items() if name not in ours]
    return row | {"fastest": fastest, "regret": chosen / ours[fastest] - 1, "best_by_prediction": best,
                  "regret_by_prediction": chosen / ours[best] - 1,
                  "against_peers": min(peers, default=math.inf) / chosen}


def describe(row):
    w = row["work"]
    levels = ",".join(f"{h}x{x}" for h, x in w["levels"])
    return (f"{row['value_dtype']:7} {row['input_mode']:7} B {w['batch']:2} M {w['heads']:2} D {w['channels']:3}"
            f" P {w['points'][0]:2} Q {w['queries']:5} {w['pattern']:7} {levels}")


def percentile(sorted_values, fraction):
    return sorted_values[min(len(sorted_values) - 1, int(fraction * len(sorted_values)))]


def regret_line(regrets):
    regrets = sorted(regrets)
    return (f"median {statistics.median(regrets):.1%}, mean {statistics.fmean(regrets):.1%}, 90 % at most"
            f" {percentile(regrets, 0.9):.1%}, worst {regrets[-1]:.1%}; above {BAD_REGRET:.0%}:"
            f" {sum(r > BAD_REGRET for r in regrets)}")


def worst_lines(rows, regret, best, count=12):
    for row in sorted(rows, key=lambda r: -r[regret])[:count]:
        yield (f"  {row[regret]:6.1%}  {describe(row)}: {row['chosen']} {row['times'].get(row['chosen'], math.inf):.1f} us,"
               f" {row[best]} {row['times'][row[best]]:.1f} us")


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
    yield f"{len(rows)} problems; the chosen kernel's regret beside the fastest of"
    yield f"  all kernels:                         {regret_line([row['regret'] for row in rows])}"
    yield f"  those that a prediction may choose:  {regret_line([row['regret_by_prediction'] for row in rows])}"
    groups = {}
    for row in rows:
        groups.setdefault((row["value_dtype"], row["input_mode"]), []).append(row["regret"])
    for (dtype, mode), regrets in sorted(groups.items()):
        yield f"  {dtype}, {mode}, {len(regrets)} problems, all kernels: {regret_line(regrets)}"
    yield "Worst beside those that a prediction may choose:"
    yield from worst_lines(rows, "regret_by_prediction", "best_by_prediction")
    tuned = [row for row in rows if row["only_by_tuning"][row["fastest"]]]
    if tuned:
        yield f"On {len(tuned)} of them a kernel that only tuning chooses is the fastest of all; worst of these:"
        yield from worst_lines(tuned, "regret", "fastest")
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
                "input_mode": row["input_mode"], "only_by_tuning": int(row["only_by_tuning"][kernel]),
                "predicted_us": predicted, "median_us": f"{row['times'][kernel]:.2f}", "q1_us": f"{least:.2f}",
                "q3_us": f"{most:.2f}"}
