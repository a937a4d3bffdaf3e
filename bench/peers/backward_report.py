"""What gpu_backward.py makes of the times that it measured: a CSV and a table. Needs no GPU and no torch."""

import csv
import statistics

COLUMNS = ("workload", "operation", "side", "kernel_id", "value_dtype", "math_mode", "input_mode",
           "median_us", "q1_us", "q3_us", "error_share", "peak_bytes")
OURS = ("plan", "any order")
# Side with fused input to the dimension of its references, and whether gradients by them are wanted.
FUSED = {"points": (2, False), "points, ref": (2, True), "boxes": (4, False), "boxes, ref": (4, True)}
PEER_NAMES = ("deformops", "deformops 16", "deformops CUDA", "ms_deform_attn")


def table_lines(rows):
    """A line for each problem and type: medians, and the best peer over our plan and over the better of our sides."""
    lines = {}
    for row in rows:
        lines.setdefault((row["workload"], row["value_dtype"]), {})[row["side"]] = row
    sides = (*OURS, *PEER_NAMES)
    width = max([len(key[0]) for key in lines], default=8)
    ends = "   peer/plan  peer/best     MB plan     MB peer"
    yield f"{'median us':{width}} {'type':4}" + "".join(f"{side:>15}" for side in sides) + ends
    slower, compared, all_times = [], 0, []
    for (name, dtype), found in lines.items():
        times = {side: float(row["median_us"]) for side, row in found.items()}
        cells = "".join(f"{times[side]:15.1f}" if side in times else " " * 15 for side in sides)
        all_times.append(times)
        peers = [side for side in PEER_NAMES if side in times]
        ratios = ""
        if peers:
            best = min(peers, key=times.get)
            ours = min(times[side] for side in OURS)
            ratios = f"{times[best] / times['plan']:12.2f}{times[best] / ours:11.2f}"
            ratios += "".join(f"{int(found[side]['peak_bytes']) / 1e6:12.1f}" for side in ("plan", best))
            compared += 1
            if ours > times[best]:
                slower.append(f"  {name} {dtype}: {ours:.1f} us, {best} {times[best]:.1f}")
        yield f"{name:{width}} {dtype:4}{cells}{ratios}"
    yield f"slower than the best peer: {len(slower)} of {compared}"
    yield from slower
    yield from ratio_lines(all_times)


def fused_lines(rows):
    """A line for each problem and type: medians, and those of fused input over that of sampled."""
    lines = {}
    for row in rows:
        lines.setdefault((row["workload"], row["value_dtype"]), {})[row["side"]] = float(row["median_us"])
    sides, width = ("plan", *FUSED), max([len(key[0]) for key in lines], default=8)
    yield (f"{'median us':{width}} {'type':4}" + "".join(f"{side:>13}" for side in sides)
           + "".join(f"{side + '/plan':>17}" for side in FUSED))
    for (name, dtype), times in lines.items():
        yield (f"{name:{width}} {dtype:4}" + "".join(f"{times[side]:13.1f}" for side in sides)
               + "".join(f"{times[side] / times['plan']:17.3f}" for side in FUSED))


def ratio_lines(all_times):
    """A line for each of our sides and each peer, of the problems' times by side."""
    for side in OURS:
        for peer in PEER_NAMES:
            ratios = sorted(times[peer] / times[side] for times in all_times if side in times and peer in times)
            if ratios:
                yield (f"{peer} over {side}: least {ratios[0]:.2f}, median {statistics.median(ratios):.2f}, most"
                       f" {ratios[-1]:.2f}; below 1: {sum(ratio < 1 for ratio in ratios)} of {len(ratios)}")


def write_rows(path, text, rows):
    with path.open("w", newline="") as file:
        file.write(f"# {text}\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
