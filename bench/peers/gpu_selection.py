#!/usr/bin/env python3
"""How good the library's choice of a kernel is, over many problems on a GPU; and, with --peers, how it does beside
what is installed of torch-ms-deform-attn and deformops.

The problems are drawn from what models have: D 16 to 256, 1 to 5 levels, P 1 to 16, 100 to 90,000 queries, 1 to 32
images, points anywhere or around the query's own place. Every kernel that takes a problem is timed, in turns, as a
replay of a CUDA graph with L2 flushed before it. Regret is the chosen kernel's time over the fastest one's, less 1.
Kernels that keep levels in shared memory pay where points are scattered, which no plan can know: only the tuner
chooses them, and they are told of apart.
Outputs are compared with those of `direct`'s generic kernel (which the tests compare with float64) before any time
is taken.

    MSDA_LIBRARY=build/release/lib/libmsda.so PYTHONPATH=bindings/python \\
        python bench/peers/gpu_selection.py --problems 200 --json selection.json
"""

import argparse
import json
import math
import pathlib
import random
import statistics
import sys
import time

import torch
from gpu_peers import captured, deformops_sides, largest_error, measure, ms_deform_attn_sides
from peer_data import DTYPES, make_tensors, msda_call, require_known

GENERIC = "dany.pany"
ALLOWED = {"f32": 1e-4, "f16": 2e-2, "bf16": 1e-1}  # of outputs of about 1
LARGEST_POINTS, LARGEST_VALUES = 6e7, 3e8


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--seed", type=int, default=1, help="of the problems (default 1)")
    parser.add_argument("--value-dtypes", default="f16,f32,bf16", help="drawn from these (default %(default)s)")
    parser.add_argument("--math-mode", choices=("accurate", "fast"), default="accurate")
    parser.add_argument("--rounds", type=int, default=5, help="timed calls of each kernel (default 5)")
    parser.add_argument("--seconds", type=float, default=0, help="stop drawing problems then; 0: no limit")
    parser.add_argument("--device", type=int, default=0, help="number of the GPU (default 0)")
    parser.add_argument("--peers", action="store_true", help="time the peers as well")
    parser.add_argument("--json", type=pathlib.Path, help="write the results here")
    arguments = parser.parse_args()
    require_known(parser, "--value-dtypes", arguments.value_dtypes, DTYPES)
    for name, least in (("problems", 1), ("rounds", 3)):
        if getattr(arguments, name) < least:
            parser.error(f"--{name} is {getattr(arguments, name)}: must be at least {least}")
    if not torch.cuda.is_available():
        parser.error("there is no GPU that torch can use")
    return arguments


def log_uniform(rng, least, most):
    return round(math.exp(rng.uniform(math.log(least), math.log(most))))


def draw(rng):
    """A workload as bench/workloads.json has them, of a size that a machine holds."""
    while True:
        L = rng.randint(1, 5)
        top = log_uniform(rng, 10, 130), log_uniform(rng, 10, 200)
        levels = [[max(1, top[0] >> l), max(1, top[1] >> l)] for l in range(L)]
        tokens = sum(h * w for h, w in levels)
        batch = rng.choice([1, 1, 2, 2, 4, 6, 8, 16, 32])
        heads, channels = rng.choice([(8, 32), (8, 32), (8, 32), (1, 32), (4, 32), (16, 16), (8, 64), (4, 64), (8, 16), (2, 128), (4, 128), (1, 256)])
        points = rng.choice([1, 2, 3, 4, 4, 4, 4, 6, 8, 8, 16])
        pattern = rng.choice(["uniform", "local"])
        queries = tokens if pattern == "local" else log_uniform(rng, 100, 90000)
        gathered = batch * queries * heads * L * points * max(1, channels / 32)
        if gathered <= LARGEST_POINTS and batch * tokens * heads * channels <= LARGEST_VALUES:
            return {"batch": batch, "heads": heads, "channels": channels, "levels": levels, "queries": queries,
                    "points": [points] * L, "pattern": pattern}


def is_for_the_tuner(kernel):
    return kernel.split("@")[0].endswith("c")


def predicted(handle, call_problem):
    """Kernel id to predicted microseconds, the chosen one first."""
    found = {}
    for line in handle.explain(call_problem).splitlines():
        words = line.split()  # rank, id, "predicted", microseconds, "us"; a dash for what is rejected
        if words and words[0].isdigit():
            found[words[1]] = float(words[3])
    return found


def sides_of(handle, work, dtype, arguments):
    """(libmsda's kernels by id with their predictions, the peers' calls)."""
    value, level_hw, coord, weight = make_tensors(work, "cuda")
    tensors = value.to(DTYPES[dtype]), level_hw, coord, weight
    kernels, predictions = {}, {}
    _, plan = msda_call(*tensors, handle, math_mode=arguments.math_mode)
    for kernel, microseconds in predicted(handle, plan.problem).items():
        kernels[kernel], _ = msda_call(*tensors, handle, kernel=kernel, math_mode=arguments.math_mode)
        predictions[kernel] = microseconds
    peers = {}
    if arguments.peers:
        for make in (ms_deform_attn_sides, deformops_sides):
            try:
                made = make(*tensors)
            except ImportError as error:
                print(f"left out: {error}", file=sys.stderr)
                continue
            for name, peer in made.items():
                try:
                    peer()
                    torch.cuda.synchronize()
                    peers[name] = captured(peer)
                except Exception as error:  # noqa: BLE001  whatever a peer throws, the others are measured
                    print(f"left out: {name}: {str(error).splitlines()[0][:120]}", file=sys.stderr)
    return kernels, predictions, plan.info.kernel_id, peers


def measure_problem(handle, work, dtype, arguments):
    kernels, predictions, chosen, peers = sides_of(handle, work, dtype, arguments)
    generic = next(kernel for kernel in kernels if GENERIC in kernel)
    exact = kernels[generic]().double()
    for kernel, call in kernels.items():
        error = largest_error(call(), exact)
        if not error <= ALLOWED[dtype]:
            sys.exit(f"{kernel} is off by {error} on {work}")
    # The generic kernel takes any problem and is slow: it is no front runner, unless it is chosen.
    timed = {kernel: captured(call) for kernel, call in kernels.items() if kernel == chosen or kernel != generic}
    times = {name: statistics.median(t) for name, t in measure(timed | peers, arguments.rounds).items()}
    ours = {name: t for name, t in times.items() if name in kernels}
    tuned = min(ours, key=ours.get)
    best = min((kernel for kernel in ours if not is_for_the_tuner(kernel)), key=ours.get)
    return {"work": work, "value_dtype": dtype, "chosen": chosen, "best": best, "times": times,
            "predicted": predictions, "regret": ours.get(chosen, math.inf) / ours[best] - 1, "tuned": tuned,
            "tuned_regret": ours.get(chosen, math.inf) / ours[tuned] - 1,
            "against_peers": min((times[name] for name in peers), default=math.inf) / ours.get(chosen, math.inf)}


def describe(row):
    w = row["work"]
    levels = ",".join(f"{h}x{x}" for h, x in w["levels"])
    return (f"{row['value_dtype']:4} B {w['batch']:2} M {w['heads']:2} D {w['channels']:3} P {w['points'][0]:2} Q {w['queries']:5}"
            f" {w['pattern']:7} {levels}")


def percentile(sorted_values, share):
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def report(rows, with_peers):
    regrets = sorted(row["regret"] for row in rows)
    print(f"\n{len(rows)} problems; regret: median {statistics.median(regrets):.1%}, 90 % of them at most"
          f" {percentile(regrets, 0.9):.1%}, worst {regrets[-1]:.1%};"
          f" above 8 %: {sum(r > 0.08 for r in regrets)}")
    for row in sorted(rows, key=lambda r: -r["regret"])[:12]:
        print(f"  {row['regret']:6.1%}  {describe(row)}: {row['chosen']} {row['times'].get(row['chosen'], math.inf):.1f} us,"
              f" {row['best']} {row['times'][row['best']]:.1f} us")
    scattered = [row for row in rows if is_for_the_tuner(row["tuned"])]
    if scattered:
        regrets = sorted(row["tuned_regret"] for row in scattered)
        print(f"On {len(scattered)} of them a kernel for the tuner alone is the fastest of all; regret beside it: median"
              f" {statistics.median(regrets):.1%}, most {regrets[-1]:.1%}, above 8 %: {sum(r > 0.08 for r in regrets)}")
    if not with_peers:
        return
    compared = [row for row in rows if row["against_peers"] < math.inf]
    ratios = sorted(row["against_peers"] for row in compared)
    print(f"{len(ratios)} problems beside peers; the faster peer's time over ours: least {ratios[0]:.2f},"
          f" median {statistics.median(ratios):.2f}, most {ratios[-1]:.2f}; below 1: {sum(r < 1 for r in ratios)}")
    for row in sorted(compared, key=lambda r: r["against_peers"])[:8]:
        print(f"  {row['against_peers']:5.2f}  {describe(row)}: {row['chosen']}")


def main():
    import msda

    arguments = parse_arguments()
    torch.cuda.set_device(arguments.device)
    handle = msda.Handle(device=arguments.device)
    rng = random.Random(arguments.seed)
    dtypes = arguments.value_dtypes.split(",")
    rows, begin = [], time.monotonic()
    with torch.no_grad():
        for n in range(arguments.problems):
            if arguments.seconds and time.monotonic() - begin > arguments.seconds:
                print(f"stopped after {n} of {arguments.problems} problems", file=sys.stderr)
                break
            rows.append(measure_problem(handle, draw(rng), rng.choice(dtypes), arguments))
            if sys.stderr.isatty():
                print(f"\r{n + 1} of {arguments.problems}", end="", file=sys.stderr, flush=True)
    if arguments.json:
        about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "msda": msda.build_info()}
        arguments.json.write_text(json.dumps({"about": about, "results": rows}, indent=1) + "\n")
    report(rows, arguments.peers)


if __name__ == "__main__":
    main()
