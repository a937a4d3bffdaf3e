#!/usr/bin/env python3
"""Forward or backward on the CPU: libmsda against torch's grid_sample composition and torch-ms-deform-attn's C++ op.

All of them run in one process on the same tensors, in turns: a round gives each side some milliseconds of calls
that are not timed and then a few that are, so that each finds the caches as its own calls before left them and
the threads of the side before it have stopped spinning. Outputs are compared with a float64 computation before any
time is taken, libmsda's by its documented bound, and the script ends where one is wrong. Thread counts get a process
each, because the thread pools of torch are made once. With --backward the gradients by value, coordinates and weights are
computed, from a grad_output and, by autograd of grid_sample, a graph that is made once; that is not timed.

Each side runs on two kinds of memory, in turns: tensors that begin at multiples of 64 bytes ("lines"), as torch allocates
them, and 16 bytes behind ("malloc"), as numpy and malloc do. Results that the peers make are where torch puts them.

    MSDA_LIBRARY=build/release/lib/libmsda.so PYTHONPATH=bindings/python \\
        python bench/peers/cpu_peers.py --json peers.json
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from peer_check import PEER_TOLERANCE, complaint, gradient_share
from peer_data import (DTYPES, error_share_of, expected, expected_gradients, grid_sample, level_starts, make_tensors, msda_call,
                       placed, require_known, workload_list)

# Name in bench/workloads.json, and what is changed: the targets are stated for one image.
WORKLOADS = {"enc-uniform": {"batch": 1}, "enc-local": {"batch": 1}, "dec": {}, "rtdetr": {}}
VALUE_DTYPES = ("f32", "f16", "bf16")
WARM_SECONDS = 0.02  # longer than OpenMP's threads spin after their work
MEMORY = {"lines": 0, "malloc": 16}  # name to the bytes behind a multiple of 64 at which tensors begin
PEERS = ("grid_sample", "ms_deform_attn")
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1,2", help="thread counts, comma separated (default 1,2)")
    parser.add_argument("--workloads", default=",".join(WORKLOADS),
                        help="names in bench/workloads.json (default %(default)s)")
    parser.add_argument("--value-dtypes", default=",".join(VALUE_DTYPES),
                        help="of libmsda; the peers run in float32 (default %(default)s)")
    parser.add_argument("--memory", default=",".join(MEMORY), help="kinds of memory (default %(default)s)")
    parser.add_argument("--backward", action="store_true", help="time the gradients, not the outputs")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each side (default 6)")
    parser.add_argument("--calls", type=int, default=2, help="timed calls a turn (default 2)")
    parser.add_argument("--clock", choices=CLOCKS, default="wall",
                        help="cpu: processor time of all threads, which other work on the machine disturbs less")
    parser.add_argument("--json", type=pathlib.Path, help="write the results here")
    parser.add_argument("--csv", type=pathlib.Path, help="write the results here")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)  # thread count of this process
    arguments = parser.parse_args()
    require_known(parser, "--workloads", arguments.workloads, sorted(w["name"] for w in workload_list()))
    require_known(parser, "--memory", arguments.memory, MEMORY)
    require_known(parser, "--value-dtypes", arguments.value_dtypes, VALUE_DTYPES)
    if not all(t.isdigit() and int(t) > 0 for t in arguments.threads.split(",")):
        parser.error(f"--threads is {arguments.threads!r}: must be numbers, comma separated")
    if arguments.rounds < 1 or arguments.calls < 1:
        parser.error("--rounds and --calls must be at least 1")
    return arguments


def workload(name):
    found = next(w for w in workload_list() if w["name"] == name)
    return found | WORKLOADS.get(name, {})


def ms_deform_attn(value, level_hw, coord, weight):
    """torch-ms-deform-attn's op on the same tensors, or None where it is not installed."""
    try:
        from torch_ms_deform_attn import ms_deform_attn as function
    except ImportError:
        return None
    start = level_starts(level_hw)
    return lambda: function(value, level_hw, start, coord, weight)


def make_sides(tensors, dtypes, handle, behind):
    """Name to (call that returns the output, its kernel, value dtype)."""
    value, *rest = tensors
    sides = {"grid_sample": (lambda: grid_sample(*tensors), "torch", "f32")}
    op = ms_deform_attn(*tensors)
    if op is not None:
        sides["ms_deform_attn"] = (op, "torch-ms-deform-attn", "f32")
    for dtype in dtypes:
        call, plan = msda_call(placed(value.to(DTYPES[dtype]), behind), *rest, handle, behind=behind)
        sides[f"msda {dtype}"] = call, plan.info.kernel_id, dtype
    return sides


def grid_sample_backward(value, level_hw, coord, weight, grad_output):
    import torch

    inputs = [tensor.detach().requires_grad_() for tensor in (value, coord, weight)]
    with torch.enable_grad():
        output = grid_sample(inputs[0], level_hw, *inputs[1:])
    return lambda: torch.autograd.grad(output, inputs, grad_output, retain_graph=True)


def ms_deform_attn_backward(value, level_hw, coord, weight, grad_output):
    try:
        from torch_ms_deform_attn._ops import backward as function
    except ImportError:
        return None
    start = level_starts(level_hw)
    return lambda: function(value, level_hw, start, coord, weight, grad_output, value.shape[0])


def make_backward_sides(tensors, grad_output, dtypes, handle, behind):
    """As make_sides; the calls return the gradients by value, coord and weight."""
    value, *rest = tensors
    sides = {"grid_sample": (grid_sample_backward(*tensors, grad_output), "torch", "f32")}
    op = ms_deform_attn_backward(*tensors, grad_output)
    if op is not None:
        sides["ms_deform_attn"] = (op, "torch-ms-deform-attn", "f32")
    for dtype in dtypes:
        cast = [placed(tensor.to(DTYPES[dtype]), behind) for tensor in (value, grad_output)]
        call, plan = msda_call(cast[0], *rest, handle, grad_output=cast[1], behind=behind)
        sides[f"msda {dtype}"] = call, plan.info.kernel_id, dtype
    return sides


def sides_of_memory(arguments, tensors, grad_output):
    """(name, kind of memory) to what make_sides says."""
    import libmsda

    handle = libmsda.Handle(threads=arguments.child)
    dtypes = arguments.value_dtypes.split(",")
    sides = {}
    for memory in arguments.memory.split(","):
        behind = MEMORY[memory]
        there = [placed(tensor, behind) for tensor in tensors]
        if grad_output is None:
            made = make_sides(there, dtypes, handle, behind)
        else:
            made = make_backward_sides(there, placed(grad_output, behind), dtypes, handle, behind)
        sides |= {(name, memory): side for name, side in made.items()}
    return sides


def gradient_errors(sides, tensors, grad_output):
    """Name to (largest error of gradients by value relative to the largest, error over what is allowed)."""
    value, *rest = tensors
    errors = {}
    for dtype in {dtype for _, _, dtype in sides.values()}:
        exact = expected_gradients(value.to(DTYPES[dtype]), *rest, grad_output.to(DTYPES[dtype]))
        for name, (call, _, side_dtype) in sides.items():
            if side_dtype != dtype:
                continue
            found = [gradient.double() for gradient in call()]
            error = float((found[0] - exact[0]).abs().max() / exact[0].abs().max())
            errors[name] = error, gradient_share(found, exact, PEER_TOLERANCE[dtype])
    return errors


def error_shares(sides, tensors):
    """Name to (largest error against float64 on the same rounded values, the same over what is allowed): the documented
    bound for libmsda, a tolerance for the peers."""
    value, *rest = tensors
    errors = {}
    for dtype in {dtype for _, _, dtype in sides.values()}:
        exact, bound = expected(value.to(DTYPES[dtype]), *rest, dtype)
        for name, (call, _, side_dtype) in sides.items():
            if side_dtype == dtype:
                allowed = bound if name[0].startswith("msda") else PEER_TOLERANCE[dtype]
                errors[name] = error_share_of(call, exact, 1.0), error_share_of(call, exact, allowed)
    return errors


def measure(sides, rounds, calls, clock):
    times = {name: [] for name in sides}
    for _ in range(rounds):
        for name, (call, _, _) in sides.items():
            warm = time.perf_counter() + WARM_SECONDS
            call()
            while time.perf_counter() < warm:
                call()
            for _ in range(calls):
                start = clock()
                call()
                times[name].append((clock() - start) * 1e3)
    return times


def run_child(arguments):
    """All workloads with one thread count; one JSON object a line to standard output."""
    import torch

    torch.set_num_threads(arguments.child)
    with torch.no_grad():
        for name in arguments.workloads.split(","):
            tensors = make_tensors(workload(name))
            grad_output = None
            if arguments.backward:
                grad_output = torch.randn(*tensors[2].shape[:2], tensors[0][0, 0].numel())
            sides = sides_of_memory(arguments, tensors, grad_output)
            if arguments.backward:
                errors = gradient_errors(sides, tensors, grad_output)
            else:
                errors = error_shares(sides, tensors)
            wrong = [complaint(f"{name}: {' '.join(side)}", share) for side, (_, share) in errors.items()]
            if any(wrong):
                sys.exit("\n".join(filter(None, wrong)))
            small = tensors[2].numel() < 1 << 21  # short calls are repeated more
            times = measure(sides, arguments.rounds * (4 if small else 1), arguments.calls,
                            CLOCKS[arguments.clock])
            for side, milliseconds in times.items():
                low, *_, high = statistics.quantiles(milliseconds, n=10, method="inclusive")
                print(json.dumps({
                    "workload": name, "threads": arguments.child, "side": side[0], "memory": side[1],
                    "kernel": sides[side][1], "clock": arguments.clock, "min_ms": min(milliseconds),
                    "median_ms": statistics.median(milliseconds),
                    "p10_ms": low, "p90_ms": high, "samples": len(milliseconds),
                    "max_error": errors[side][0], "error_share": errors[side][1]}), flush=True)


def add_ratios(rows):
    """How many times a peer's median on the same memory each libmsda row goes into, and a row's least time over that of
    its side on lines."""
    found = {(r["workload"], r["threads"], r["memory"], r["side"]): r for r in rows}
    for row in rows:
        on_lines = found.get((row["workload"], row["threads"], "lines", row["side"]))
        if on_lines is not None:
            row["lines_ratio"] = row["min_ms"] / on_lines["min_ms"]
        for peer in PEERS:
            other = found.get((row["workload"], row["threads"], row["memory"], peer))
            if row["side"].startswith("msda") and other is not None:
                row[f"{peer}_ratio"] = other["median_ms"] / row["median_ms"]


def print_table(rows):
    print(f"{'workload':12} {'thr':>3}  {'side':15} {'memory':6} {'min ms':>9} {'x lines':>7} {'median ms':>10}"
          f" {'p10 .. p90':>19} {'max error':>9} {'x grid_sample':>14} {'x ms_deform_attn':>17}")
    for r in rows:
        ratios = [f"{r[f'{peer}_ratio']:.1f}" if f"{peer}_ratio" in r else "" for peer in PEERS]
        on_lines = f"{r['lines_ratio']:.2f}" if "lines_ratio" in r else ""
        spread = f"{r['p10_ms']:.3f} .. {r['p90_ms']:.3f}"
        print(f"{r['workload']:12} {r['threads']:>3}  {r['side']:15} {r['memory']:6} {r['min_ms']:>9.3f} {on_lines:>7}"
              f" {r['median_ms']:>10.3f} {spread:>19} {r['max_error']:>9.1e} {ratios[0]:>14} {ratios[1]:>17}")


def write_results(rows, arguments):
    if arguments.json:
        arguments.json.write_text(json.dumps({"about": about(), "results": rows}, indent=1) + "\n")
    if arguments.csv:
        columns = dict.fromkeys(key for row in rows for key in row)
        with arguments.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)


def about():
    import libmsda
    import torch

    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "?")
    return {"cpu": model, "cpus": os.cpu_count(), "torch": torch.__version__, "msda": libmsda.build_info()}


def main():
    arguments = parse_arguments()
    if arguments.child:
        return run_child(arguments)
    rows = []
    for threads in arguments.threads.split(","):
        environment = os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        child = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--child", threads],
                               env=environment, stdout=subprocess.PIPE, text=True)
        if child.returncode:
            sys.exit(child.returncode)
        rows += [json.loads(line) for line in child.stdout.splitlines()]
    add_ratios(rows)
    print_table(rows)
    write_results(rows, arguments)


if __name__ == "__main__":
    main()
