#!/usr/bin/env python3
"""How good the library's choice of a kernel is, over many problems on a GPU; and, with --peers, how it does beside
what is installed of torch-ms-deform-attn and deformops.

The problems are drawn from what models have: D 16 to 256, 1 to 5 levels, P 1 to 16, 100 to 90,000 queries, 1 to 32
images, all value types, sampled and fused input, points anywhere or around the query's own place. Every kernel that
takes a problem is timed, in turns, as a replay of a CUDA graph with L2 flushed before it. Regret is the chosen
kernel's time over the fastest one's, less 1, beside all kernels. It is reported for the plan that is told where points
land (msda_problem.point_locality, as they were drawn) and for the plan that is not.
Every output is within the library's documented bound of a float64 computation on the same rounded inputs before any
time is taken; a kernel whose output is not is named, not timed, and makes the exit status 1. With --csv every time is
kept, for tools/measure fit. --dry-run does all of it on the CPU with small problems: the script works then, the times mean
nothing.

--operation backward does the same with all gradients but those by references, among kernels whose bits are the same in every
run, or with --any-order among all; half of its problems have the sizes of decoders. The first and the last image are compared.

--near cluster,tma,pipeline draws problems where kernels of these families may be the fastest (drawn_problems.py) and reports
how often they are: of each family the problem where it does best beside the others, what the tuner takes there, and the
commands that count with Nsight Compute what both kernels do.

    MSDA_LIBRARY=build/release/lib/libmsda.so PYTHONPATH=bindings/python \\
        python bench/peers/gpu_selection.py --problems 200 --csv selection.csv.gz
"""

import argparse
import json
import pathlib
import random
import statistics
import sys
import time

import torch
from drawn_problems import NEAR, Case, draw, draw_near, draw_small
from gpu_peers import captured, first_and_last, measure, measure_on_cpu, peer_calls
from peer_check import PEER_TOLERANCE, complaint, gradient_share
from peer_data import (ALL_DTYPES, DTYPES, LOCALITIES, ROOT, as_fused, as_sampled, error_share_of, expected,
                       expected_gradients, make_tensors, msda_call, require_known, smaller)
from selection_report import csv_rows, family_lines, judged, nearest, ranked, report_lines

sys.path.append(str(ROOT / "tools/lib"))
from measurements import write_drawn

INPUTS = ("sampled", "fused2", "fused4")
GENERIC = "dany.pany"
NEAR_PREDICTION = 2
TUNING_MS = 300


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--seed", type=int, default=1, help="of the problems (default 1)")
    parser.add_argument("--value-dtypes", default="f16,f32,bf16,f8_e4m3", help="drawn from these (default %(default)s)")
    parser.add_argument("--inputs", default="sampled,sampled,fused2,fused4",
                        help="drawn from these; fused with points (2) or boxes (4) (default %(default)s)")
    parser.add_argument("--near", default="", metavar="FAMILY,..",
                        help=f"draw where these may be the fastest, in turns: of {', '.join(NEAR)}; types, inputs and modes, too")
    parser.add_argument("--operation", choices=("forward", "backward"), default="forward")
    parser.add_argument("--any-order", action="store_true", help="gradients may differ in their last bits from run to run")
    parser.add_argument("--math-mode", choices=("accurate", "fast"), default="accurate")
    parser.add_argument("--rounds", type=int, default=5, help="timed calls of each kernel (default 5)")
    parser.add_argument("--seconds", type=float, default=0, help="stop drawing problems then; 0: no limit")
    parser.add_argument("--device", type=int, default=0, help="number of the GPU (default 0)")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, with small problems")
    parser.add_argument("--peers", action="store_true", help="time the peers as well")
    parser.add_argument("--json", type=pathlib.Path, help="write the results here")
    parser.add_argument("--note", default="", help="what the CSV shall say of the machine besides its name")
    parser.add_argument("--csv", type=pathlib.Path, help="write every time here; compressed where it ends in .gz")
    arguments = parser.parse_args(words)
    require_known(parser, "--value-dtypes", arguments.value_dtypes, ALL_DTYPES)
    require_known(parser, "--inputs", arguments.inputs, INPUTS)
    if arguments.near:
        require_known(parser, "--near", arguments.near, NEAR)
    for name, least in (("problems", 1), ("rounds", 3)):
        if getattr(arguments, name) < least:
            parser.error(f"--{name} is {getattr(arguments, name)}: must be at least {least}")
    if arguments.operation == "backward":
        if "f8_e4m3" in arguments.value_dtypes.split(","):
            arguments.value_dtypes = ",".join(t for t in arguments.value_dtypes.split(",") if t in DTYPES)
        if arguments.near or arguments.peers or arguments.math_mode == "fast" or not arguments.value_dtypes:
            parser.error("--operation backward goes without --near, --peers, --math-mode fast and f8_e4m3")
    elif arguments.any_order:
        parser.error("--any-order is of --operation backward")
    if not arguments.dry_run and not torch.cuda.is_available():
        parser.error("there is no GPU that torch can use")
    return arguments


def wrong_gradients(work, calls, inputs, reference, grad_output, dtype):
    """As wrong_kernels, of a backward."""
    value, coord, weight, grad = (first_and_last(tensor) for tensor in (inputs[0], *inputs[2:], grad_output))
    reference = None if reference is None else first_and_last(reference)
    exact = expected_gradients(value, inputs[1], coord, weight, grad.flatten(2), work, reference)
    said = {}
    for kernel, call in calls.items():
        found = [first_and_last(gradient) for gradient in call()]
        said[kernel] = complaint(kernel, gradient_share(found, exact, PEER_TOLERANCE[dtype]))
    return {kernel: text for kernel, text in said.items() if text}


def wrong_kernels(work, calls, inputs, reference, dtype, math_mode):
    """Those whose output is not within the bound, each with what is wrong."""
    value, level_hw, coord, weight = inputs
    if reference is not None:
        coord, weight = as_sampled(work, level_hw, reference, coord, weight)
    fast = math_mode == "fast" and dtype in ("f16", "f8_e4m3")
    bound = expected(value, level_hw, coord, weight, "f32" if dtype == "f8_e4m3" else dtype, fast)
    said = {kernel: complaint(kernel, error_share_of(call, *bound)) for kernel, call in calls.items()}
    return {kernel: text for kernel, text in said.items() if text}


def inputs_of(case, device):
    """(value, level_hw, coord, weight) of a call, and its reference points or None."""
    value, level_hw, coord, weight = make_tensors(case.work, device)
    value, reference = value.to(ALL_DTYPES[case.value_dtype]), None
    if case.input_mode != "sampled":
        reference, coord, weight = as_fused(case.work, level_hw, coord, weight, int(case.input_mode[-1]))
    return (value, level_hw, coord, weight), reference


def measure_problem(handle, case, arguments):
    work, dtype, input_mode, math_mode = case
    inputs, reference = inputs_of(case, "cpu" if arguments.dry_run else "cuda")
    options = {"reference": reference, "math_mode": math_mode}
    if arguments.operation == "backward":
        grad_output = torch.randn(*inputs[2].shape[:3], work["channels"], device=inputs[0].device).to(inputs[0].dtype)
        options |= {"grad_output": grad_output, "deterministic": not arguments.any_order}
    _, untold = msda_call(*inputs, handle, **options)
    _, told = msda_call(*inputs, handle, point_locality=LOCALITIES[work["pattern"]], **options)
    predicted = ranked(handle.explain(told.problem))
    calls = {kernel: msda_call(*inputs, handle, kernel=kernel, **options)[0] for kernel in predicted}
    if arguments.operation == "backward":
        wrong = wrong_gradients(work, calls, inputs, reference, grad_output, dtype)
    else:
        wrong = wrong_kernels(work, calls, inputs, reference, dtype, math_mode)
    for text in wrong.values():
        print(f"{text}: {work}, {dtype}, {input_mode}, {math_mode}", file=sys.stderr, flush=True)
    # The generic kernel takes any problem and is slow: it is no front runner, unless it is chosen or predicted to come near.
    chosen, near = (told.info.kernel_id, untold.info.kernel_id), NEAR_PREDICTION * min(predicted.values(), default=0)
    timed = {kernel: call for kernel, call in calls.items()
             if kernel not in wrong and (kernel in chosen or GENERIC not in kernel or predicted[kernel] < near)}
    if not timed:
        sys.exit("no kernel that takes the problem is right")
    if arguments.peers and dtype in DTYPES and input_mode == "sampled":
        timed |= peer_calls(inputs)
    if arguments.dry_run:
        times = measure_on_cpu(timed, arguments.rounds)
    else:
        times = measure({name: captured(call) for name, call in timed.items()}, arguments.rounds)
    quartiles = {name: statistics.quantiles(t, n=4, method="inclusive")[::2] for name, t in times.items()}
    return judged({"work": work, "operation": arguments.operation, "value_dtype": dtype, "input_mode": input_mode,
                   "math_mode": math_mode, "chosen": chosen[0], "chosen_untold": chosen[1],
                   "times": {name: statistics.median(t) for name, t in times.items()},
                   "quartiles": quartiles, "predicted": predicted, "wrong": sorted(wrong)})


def tuned_kernel(handle, case, arguments):
    """What the tuner takes on the tensors of the problem."""
    inputs, reference = inputs_of(case, "cpu" if arguments.dry_run else "cuda")
    _, plan = msda_call(*inputs, handle, reference=reference, math_mode=case.math_mode, tuning_ms=TUNING_MS)
    return plan.info.kernel_id


def case_of(row):
    return Case(row["work"], row["value_dtype"], row["input_mode"], row["math_mode"])


def cases(arguments):
    """One after the other, as many as asked for."""
    rng, families = random.Random(arguments.seed), arguments.near.split(",")
    dtypes, inputs = arguments.value_dtypes.split(","), arguments.inputs.split(",")
    for n in range(arguments.problems):
        if arguments.near:
            case = draw_near(rng, families[n % len(families)])
        else:
            work = (draw_small if arguments.operation == "backward" and n % 2 else draw)(rng)
            case = Case(work, rng.choice(dtypes), rng.choice(inputs), arguments.math_mode)
        yield case._replace(work=smaller(case.work)) if arguments.dry_run else case


def about(arguments):
    import libmsda

    device = "CPU, dry run"
    if not arguments.dry_run:
        properties = torch.cuda.get_device_properties(arguments.device)
        device = (f"{properties.name}, sm {properties.major}{properties.minor},"
                  f" {properties.multi_processor_count} SMs")
    note = f", {arguments.note}" if arguments.note else ""
    return (f"{device}{note}, libmsda {libmsda.__version__}; seed {arguments.seed}, caches flushed, medians of"
            f" {arguments.rounds}")


def keep(rows, arguments):
    if arguments.json:
        arguments.json.write_text(json.dumps({"about": about(arguments), "results": rows}, indent=1) + "\n")
    if arguments.csv:
        write_drawn(arguments.csv, about(arguments), csv_rows(rows))
    print("\n" + "\n".join(report_lines(rows)))


def main(words=None):
    import libmsda

    arguments = parse_arguments(words)
    if not arguments.dry_run:
        torch.cuda.set_device(arguments.device)
    handle = libmsda.Handle() if arguments.dry_run else libmsda.Handle(device=arguments.device)
    rows, begin = [], time.monotonic()
    try:
        with torch.no_grad():
            for n, case in enumerate(cases(arguments)):
                if arguments.seconds and time.monotonic() - begin > arguments.seconds:
                    print(f"stopped after {n} of {arguments.problems} problems", file=sys.stderr)
                    break
                rows.append(measure_problem(handle, case, arguments))
                if sys.stderr.isatty():
                    print(f"\r{n + 1} of {arguments.problems}", end="", file=sys.stderr, flush=True)
    finally:  # what was measured before something failed is worth keeping
        if rows:
            keep(rows, arguments)
    for family in filter(None, arguments.near.split(",")):
        best = nearest(rows, family)
        tuned = tuned_kernel(handle, case_of(best.row), arguments) if best else None
        print("\n".join(family_lines(rows, family, tuned)))
    if any(row["wrong"] for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
