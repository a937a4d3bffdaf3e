#!/usr/bin/env python3
"""Forward on a GPU: libmsda against what is installed of torch-ms-deform-attn and deformops.

All of them run in one process on the same tensors, in turns, with L2 flushed before each call and device events
around it. Outputs are compared with a float64 computation on the inputs as each side gets them before any time is
taken: libmsda's have to be within its documented bound, the peers' within a tolerance of each type. A side that is
off stays in the table, with its error, is named at the end, and makes the exit status 1. A call of a peer is its
Python function under no_grad(), a call of libmsda is msda_execute() on a struct filled once, so that small workloads
hold the peers' Python; with --graph all of them are replays of a CUDA graph instead.

    MSDA_LIBRARY=build/release/lib/libmsda.so PYTHONPATH=bindings/python \\
        python bench/peers/gpu_peers.py --json peers.json
"""

import argparse
import json
import pathlib
import statistics
import sys

import torch
from peer_check import PEER_TOLERANCE, complaint
from peer_data import (DTYPES, error_share_of, expected, level_starts, make_tensors, msda_call, query_grids,
                       require_known, workload_list)

MAIN = [w["name"] for w in workload_list() if w["group"] == "main"]
FLUSH_BYTES = 256 << 20


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default=",".join(MAIN),
                        help="names in bench/workloads.json, or all (default %(default)s)")
    parser.add_argument("--value-dtypes", default="f16,f32", help="of f32, f16 and bf16, comma separated (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=11, help="timed calls of each side (default 11)")
    parser.add_argument("--device", type=int, default=0, help="number of the GPU (default 0)")
    parser.add_argument("--graph", action="store_true", help="time replays of a CUDA graph of each call")
    parser.add_argument("--json", type=pathlib.Path, help="write the results here")
    arguments = parser.parse_args()
    names = {w["name"]: w for w in workload_list()}
    if arguments.workloads == "all":
        arguments.workloads = ",".join(n for n, w in names.items() if len(set(w["points"])) == 1)
    require_known(parser, "--workloads", arguments.workloads, [*names, "all"])
    require_known(parser, "--value-dtypes", arguments.value_dtypes, DTYPES)
    if arguments.rounds < 3:
        parser.error(f"--rounds is {arguments.rounds}: must be at least 3")
    if not torch.cuda.is_available():
        parser.error("there is no GPU that torch can use")
    return arguments


def ms_deform_attn_sides(value, level_hw, coord, weight):
    """torch-ms-deform-attn computes in float32 from tensors of one type."""
    from torch_ms_deform_attn import ms_deform_attn as function

    start = level_starts(level_hw)
    inputs = (value, level_hw, start, coord.to(value.dtype), weight.to(value.dtype))
    return {"ms_deform_attn": lambda: function(*inputs)}


def deformops_sides(value, level_hw, coord, weight):
    """The backends of deformops: locations as they are, weights in the value's type."""
    from deformops.registry import Backend, msda

    start = level_starts(level_hw)
    inputs = (value, level_hw, start, coord, weight.to(value.dtype))
    return {f"deformops {backend.name.lower()}": lambda backend=backend: msda(*inputs, backend=backend)
            for backend in (Backend.TRITON, Backend.CUDA)}


def as_given(side, value, level_hw, coord, weight):
    """The tensors as a side of this name gets them."""
    if side.startswith("ms_deform_attn"):
        return value, level_hw, coord.to(value.dtype), weight.to(value.dtype)
    if side.startswith("deformops"):
        return value, level_hw, coord, weight.to(value.dtype)
    dtype = value.dtype if " coord " in side else torch.float32
    return value, level_hw, coord.to(dtype), weight.to(dtype)


def libmsda_sides(handle, value, level_hw, coord, weight, query_hw):
    """The kernel that the library chooses: with coordinates and weights as they are, and in 16 bits; and in the
    fast math mode. And where it is another one, the kernel that the tuner finds."""
    sides = {}
    types = {"": torch.float32}
    if value.dtype != torch.float32:
        types[f" coord {value.dtype}".replace("torch.", "")] = value.dtype
    for label, dtype in types.items():
        for mode in ("accurate", "fast") if value.dtype != torch.float32 else ("accurate",):
            inputs = value, level_hw, coord.to(dtype), weight.to(dtype), handle
            for tuned in (False, True):
                call, plan = msda_call(*inputs, tuned=tuned, math_mode=mode, query_hw=query_hw)
                sides.setdefault(f"msda {mode}{label} [{plan.info.kernel_id}]", call)
    return sides


def make_sides(handle, tensors, query_hw):
    """Name to call; what is not installed, or does not take the problem, is left out with a line to stderr."""
    sides = {}
    for make in (ms_deform_attn_sides, deformops_sides):
        try:
            sides |= make(*tensors)
        except ImportError as error:
            print(f"left out: {error}", file=sys.stderr)
    for name in list(sides):
        try:
            sides[name]()
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001  whatever a peer throws, the others are measured
            print(f"left out: {name}: {str(error).splitlines()[0][:160]}", file=sys.stderr)
            del sides[name]
    return sides | libmsda_sides(handle, *tensors, query_hw)


def error_shares(sides, tensors, dtype):
    """Name to (largest error, the same over what is allowed)."""
    groups = {}
    for name in sides:
        given = as_given(name, *tensors)
        groups.setdefault((given[2].dtype, given[3].dtype, name.startswith("msda fast")), []).append(name)
    errors = {}
    for (_, _, fast), names in groups.items():
        exact, bound = expected(*as_given(names[0], *tensors), dtype, fast and dtype == "f16")
        for name in names:
            allowed = bound if name.startswith("msda") else PEER_TOLERANCE[dtype]
            errors[name] = error_share_of(sides[name], exact, 1.0), error_share_of(sides[name], exact, allowed)
    return errors


def captured(call):
    """The call as a replay of a graph, which keeps the tensors of the call."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()

    def replay(keep=call):
        graph.replay()

    return replay


def measure(sides, rounds):
    """Name to microseconds: device events around one call, caches flushed before it."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    times = {name: [] for name in sides}
    for turn in range(rounds + 2):
        for name, call in sides.items():
            flush.fill_(turn)
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            if turn >= 2:
                times[name].append(begin.elapsed_time(end) * 1e3)
    return times


def rows_of(work, dtype, handle, arguments):
    value, level_hw, coord, weight = make_tensors(work, "cuda")
    tensors = (value.to(DTYPES[dtype]), level_hw, coord, weight)
    sides = make_sides(handle, tensors, query_grids(work))
    errors = error_shares(sides, tensors, dtype)
    if arguments.graph:
        sides = {name: captured(call) for name, call in sides.items()}
    for name, microseconds in measure(sides, arguments.rounds).items():
        yield {"workload": work["name"], "value_dtype": dtype, "side": name,
               "median_us": statistics.median(microseconds), "min_us": min(microseconds),
               "max_us": max(microseconds), "max_error": errors[name][0], "error_share": errors[name][1],
               "graph": arguments.graph}


def print_row(row):
    print(f"{row['workload']:18} {row['value_dtype']:5} {row['side']:62} {row['median_us']:9.1f}"
          f" {row['min_us']:9.1f} .. {row['max_us']:9.1f}  {row['max_error']:.1e}", flush=True)


def main():
    import msda

    arguments = parse_arguments()
    torch.cuda.set_device(arguments.device)
    handle = msda.Handle(device=arguments.device)
    names = {w["name"]: w for w in workload_list()}
    rows = []
    print(f"{'workload':18} {'value':5} {'side':62} {'median us':>9} {'fastest .. slowest':>22}  max error")
    with torch.no_grad():
        for name in arguments.workloads.split(","):
            for dtype in arguments.value_dtypes.split(","):
                for row in rows_of(names[name], dtype, handle, arguments):
                    rows.append(row)
                    print_row(row)
    if arguments.json:
        about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "msda": msda.build_info()}
        arguments.json.write_text(json.dumps({"about": about, "results": rows}, indent=1) + "\n")
    wrong = [complaint(f"{r['workload']} {r['value_dtype']} {r['side']}", r["error_share"]) for r in rows]
    if any(wrong):
        sys.exit("\n".join(filter(None, wrong)))


if __name__ == "__main__":
    main()
