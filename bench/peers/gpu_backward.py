#!/usr/bin/env python3
"""Backward on a GPU: libmsda against what is installed of torch-ms-deform-attn and deformops; all gradients.

All of them run in one process on the same tensors, in turns, as replays of CUDA graphs with L2 flushed before each. Peers
are called through autograd, of an output that is computed once and not timed. Coordinates and weights of libmsda are
float32, those of a peer as it takes them. The sides, of each value type:

    plan           what a plan chooses that has to give the same bits in each run
    any order      what a plan chooses that need not (msda_problem.determinism is MSDA_NONDETERMINISTIC)
    deformops      Triton, sums of grad_value in float32 by atomics
    deformops 16   the same with sums in the value's type, float16 and bfloat16 only
    deformops CUDA its compiled backend, where it can be had
    ms_deform_attn torch-ms-deform-attn, atomics

Before any time is taken, gradients of the first and the last batch item are compared with float64 autograd on the inputs
as each side gets them, by a tolerance of each type. A side that is off stays in the table, with its error, is named at the
end, and makes the exit status 1 where it is libmsda's. A peer that throws is left out, with a line to stderr. Peak memory
is what a call needs beyond its inputs: gradients, workspaces, and what a peer's autograd allocates.

    MSDA_LIBRARY=build/release/lib/libmsda.so PYTHONPATH=bindings/python \\
        python bench/peers/gpu_backward.py --csv bench/baselines/h200_backward_peers.csv

--fused measures fused input beside sampled, and no peers: points (2) and boxes (4), without and with gradients by reference.
--random N draws problems as gpu_selection.py does, in place of the workloads, and says where libmsda's plan is slower than
the best peer; with --small they have the sizes of decoders. Peers compile kernels for most of them: --compile N lets N
processes do that before, all at a time, by calling the peers. --crowded measures each problem once more with all points on
one pixel of each level. With --dry-run all of it runs on the CPU on small problems: the script works then, the times
mean nothing.
"""

import argparse
import multiprocessing
import pathlib
import random
import statistics
import sys
import time

import torch
from backward_report import FUSED, OURS, fused_lines, table_lines, write_rows
from drawn_problems import draw, draw_small
from gpu_peers import about, captured, first_and_last, measure, measure_on_cpu, say_once
from peer_check import PEER_TOLERANCE, complaint, gradient_share
from peer_data import (DTYPES, as_fused, expected_gradients, level_starts, make_tensors, msda_call, require_known, smaller,
                       workload_list)

# Where all points of a crowded problem are: on no pixel line of a workload's levels.
CROWD = 0.503
MAIN = [w["name"] for w in workload_list() if w["group"] == "main"]


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [w["name"] for w in workload_list()]
    parser.add_argument("--workloads", default=",".join(MAIN), help="names in bench/workloads.json (default %(default)s)")
    parser.add_argument("--random", type=int, default=0, help="this many problems drawn at random instead")
    parser.add_argument("--small", action="store_true", help="random problems of the sizes of decoders")
    parser.add_argument("--fused", action="store_true", help="fused input beside sampled, and no peers")
    parser.add_argument("--crowded", action="store_true", help="each problem also with all points on one pixel of each level")
    parser.add_argument("--compile", type=int, default=0, metavar="N", help="peers' kernels in N processes first; 0: none")
    parser.add_argument("--seed", type=int, default=1, help="of the random problems (default 1)")
    parser.add_argument("--value-dtypes", default="f16,f32", help="comma separated (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=11, help="timed calls of each side (default 11)")
    parser.add_argument("--seconds", type=float, default=0, help="begin no problem after so long; 0: no limit")
    parser.add_argument("--device", type=int, default=0, help="number of the GPU (default 0)")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, with small problems")
    parser.add_argument("--note", default="", help="what the CSV shall say of the machine besides its name")
    parser.add_argument("--csv", type=pathlib.Path, help="write the results here")
    arguments = parser.parse_args(words)
    require_known(parser, "--workloads", arguments.workloads, names)
    require_known(parser, "--value-dtypes", arguments.value_dtypes, DTYPES)
    if arguments.rounds < 3:
        parser.error(f"--rounds is {arguments.rounds}: must be at least 3")
    if arguments.small and not arguments.random:
        parser.error("--small says how --random draws problems, which is not given")
    for name in ("random", "compile"):
        if getattr(arguments, name) < 0:
            parser.error(f"--{name} is {getattr(arguments, name)}: must not be negative")
    if not arguments.dry_run and not torch.cuda.is_available():
        parser.error("there is no GPU that torch can use")
    return arguments


def autograd_call(function, value, coord, weight, grad_output):
    """Gradients by value, coord and weight of function(value, coord, weight), whose output is computed here."""
    inputs = [tensor.detach().requires_grad_() for tensor in (value, coord, weight)]
    with torch.enable_grad():
        output = function(*inputs)
    grad = grad_output.reshape(output.shape).to(output.dtype)
    return lambda: torch.autograd.grad(output, inputs, grad, retain_graph=True)


def deformops_function(level_hw, **options):
    from deformops.registry import Backend, msda

    start, backend = level_starts(level_hw), Backend[options.pop("backend", "TRITON")]
    return lambda value, coord, weight: msda(value, level_hw, start, coord, weight, backend=backend, **options)


def ms_deform_attn_function(level_hw):
    from torch_ms_deform_attn import ms_deform_attn as function

    start = level_starts(level_hw)
    return lambda value, coord, weight: function(value, level_hw, start, coord, weight)


# Side to (how its function is made, whether its locations have the type of the values).
PEERS = {
    "deformops": (lambda hw: deformops_function(hw, fp32acc=True), False),
    "deformops 16": (lambda hw: deformops_function(hw, fp32acc=False), False),
    "deformops CUDA": (lambda hw: deformops_function(hw, backend="CUDA"), False),
    "ms_deform_attn": (ms_deform_attn_function, True),
}


def peer_sides(tensors, grad_output, dtype):
    """Side to (call, kernel, inputs as it gets them); what throws is left out."""
    value, level_hw, coord, weight = tensors
    sides = {}
    for name, (make, has_one_type) in PEERS.items():
        if name == "deformops 16" and dtype == "f32":
            continue
        given = value, coord.to(value.dtype) if has_one_type else coord, weight.to(value.dtype)
        try:
            call = autograd_call(make(level_hw), *given, grad_output)
            call()
            if value.is_cuda:
                torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001  whatever a peer throws, the others are measured
            say_once(f"left out: {name}: {(str(error).splitlines() or [repr(error)])[0][:160]}")
            continue
        sides[name] = call, name, given
    return sides


def our_sides(handle, tensors, grad_output):
    value, level_hw, coord, weight = tensors
    sides = {}
    for name, deterministic in zip(OURS, (True, False)):
        call, plan = msda_call(value, level_hw, coord, weight, handle, grad_output=grad_output, deterministic=deterministic)
        sides[name] = call, plan.info.kernel_id, (value, coord, weight), plan.info.workspace_bytes
    return sides


def fused_sides(handle, work, tensors, grad_output):
    """What a plan of the same bits chooses for fused input."""
    value, level_hw, coord, weight = tensors
    sides = {}
    for name, (reference_dim, wants_reference) in FUSED.items():
        reference, offset, logit = as_fused(work, level_hw, coord, weight, reference_dim)
        call, plan = msda_call(value, level_hw, offset, logit, handle, grad_output=grad_output, reference=reference,
                               wants_reference=wants_reference)
        sides[name] = call, plan.info.kernel_id, (value, offset, logit, reference), plan.info.workspace_bytes
    return sides


def error_shares(sides, work, level_hw, grad_output, dtype):
    """Side to the largest error over what is allowed."""
    exact_of, shares = {}, {}
    grad = first_and_last(grad_output).flatten(2)
    for name, (call, _, given, *_) in sides.items():
        key = tuple((tensor.dtype, tensor.shape) for tensor in given)
        if key not in exact_of:
            value, coord, weight, *reference = [first_and_last(tensor) for tensor in given]
            exact_of[key] = expected_gradients(value, level_hw, coord, weight, grad, work, *reference)
        found = [first_and_last(gradient) for gradient in call()]
        shares[name] = gradient_share(found, exact_of[key], PEER_TOLERANCE[dtype])
    return shares


def peak_bytes(side, dry_run):
    """Of our sides the gradients and the workspace; of a peer what torch allocates during a call."""
    call, _, given, *workspace = side
    if workspace:
        return workspace[0] + sum(tensor.numel() * tensor.element_size() for tensor in given)
    if dry_run:
        return 0
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def inputs_of(work, dtype, arguments):
    """(value, level_hw, coord, weight), and the gradient by the output."""
    value, level_hw, coord, weight = make_tensors(work, "cpu" if arguments.dry_run else "cuda")
    if work.get("crowded"):
        coord = torch.full_like(coord, CROWD)
    grad_output = torch.randn(*coord.shape[:3], work["channels"], device=value.device).to(DTYPES[dtype])
    return (value.to(DTYPES[dtype]), level_hw, coord, weight), grad_output


def compile_share(arguments, begin):
    """Of --compile: every so many-th problem's peers are called, which leaves their kernels in Triton's cache on disk."""
    if not arguments.dry_run:
        torch.cuda.set_device(arguments.device)
        torch.cuda.set_stream(torch.cuda.Stream())
    for _, work in problems(arguments)[begin :: arguments.compile]:
        for dtype in arguments.value_dtypes.split(","):
            tensors, grad_output = inputs_of(smaller(work) if arguments.dry_run else work, dtype, arguments)
            peer_sides(tensors, grad_output, dtype)


def compile_peers(arguments):
    context, begin = multiprocessing.get_context("spawn"), time.monotonic()
    processes = [context.Process(target=compile_share, args=(arguments, n)) for n in range(arguments.compile)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    failed = sum(process.exitcode != 0 for process in processes)
    print(f"peers compiled in {time.monotonic() - begin:.0f} s" + (f"; {failed} processes failed" if failed else ""),
          file=sys.stderr, flush=True)


def measured_rows(name, work, dtype, handle, arguments):
    tensors, grad_output = inputs_of(work, dtype, arguments)
    level_hw = tensors[1]
    sides = our_sides(handle, tensors, grad_output)
    if arguments.fused:
        sides |= fused_sides(handle, work, tensors, grad_output)
    else:
        sides |= peer_sides(tensors, grad_output, dtype)
    shares = error_shares(sides, work, level_hw, grad_output, dtype)
    peaks = {side: peak_bytes(parts, arguments.dry_run) for side, parts in sides.items()}
    calls = {side: parts[0] for side, parts in sides.items()}
    if arguments.dry_run:
        times = measure_on_cpu(calls, arguments.rounds)
    else:
        times = measure({side: captured(call) for side, call in calls.items()}, arguments.rounds)
    for side, microseconds in times.items():
        least, _, most = statistics.quantiles(microseconds, n=4, method="inclusive")
        yield {"workload": name, "operation": "backward", "side": side, "kernel_id": sides[side][1], "value_dtype": dtype,
               "math_mode": "accurate",
               "input_mode": f"fused{FUSED[side][0]}" if side in FUSED else "sampled",
               "median_us": f"{statistics.median(microseconds):.2f}", "q1_us": f"{least:.2f}", "q3_us": f"{most:.2f}",
               "error_share": f"{shares[side]:.3e}", "peak_bytes": peaks[side]}


def problems(arguments):
    """Pairs of a name and a workload."""
    if arguments.random:
        rng = random.Random(arguments.seed)
        pairs = [(f"{w['batch']}x{w['queries']}x{w['heads']}x{w['channels']} {w['levels']} {w['points']} {w['pattern']}", w)
                 for w in ((draw_small if arguments.small else draw)(rng) for _ in range(arguments.random))]
    else:
        works = {w["name"]: w for w in workload_list()}
        pairs = [(name, works[name]) for name in arguments.workloads.split(",")]
    crowded = [(f"{name} crowded", work | {"crowded": True}) for name, work in pairs if arguments.crowded]
    return pairs + crowded


def main(words=None):
    import libmsda

    arguments = parse_arguments(words)
    if not arguments.dry_run:
        torch.cuda.set_device(arguments.device)
        torch.cuda.set_stream(torch.cuda.Stream())  # see captured()
    if arguments.compile:
        compile_peers(arguments)
    handle = libmsda.Handle() if arguments.dry_run else libmsda.Handle(device=arguments.device)
    rows, begin, chosen = [], time.monotonic(), problems(arguments)
    try:
        with torch.no_grad():
            for n, (name, work) in enumerate(chosen):
                if arguments.seconds and time.monotonic() - begin > arguments.seconds:
                    print(f"stopped after {n} of {len(chosen)} problems", file=sys.stderr)
                    break
                for dtype in arguments.value_dtypes.split(","):
                    rows += measured_rows(name, smaller(work) if arguments.dry_run else work, dtype, handle, arguments)
                if sys.stderr.isatty():
                    print(f"\r{n + 1} of {len(chosen)}", end="", file=sys.stderr, flush=True)
    finally:  # what was measured before something failed is worth keeping
        if arguments.csv and rows:
            write_rows(arguments.csv, about(arguments), rows)
    print("\n".join((fused_lines if arguments.fused else table_lines)(rows)))
    wrong = [complaint(f"{row['workload']} {row['value_dtype']} {row['side']}", float(row["error_share"])) for row in rows]
    if any(wrong):
        print("\n".join(filter(None, wrong)), file=sys.stderr)
    if any(text for row, text in zip(rows, wrong) if row["side"] in (*OURS, *FUSED)):
        sys.exit(1)


if __name__ == "__main__":
    main()
