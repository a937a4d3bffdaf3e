#!/usr/bin/env python3
"""What a call from Python costs beside its work: problems with next to nothing to compute, on one thread of the CPU.

    build/torch-venv/bin/python bench/python_calls.py [--rounds 21] [--calls 200] [--json FILE]
    build/torch-venv/bin/python bench/python_calls.py --check 1.4     what tools/check runs
    build/torch-venv/bin/python bench/python_calls.py --cpp           beside an operator in C++, bench/cpp_operator.cpp
    python3 bench/python_calls.py --cuda [--cpp]                      torch on a GPU

Sides take turns in one process. A time is the median over rounds of the calling thread's processor time, so other work
on the machine counts little; on a GPU, whose gradients another thread enqueues, of the clock's until the last call has
returned. Prints Markdown: microseconds, those above the bare call of C, and the ratio to the side
that a row is held against, with the goal. --check fails where a ratio is above its goal times SLACK in each of 5 tries.
Without torch only calls on numpy arrays are measured.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import statistics
import sys
import time

import numpy as np

import libmsda
from libmsda._core.library import ffi, lib

LEVELS, FLAT = ((2, 2), (1, 1)), [2, 2, 1, 1]
SHAPES = {"value": (1, 5, 1, 8), "coord": (1, 1, 1, 2, 1, 2), "weight": (1, 1, 1, 2, 1)}
TRIES = 5
KEPT = []  # libraries of torch, whose operators end with them
BARE, BY_HAND = "msda_execute alone", "msda_execute, its struct filled by cffi"
NUMPY, FORWARD, BOTH = "numpy", "torch: forward", "torch: forward and backward"
OURS, PLAIN = "libmsda.torch.forward", "a plain operator over the same calls"
# Group, side, the side it is held against, and at most how much of that it may take above the bare call of C.
GOALS = [
    (NUMPY, "Plan.execute", BY_HAND, 1.0),
    (NUMPY, "Plan.execute, workspace given", BY_HAND, 1.0),
    (NUMPY, "libmsda.forward", BY_HAND, 3.0),
    (FORWARD, OURS, PLAIN, 0.55),
    (BOTH, OURS, PLAIN, 0.65),
]


def of_numpy():
    """Sides by name: calls on numpy arrays."""
    arrays = {name: np.random.rand(*shape).astype("f4") for name, shape in SHAPES.items()}
    handle = libmsda.Handle(threads=1)
    plan = libmsda.Plan(
        libmsda.Problem(level_hw=LEVELS, points=1, batch=1, query_count=1, head_count=1, head_dim=8), handle=handle
    )
    flat = {name: array.reshape(plan.problem.shape(name)) for name, array in arrays.items()}
    flat["output"] = output = np.empty((1, 1, 1, 8), "f4")
    workspace, grad_output = plan.workspace(), np.ones_like(output)
    call = (arrays["value"], LEVELS, arrays["coord"], arrays["weight"])

    def tensors():
        made = ffi.new("msda_tensors*")
        made.struct_size = ffi.sizeof("msda_tensors")
        for name, array in flat.items():
            setattr(made, name, ffi.cast("void*", array.ctypes.data))
        return made

    ready, stream, execute, c_plan = tensors(), ffi.cast("msda_stream", 0), lib.msda_execute, plan._c
    return {
        BARE: lambda: execute(c_plan, ready, stream),
        BY_HAND: lambda: execute(c_plan, tensors(), stream),
        "Plan.execute": lambda: plan.execute(**flat),
        "Plan.execute, workspace given": lambda: plan.execute(**flat, workspace=workspace),
        "libmsda.forward": lambda: libmsda.forward(*call, handle=handle),
        "libmsda.forward, out given": lambda: libmsda.forward(*call, out=output, handle=handle),
        "libmsda.backward": lambda: libmsda.backward(*call, grad_output, handle=handle),
    }


def plain_operator(torch, calls):
    """An operator by define, impl and register_autograd over the calls that libmsda.torch makes."""
    library = torch.library.Library("msda_bench", "FRAGMENT")
    library.define("forward(Tensor value, Tensor coord, Tensor weight, int[] level_hw) -> Tensor")
    library.define(
        "backward(Tensor grad, Tensor value, Tensor coord, Tensor weight, int[] level_hw) -> (Tensor, Tensor, Tensor)"
    )
    settings, every = calls.Settings(), (True, True, True)
    pairs = lambda level_hw: tuple(zip(level_hw[::2], level_hw[1::2]))

    def forward(value, coord, weight, level_hw):
        return calls.forward(calls.SAMPLED, (value, coord, weight), pairs(level_hw), settings, None, None)

    def backward(grad, value, coord, weight, level_hw):
        inputs = (value, coord, weight)
        return tuple(calls.backward(calls.SAMPLED, grad, inputs, pairs(level_hw), settings, None, every))

    for device in ("CPU", "CUDA"):
        library.impl("forward", forward, device)
        library.impl("backward", backward, device)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:3])
        ctx.level_hw = inputs[3]

    def differentiate(ctx, grad):
        return *torch.ops.msda_bench.backward(grad, *ctx.saved_tensors, ctx.level_hw), None

    torch.library.register_autograd("msda_bench::forward", differentiate, setup_context=setup, lib=library)
    KEPT.append(library)
    return torch.ops.msda_bench.forward


def cpp_operator(torch, cuda):
    """The operator of cpp_operator.cpp, which has its gradients in C++; it is compiled at the first use."""
    from torch.utils import cpp_extension

    here, library = pathlib.Path(__file__).resolve().parent, pathlib.Path(os.environ["MSDA_LIBRARY"]).resolve()
    cpp_extension.load(
        "msda_cpp_operator",
        [str(here / "cpp_operator.cpp")],
        extra_include_paths=[str(here.parent / "include")],
        extra_cflags=["-O2", *(["-DMSDA_WITH_CUDA"] if cuda else [])],
        extra_ldflags=[str(library), f"-Wl,-rpath,{library.parent}"],
        with_cuda=cuda,
        is_python_module=False,
    )
    return torch.ops.msda_cpp.forward


def of_torch(arguments):
    """Sides by name: forward without gradients, and forward and backward."""
    import torch

    import libmsda.torch

    torch.set_num_threads(1)
    plain = plain_operator(torch, libmsda.torch._calls)
    functions = {
        OURS: lambda value, coord, weight: libmsda.torch.forward(value, LEVELS, coord, weight),
        PLAIN: lambda value, coord, weight: plain(value, coord, weight, FLAT),
        "torch.ops.msda.forward": lambda *tensors: torch.ops.msda.forward(*tensors, FLAT),
        "torch.mul": lambda value, coord, weight: value * 2,
    }
    if arguments.cpp:
        cpp = cpp_operator(torch, arguments.cuda)
        functions["an operator in C++"] = lambda value, coord, weight: cpp(value, coord, weight, FLAT)
    tensors = [torch.rand(shape, device="cuda" if arguments.cuda else "cpu") for shape in SHAPES.values()]
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]

    def both(function):
        grad_output = torch.ones_like(function(*leaves))

        def call():
            for leaf in leaves:
                leaf.grad = None
            function(*leaves).backward(grad_output)

        return call

    forward = {name: lambda function=function: function(*tensors) for name, function in functions.items()}
    return forward, {name: both(function) for name, function in functions.items()}, torch.no_grad()


def measure(sides, arguments):
    """Median microseconds of a call of each side."""
    times, clock, wait = {name: [] for name in sides}, time.thread_time, lambda: None
    if arguments.cuda:
        import torch

        clock, wait = time.perf_counter, torch.cuda.synchronize
    for _ in range(arguments.rounds):
        for name, call in sides.items():
            wait()
            begin = clock()
            for _ in range(arguments.calls):
                call()
            times[name].append((clock() - begin) / arguments.calls * 1e6)
    return {name: statistics.median(found) for name, found in times.items()}


def groups(arguments):
    """Name, sides and context of each group that can be measured here."""
    if not arguments.cuda:
        yield NUMPY, of_numpy(), contextlib.nullcontext()
    if importlib.util.find_spec("torch"):
        forward, both, no_grad = of_torch(arguments)
        yield FORWARD, forward, no_grad
        yield BOTH, both, contextlib.nullcontext()


def above(times, side):
    """Microseconds above the bare call, where the group has it."""
    return times[side] - times.get(BARE, 0)


def ratios(found):
    """What each goal is about, as (group, side), and how much of the other side it takes."""
    return {
        (group, side): above(found[group], side) / above(found[group], base)
        for group, side, base, _ in GOALS
        if group in found
    }


def report(found):
    goals, reached = {(group, side): goal for group, side, _, goal in GOALS}, ratios(found)
    for group, times in found.items():
        print(f"\n| {group} | us | above C | ratio | goal |\n|---|---|---|---|---|")
        for side, us in times.items():
            over = f"{above(times, side):.1f}" if BARE in times else ""
            ratio = f"{reached[group, side]:.2f}" if (group, side) in reached else ""
            print(f"| {side} | {us:.1f} | {over} | {ratio} | {goals.get((group, side), '')} |")


def check(every, arguments, found):
    """Whether each ratio was within its limit once; a busy machine gets more tries."""
    best = ratios(found)
    limits = {(group, side): goal * arguments.check for group, side, _, goal in GOALS if group in found}
    for _ in range(TRIES - 1):
        if all(best[key] <= limit for key, limit in limits.items()):
            break
        again = ratios({name: measured(sides, context, arguments) for name, sides, context in every})
        best = {key: min(ratio, again[key]) for key, ratio in best.items()}
    for key, limit in limits.items():
        if best[key] > limit:
            print(f"{': '.join(key)}: the ratio is {best[key]:.2f}, allowed are {limit:.2f}")
    return all(best[key] <= limit for key, limit in limits.items())


def measured(sides, context, arguments):
    with context:
        return measure(sides, arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21, help="of which the median counts (21)")
    parser.add_argument("--calls", type=int, default=200, help="of each side in a round (200)")
    parser.add_argument("--json", metavar="FILE", help="write times and ratios there, too")
    parser.add_argument("--cuda", action="store_true", help="torch's calls on a GPU, and nothing of numpy")
    parser.add_argument("--cpp", action="store_true", help="also an operator in C++, which needs MSDA_LIBRARY and a compiler")
    parser.add_argument("--check", type=float, metavar="SLACK", help="fail above SLACK times a goal")
    arguments = parser.parse_args()
    every = list(groups(arguments))
    found = {name: measured(sides, context, arguments) for name, sides, context in every}
    report(found)
    if arguments.json:
        rows = [{"group": group, "side": side, "ratio": ratio} for (group, side), ratio in ratios(found).items()]
        with open(arguments.json, "w") as file:
            json.dump({"microseconds": found, "ratios": rows}, file, indent=1)
    return 0 if arguments.check is None or check(every, arguments, found) else 1


if __name__ == "__main__":
    sys.exit(main())
