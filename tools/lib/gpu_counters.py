"""Hardware counters of one kernel on one workload, by ncu: what bounds it.

    tools/measure counters WORKLOAD KERNEL_ID VALUE_TYPE [further arguments of msda bench]

For example: tools/measure counters bev-local direct.sm75.f16.d32.p8@1 f16. One launch is profiled with the clocks left
alone and no cache cleared before it; instructions and wavefronts are also given for 32 points of one head (a warp's
worth), which is what the README files of kernels/ count. Needs build/release and ncu.
"""

import csv
import io
import subprocess
import sys

from measurements import ROOT, workload_list

METRICS = {
    "gpu__time_duration.sum": "time",
    "smsp__inst_executed.sum": "instructions",
    "l1tex__data_pipe_lsu_wavefronts.sum": "L1 wavefronts",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": "of them shared memory",
    "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed": "L1 data pipe busy",
    "smsp__inst_issued.avg.pct_of_peak_sustained_elapsed": "issue slots busy",
    "l1tex__t_sector_hit_rate.pct": "L1 hit rate",
    "lts__t_sector_hit_rate.pct": "L2 hit rate",
    "lts__t_bytes.sum": "L2 bytes",
    "dram__bytes_read.sum": "device memory read",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy",
    "launch__registers_per_thread": "registers a thread",
}
PER_POINTS = ("instructions", "L1 wavefronts", "of them shared memory")


def main(words: list[str]) -> int:
    if len(words) < 3:
        sys.exit(__doc__)
    workload, kernel, dtype, *more = words
    # The first launches are the check against the reference and the warm-up.
    command = ["ncu", "--csv", "--print-units", "base", "--clock-control", "none", "--cache-control", "none",
               "--launch-skip", "2", "--launch-count", "1", "--metrics", ",".join(METRICS),
               ROOT / "build/release/bin/msda", "bench", "--device", "0", "--workload", workload, "--kernels", kernel,
               "--dtype", dtype, "--iterations", "3", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    start = done.stdout.find('"ID"')
    if start < 0:
        sys.exit(f"ncu failed ({done.returncode}):\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    work = next(w for w in workload_list() if w["name"] == workload)
    warps = work["batch"] * work["queries"] * work["heads"] * sum(work["points"]) / 32
    print(f"{kernel} on {workload}, {dtype}{' ' + ' '.join(more) if more else ''}")
    for row in csv.DictReader(io.StringIO(done.stdout[start:])):
        name = METRICS.get(row["Metric Name"])
        if name is None:
            continue
        value = float(row["Metric Value"].replace(",", ""))
        per = f"{value / warps:10.1f} for 32 points" if name in PER_POINTS else ""
        print(f"  {name:24} {value:18,.1f} {row['Metric Unit']:12} {per}")
    return 0
