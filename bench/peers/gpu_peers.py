#!/usr/bin/env python3
"""Forward on a GPU: libmsda against what is installed of torch-ms-deform-attn and deformops.

All of them run in one process on the same tensors, in turns, device events around each call, which is a replay of a CUDA
graph, so that nobody's Python is counted. L2 is flushed before each call; decoders are also timed with the values in L2.
Of libmsda there are these sides, of each value type, float32 and float16 coordinates and weights, both math modes where
they differ, and sampled and fused input (boxes for decoders, else points):

    direct    the row kernel of family direct that is predicted to be the fastest
    plan      what a plan chooses that is told nothing of where points land
    hinted    what it chooses where msda_problem.point_locality says it
    tuned     what msda_plan_tune() finds (float32 coordinates only)

Before any time is taken, outputs of the first and the last batch item are compared with a float64 computation on the
inputs as each side gets them: libmsda's have to be within the documented bound, the peers' within a tolerance of each
type. A side that is off stays in the table, with its error, is named at the end, and makes the exit status 1. A peer that
throws is left out, with a line to stderr. deformops runs its Triton backend, which compiles at the first call of each kind.

    MSDA_LIBRARY=build/release/lib/libmsda.so PYTHONPATH=bindings/python \\
        python bench/peers/gpu_peers.py --csv bench/baselines/h200_peers.csv

With --dry-run all of it runs on the CPU on small problems: the script works then, the times mean nothing.
"""

import argparse
import functools
import importlib.metadata
import pathlib
import sys
import time

import torch
from peer_check import PEER_TOLERANCE, complaint, error_share
from peer_data import (ALL_DTYPES, DTYPES, LOCALITIES, as_fused, as_sampled, expected, level_starts, make_tensors,
                       msda_call, query_grids, require_known, smaller, workload_list)
from peers_report import Side, best_direct, rows_of_sides, table_lines, write_peers

FLUSH_BYTES = 256 << 20
COORD_DTYPES = {"f32": torch.float32, "f16": torch.float16}
MOST_L2_BYTES = 40 << 20  # of values, to be timed in L2
DECODER_QUERIES = 1000
INPUTS = ("sampled", "fused")


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [w["name"] for w in workload_list()]
    parser.add_argument("--workloads", default=",".join(names), help="names in bench/workloads.json (default: all)")
    parser.add_argument("--value-dtypes", default=",".join(ALL_DTYPES), help="comma separated (default %(default)s)")
    parser.add_argument("--coord-dtypes", default=",".join(COORD_DTYPES), help="comma separated (default %(default)s)")
    parser.add_argument("--inputs", default=",".join(INPUTS), help="comma separated (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=11, help="timed calls of each side (default 11)")
    parser.add_argument("--tuning-ms", type=float, default=100, help="for each tuned side; 0: none (default 100)")
    parser.add_argument("--seconds", type=float, default=0, help="begin no workload after so long; 0: no limit")
    parser.add_argument("--device", type=int, default=0, help="number of the GPU (default 0)")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, with small problems")
    parser.add_argument("--note", default="", help="what the CSV shall say of the machine besides its name")
    parser.add_argument("--csv", type=pathlib.Path, help="write the results here")
    arguments = parser.parse_args(words)
    for option, known in (("workloads", names), ("value-dtypes", ALL_DTYPES), ("coord-dtypes", COORD_DTYPES),
                          ("inputs", INPUTS)):
        require_known(parser, f"--{option}", getattr(arguments, option.replace("-", "_")), known)
    if arguments.rounds < 3:
        parser.error(f"--rounds is {arguments.rounds}: must be at least 3")
    if not arguments.dry_run and not torch.cuda.is_available():
        parser.error("there is no GPU that torch can use")
    return arguments


def ms_deform_attn_sides(value, level_hw, coord, weight):
    """torch-ms-deform-attn computes in float32 from tensors of one type."""
    from torch_ms_deform_attn import ms_deform_attn as function

    start = level_starts(level_hw)
    inputs = (value, level_hw, start, coord.to(value.dtype), weight.to(value.dtype))
    return {"ms_deform_attn": lambda: function(*inputs)}


def deformops_sides(value, level_hw, coord, weight):
    """The Triton backend of deformops: locations as they are, weights in the value's type."""
    from deformops.registry import Backend, msda

    start = level_starts(level_hw)
    inputs = (value, level_hw, start, coord, weight.to(value.dtype))
    return {"deformops": lambda: msda(*inputs, backend=Backend.TRITON)}


PEERS = {"ms_deform_attn": ms_deform_attn_sides, "deformops": deformops_sides}


@functools.cache
def say_once(text):
    print(text, file=sys.stderr, flush=True)


def peer_calls(tensors, wanted=tuple(PEERS)):
    """Name to call of what is installed and takes the problem, each called once; the others get a line to stderr."""
    calls = {}
    for name in wanted:
        try:
            made = PEERS[name](*tensors)
            for call in made.values():
                call()
            if tensors[0].is_cuda:
                torch.cuda.synchronize()
            calls |= made
        except Exception as error:  # noqa: BLE001  whatever a peer throws, the others are measured
            say_once(f"left out: {name}: {(str(error).splitlines() or [repr(error)])[0][:160]}")
    return calls


def peer_sides(work, tensors, dtype, coord_dtype):
    """Locations of torch-ms-deform-attn have the type of the values."""
    if dtype not in DTYPES or len(set(work["points"])) > 1:
        return []
    wanted = ["deformops"] + (["ms_deform_attn"] if coord_dtype == ("f32" if dtype == "f32" else "f16") else [])
    value, level_hw, coord, weight = tensors
    coord = coord.to(COORD_DTYPES[coord_dtype])
    sides = []
    for name, call in peer_calls((value, level_hw, coord, weight), wanted).items():
        locations = coord.to(value.dtype) if name == "ms_deform_attn" else coord
        given = value, level_hw, locations, weight.to(value.dtype)
        coord_name = dtype if name == "ms_deform_attn" else coord_dtype
        sides.append(Side(name, name, coord_name, "accurate", "sampled", call, given))
    return sides


def libmsda_sides(handle, work, tensors, dtype, coord_dtype, input_mode, tuning_ms):
    """One for each kind and math mode, from float32 coordinates and weights. Sides with the same kernel share their call."""
    value, level_hw, coord, weight = tensors
    to, reference = COORD_DTYPES[coord_dtype], None
    if input_mode == "sampled":
        coord, weight = coord.to(to), weight.to(to)
        given = value, level_hw, coord, weight
    else:
        # References stay float32, as under autocast.
        reference, coord, weight = as_fused(work, level_hw, coord, weight, int(input_mode[-1]))
        coord, weight = coord.to(to), weight.to(to)
        given = value, level_hw, *as_sampled(work, level_hw, reference, coord, weight)
    sides = []
    for math_mode in ("accurate", "fast") if dtype in ("f16", "f8_e4m3") else ("accurate",):
        options = {"reference": reference, "points": work["points"], "math_mode": math_mode,
                   "query_hw": query_grids(work)}
        calls = {}

        def add(side, calls=calls, options=options, math_mode=math_mode, **more):
            call, plan = msda_call(value, level_hw, coord, weight, handle, **options, **more)
            kernel = plan.info.kernel_id
            call = calls.setdefault(kernel, call)
            sides.append(Side(side, kernel, coord_dtype, math_mode, input_mode, call, given))
            return plan

        plan = add("plan")
        add("hinted", point_locality=LOCALITIES[work["pattern"]])
        direct = best_direct(handle.explain(plan.problem))
        if direct:
            add("direct", kernel=direct)
        if tuning_ms and coord_dtype == "f32":
            add("tuned", tuning_ms=tuning_ms)
    return sides


def input_modes(work, wanted):
    return [mode if mode == "sampled" else "fused4" if is_decoder(work) else "fused2" for mode in wanted]


def is_decoder(work):
    return work["pattern"] == "uniform" and work["queries"] <= DECODER_QUERIES


def first_and_last(tensor):
    return torch.stack([tensor[0].double(), tensor[-1].double()])


def error_shares(sides, work, dtype):
    """Side to (largest error, the same over what is allowed), each call made once."""
    exact_of, errors = {}, {}
    output_dtype = "f32" if dtype == "f8_e4m3" else dtype
    for side in sides:
        fast = side.math_mode == "fast"
        key = id(side.given), fast
        if key not in exact_of:
            value, level_hw, coord, weight = side.given
            exact_of[key] = expected(first_and_last(value), level_hw, first_and_last(coord), first_and_last(weight),
                                     output_dtype, fast, sum(work["points"]))
        exact, bound = exact_of[key]
        if id(side.call) not in errors:
            allowed = PEER_TOLERANCE[dtype] if side.is_peer else bound
            output = first_and_last(side.call().reshape(work["batch"], *exact.shape[1:]))
            errors[id(side.call)] = error_share(output, exact, 1.0), error_share(output, exact, allowed)
    return {side: errors[id(side.call)] for side in sides}


def captured(call):
    """The call as a replay of a graph, which keeps the tensors of the call. It is recorded on the current stream, unless that
    is the default one, which cannot be: autograd runs a function's backward on the stream of its forward."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    current = torch.cuda.current_stream()
    with torch.cuda.graph(graph, stream=None if current == torch.cuda.default_stream() else current):
        call()

    def replay(keep=call):
        graph.replay()

    return replay


def measure(sides, rounds, value=None):
    """Name to microseconds: device events around one call, caches flushed before it; with `value`, which is then read."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    times = {name: [] for name in sides}
    for turn in range(rounds + 2):
        for name, call in sides.items():
            flush.fill_(turn)
            if value is not None:
                value.view(torch.int32).sum()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            if turn >= 2:
                times[name].append(begin.elapsed_time(end) * 1e3)
    return times


def measure_on_cpu(sides, rounds, value=None):
    """Stands in for measure() in a dry run."""
    times = {name: [] for name in sides}
    for _ in range(rounds):
        for name, call in sides.items():
            begin = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - begin) * 1e6)
    return times


def measured_rows(work, dtype, handle, arguments):
    """Rows of the CSV for a workload and value type."""
    device = "cpu" if arguments.dry_run else "cuda"
    value, level_hw, coord, weight = make_tensors(work, device)
    value, sides = value.to(ALL_DTYPES[dtype]), []
    for coord_dtype in arguments.coord_dtypes.split(","):
        tensors = value, level_hw, coord, weight
        for input_mode in input_modes(work, arguments.inputs.split(",")):
            sides += libmsda_sides(handle, work, tensors, dtype, coord_dtype, input_mode, arguments.tuning_ms)
        if "sampled" in arguments.inputs.split(","):
            sides += peer_sides(work, tensors, dtype, coord_dtype)
    errors = error_shares(sides, work, dtype)
    calls = {id(side.call): side.call for side in sides}
    if not arguments.dry_run:
        calls = {key: captured(call) for key, call in calls.items()}
    caches = {"flushed": None}
    if is_decoder(work) and value.numel() * value.element_size() <= MOST_L2_BYTES:
        caches["values in L2"] = value
    for cache, warm in caches.items():
        times = (measure_on_cpu if arguments.dry_run else measure)(calls, arguments.rounds, warm)
        yield from rows_of_sides(work["name"], dtype, cache, {s: (times[id(s.call)], errors[s]) for s in sides})


def about(arguments):
    import libmsda

    name = "CPU, dry run" if arguments.dry_run else torch.cuda.get_device_name()
    versions = [f"libmsda {libmsda.__version__}", f"torch {torch.__version__}"]
    for package in ("triton", "deformops", "torch-ms-deform-attn"):
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            pass
    note = [arguments.note] if arguments.note else []
    return f"{', '.join([name, *note, *versions])}; replays of CUDA graphs, medians of {arguments.rounds}"


def main(words=None):
    import libmsda

    arguments = parse_arguments(words)
    if not arguments.dry_run:
        torch.cuda.set_device(arguments.device)
    handle = libmsda.Handle() if arguments.dry_run else libmsda.Handle(device=arguments.device)
    works = {w["name"]: smaller(w) if arguments.dry_run else w for w in workload_list()}
    rows, begin = [], time.monotonic()
    try:
        with torch.no_grad():
            for name in arguments.workloads.split(","):
                if arguments.seconds and time.monotonic() - begin > arguments.seconds:
                    print(f"not measured, {arguments.seconds:g} s are over: {name}", file=sys.stderr)
                    continue
                for dtype in arguments.value_dtypes.split(","):
                    rows += measured_rows(works[name], dtype, handle, arguments)
                print(f"{name}: done after {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    finally:  # what was measured before something failed is worth keeping
        if arguments.csv and rows:
            write_peers(arguments.csv, about(arguments), rows)
    print("\n".join(table_lines(rows)))
    wrong = [complaint(" ".join(row[c] for c in ("workload", "value_dtype", "coord_dtype", "side", "kernel_id")),
                       float(row["error_share"])) for row in rows]
    if any(wrong):
        sys.exit("\n".join(dict.fromkeys(filter(None, wrong))))


if __name__ == "__main__":
    main()
