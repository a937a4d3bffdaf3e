#!/usr/bin/env python3
"""What a jitted call of libmsda.jax costs beside its work: a problem with next to nothing to compute, on one thread.

    build/jax-venv/bin/python bench/jax_calls.py [--rounds 21] [--calls 300]
    build/jax-venv/bin/python bench/jax_calls.py --check 1.5     what tools/check runs

Programs take turns in one process: one with a custom call that does nothing (libmsda_empty_call.so of the release build),
and those of libmsda.jax, with operands of the same sizes. A time is the median over rounds of the processor time of the whole
process. Prints Markdown: microseconds of a call, those above the empty one, and the goal.
--check fails where forward takes more than
SLACK times what the empty call takes with the goal, in each of 5 tries.
"""

import argparse
import ctypes
import os
import pathlib
import statistics
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp

import libmsda
import libmsda.jax

LEVELS = ((2, 2), (1, 1))
GOAL_US = 10  # above an empty call
TRIES = 5
EMPTY, FORWARD, BACKWARD = "an empty custom call", "forward", "gradients"


def programs():
    """Functions without arguments, by name."""
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    path = pathlib.Path(libmsda.library_path).with_name("libmsda_empty_call.so")
    library = ctypes.CDLL(str(path))
    jax.ffi.register_ffi_target("msda_bench_empty_call", jax.ffi.pycapsule(library.msda_bench_empty_call), platform="cpu")
    value, coord, weight = jnp.ones((1, 5, 1, 8)), jnp.ones((1, 1, 1, 2, 2)), jnp.ones((1, 1, 1, 2))
    result = [jax.ShapeDtypeStruct((1, 1, 1, 8), jnp.float32), jax.ShapeDtypeStruct((0,), jnp.uint8)]
    forward = lambda *given: libmsda.jax.forward(given[0], LEVELS, *given[1:], threads=1)
    compiled = {
        EMPTY: jax.jit(lambda *given: jax.ffi.ffi_call("msda_bench_empty_call", result)(*given)[0]),
        FORWARD: jax.jit(forward),
        BACKWARD: jax.jit(jax.grad(lambda *given: forward(*given).sum(), (0, 1, 2))),
    }
    return {name: lambda program=program: program(value, coord, weight) for name, program in compiled.items()}, library


def measure(sides, rounds, calls):
    """Median microseconds of a call of each program."""
    times = {name: [] for name in sides}
    for call in sides.values():
        jax.block_until_ready(call())
    for _ in range(rounds):
        for name, call in sides.items():
            begin = time.process_time()
            for _ in range(calls):
                call()
            times[name].append((time.process_time() - begin) / calls * 1e6)
    return {name: statistics.median(found) for name, found in times.items()}


def report(found):
    print("| program | us | above the empty call | goal |\n|---|---|---|---|")
    for name, us in found.items():
        goal = GOAL_US if name == FORWARD else ""
        print(f"| {name} | {us:.1f} | {us - found[EMPTY]:.1f} | {goal} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21, help="of which the median counts (21)")
    parser.add_argument("--calls", type=int, default=300, help="of each program in a round (300)")
    parser.add_argument("--check", type=float, metavar="SLACK", help="fail above SLACK times the goal")
    arguments = parser.parse_args()
    sides, _library = programs()
    for _ in range(1 if arguments.check is None else TRIES):
        found = measure(sides, arguments.rounds, arguments.calls)
        report(found)
        if arguments.check is None or found[FORWARD] <= arguments.check * (found[EMPTY] + GOAL_US):
            return 0
    print(f"forward takes {found[FORWARD]:.1f} us: allowed are {arguments.check} times {found[EMPTY] + GOAL_US:.1f}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
