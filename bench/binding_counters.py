#!/usr/bin/env python3
"""What a GPU counts of the resource that binds a kernel, beside what `msda roofline` counts of it. Of each row below Nsight
Compute counts one launch, with caches flushed before, and `msda roofline --ncu` compares. Ratios are measured to counted.

    python bench/binding_counters.py --msda build/release/bin/msda --out counters
    python bench/binding_counters.py --msda build/release/bin/msda --out counters --read    what is there, without a GPU
"""

import argparse
import json
import pathlib
import subprocess
import sys

# Workload, value type, math mode, kernel: of each family that is modelled and each resource that binds. Not direct's rows of f16,
# to which its counts are fitted.
ROWS = (
    ("enc-local", "f32", "accurate", "persistent.sm80.f32.d32.p4.s1@5"),
    ("dec", "f16", "accurate", "persistent.sm80.f16.d32.p4.s4@5"),
    ("bev-local", "f16", "fast", "persistent.sm80.f16.d32.p8.h1@6"),
    ("enc-local", "f32", "accurate", "direct.sm75.f32.d32.p4@1"),
    ("bev-fold", "bf16", "accurate", "persistent.sm80.bf16.d32.p8.s1@7"),
    ("enc-local", "f16", "accurate", "persistent.sm80.f16.d32.p4.s1@7"),
    ("rtdetr-b32", "f16", "accurate", "persistent.sm80.f16.d32.p4.s4@5"),
    ("enc-uniform", "f16", "fast", "persistent.sm90.f16.d32.p4.h1c@1"),
)
# What is counted of a resource. Of HBM what is read: what is written may stay in L2.
COUNTERS = {"HBM": "dram__bytes_read.sum", "L2": "lts__t_bytes.sum", "L1 data pipe": "l1tex__data_pipe_lsu_wavefronts.sum",
            "issue slots": "smsp__inst_executed.sum"}
METRICS = (*COUNTERS.values(), "l1tex__t_sector_hit_rate.pct")
CLOSE = 0.15


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--msda", default="msda", help="the command (default %(default)s)")
    parser.add_argument("--ncu", default="ncu", help="Nsight Compute's (default %(default)s)")
    parser.add_argument("--rows", type=int, default=len(ROWS), help="the first ones (default all)")
    parser.add_argument("--device", default="0", help="number of the GPU (default 0)")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for a CSV of counters a row")
    parser.add_argument("--read", action="store_true", help="measure nothing, read the folder")
    return parser.parse_args(words)


def problem_words(row):
    workload, dtype, math_mode, kernel = row
    return ["--workload", workload, "--dtype", dtype, "--math", math_mode, "--kernels", kernel]


def file_of(folder, row):
    return folder / f"{row[0]}.{row[3]}.csv"


def count(row, arguments):
    """Runs ncu. The first launches warm up; --cache-control all flushes all caches before each pass."""
    file = file_of(arguments.out, row)
    command = [arguments.ncu, "--csv", "--page", "raw", "--log-file", str(file), "--launch-skip", "2", "--launch-count", "1",
               "--clock-control", "none", "--cache-control", "all", "--metrics", ",".join(METRICS), arguments.msda, "bench",
               "--device", arguments.device, *problem_words(row), "--check", "none", "--iterations", "3"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{' '.join(command)}\n{done.stdout}{done.stderr}", file=sys.stderr)


def compared(row, arguments):
    """(what binds, its bound in microseconds, counters by name) of a row that was counted."""
    report = arguments.out / "report.json"
    subprocess.run([arguments.msda, "roofline", *problem_words(row), "--ncu", file_of(arguments.out, row), "--json", report],
                   check=True, capture_output=True)
    read = json.loads(report.read_text())
    report.unlink()
    bounds = read["results"][0]["bounds_us"]
    return bounds["binds"], bounds["largest"], {counter["counter"]: counter for counter in read["ncu"]}


def line_of(row, binds, bound, counters):
    counter = counters[COUNTERS[binds]]
    others = ", ".join(f"{name} {counters[metric]['ratio']:.2f}" for name, metric in COUNTERS.items()
                       if name != binds and counters.get(metric, {}).get("ratio"))
    return (f"| {row[0]} | {row[3]} | {binds} | {bound:.1f} | {counter['counted']:.4g} | {counter['measured']:.4g} |"
            f" {counter['ratio']:.2f} | {others} |")


def main(words=None):
    arguments = parse_arguments(words)
    arguments.out.mkdir(parents=True, exist_ok=True)
    close = found = 0
    print("| workload | kernel | binds | bound, us | counted | measured | ratio | ratios of the others |")
    print("|---|---|---|---|---|---|---|---|")
    for row in ROWS[: arguments.rows]:
        if not arguments.read:
            count(row, arguments)
        if not file_of(arguments.out, row).exists():
            continue
        binds, bound, counters = compared(row, arguments)
        found += 1
        close += abs(counters[COUNTERS[binds]]["ratio"] - 1) <= CLOSE
        print(line_of(row, binds, bound, counters), flush=True)
    print(f"within {CLOSE:.0%}: {close} of {found} kernels")
    if found < len(ROWS[: arguments.rows]):
        sys.exit(f"not counted: {len(ROWS[: arguments.rows]) - found}")


if __name__ == "__main__":
    main()
