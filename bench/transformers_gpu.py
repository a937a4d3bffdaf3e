#!/usr/bin/env python3
"""Attention module and whole transformers models on a GPU: stock code beside libmsda, in time and memory. Prints Markdown.

    transformers_gpu.py                    all figures, each in a process of its own
    transformers_gpu.py module             Deformable-DETR's attention module in its encoder, B 2, 22,223 tokens, float16 autocast
    transformers_gpu.py deformable_detr    the model on ResNet-50, B 2, 800 x 1333, in float32 and under bfloat16 autocast
    transformers_gpu.py rt_detr            RT-DETR on ResNet-50, B 8, 640 x 640, in float32 and under bfloat16 autocast
    transformers_gpu.py training           the same bits in two trainings under torch.use_deterministic_algorithms(True)

    --json FILE    write all figures there, with the kernels that took most time
    --rounds 5     of which the median counts
    --check        exit with 1 where a goal is missed
    --device cpu --small    tries the script without a GPU; its times mean nothing

Weights are random. Sides take turns in one process: stock; stock under torch.compile; deformops, where it is installed and
patches the model; compat, libmsda.compat.transformers(); module, libmsda.torch.from_module(model); and `no operator`, a model
whose operator returns a constant, which bounds what any replacement of the operator can save. Times are those between device
events around a call, from an idle device, each right after a call that is not timed: layers of a model and steps of a training
follow one another, too. "kernels" is the sum of all kernels' times of forward and backward, from a profile. Memory is the most
that PyTorch allocated beyond what it had before. Each output and gradient is compared with stock's, those of the module with
stock's in float32, and the one that differs most is named: exit status 1 where libmsda is off.
"""

import argparse
import contextlib
import copy
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import transformers
from torch.profiler import ProfilerActivity, profile
from transformers.models.deformable_detr import modeling_deformable_detr
from transformers_models import LEVELS, Transformer, deformable_detr, forward, sides, training_step

import libmsda.compat
import libmsda.torch

SMALL_LEVELS = [(10, 17), (5, 9), (3, 5), (2, 3)]
# Figure, measure, side, the side it is held against, and at most how much of that it may take.
GOALS = [
    ("module", "forward, ms", "module", "compat", 0.71),
    ("module", "both, ms", "module", "compat", 0.70),
    ("module", "kernels, us", "module", "compat", 0.50),
    ("module", "peak, MiB", "module", "compat", 0.80),
    ("deformable_detr", "forward, ms", "compat", "no operator", 1.03),
    ("deformable_detr", "both, ms", "compat", "no operator", 1.03),
    ("rt_detr", "forward, ms", "compat", "no operator", 1.03),
    ("rt_detr", "both, ms", "compat", "no operator", 1.03),
]
KERNELS_KEPT = 25
LARGEST = 1e30  # of what is compared
NEGLIGIBLE = 1e-2  # of the median tensor's largest value: a tensor without larger values may have rounding errors alone


class Side(NamedTuple):
    """forward() computes without gradients; both() computes with them and returns what is compared, by name."""

    forward: Callable[[], Any]
    both: Callable[[], dict[str, torch.Tensor]]
    context: Callable[[], Any] = contextlib.nullcontext


class Device:
    """Waits, times and counts memory on the device that is measured."""

    def __init__(self, kind):
        self.kind, self.is_cuda = kind, kind == "cuda"

    def wait(self):
        if self.is_cuda:
            torch.cuda.synchronize()

    def time(self, work):
        """Milliseconds of a call, from an idle device, and its result."""
        self.wait()
        if not self.is_cuda:
            begin = time.perf_counter()
            result = work()
            return (time.perf_counter() - begin) * 1e3, result
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        result = work()
        end.record()
        self.wait()
        return begin.elapsed_time(end), result

    def peak(self, work):
        """MiB that a call allocates at most, and None where that is not counted."""
        if not self.is_cuda:
            return None
        self.wait()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        self.wait()
        return (torch.cuda.max_memory_allocated() - before) / 2**20

    def kernels(self, work, calls=2):
        """{kernel: [microseconds, launches] of a call}, the longest first."""
        if not self.is_cuda:
            return {}
        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            for _ in range(calls):
                work()
            self.wait()
        found = {
            row.key: [row.self_device_time_total / calls, row.count / calls]
            for row in profiled.key_averages()
            if row.device_type == torch.autograd.DeviceType.CUDA
        }
        return dict(sorted(found.items(), key=lambda item: -item[1][0]))


def measure(device, case, given, rounds):
    """A row for each side: medians of the rounds after the first two, or why it failed; and the results that are compared."""
    rows = {name: {"case": case, "side": name} for name in given}
    times, results = {name: ([], []) for name in given}, {}
    for number in range(rounds + 2):
        for name, side in given.items():
            if "failed" in rows[name]:
                continue
            try:
                with side.context() as patch:
                    side.forward()  # a patch's first call makes what later ones find
                    side.both()
                    taken, _ = device.time(side.forward)
                    taken_both, found = device.time(side.both)
                    if number == 0:
                        results[name] = {key: tensor.detach().float().cpu() for key, tensor in found.items()}
                    if isinstance(patch, libmsda.compat.Patch):
                        report = patch.report()
                        assert report.calls and not report.fallbacks, report
                        rows[name] |= {"calls": report.calls, "chosen": report.kernels}
                    del found
                    if number == rounds + 1:
                        kernels = device.kernels(side.both)
                        rows[name]["kernels, us"] = sum(us for us, _ in kernels.values()) or None
                        rows[name]["launches"] = sum(count for _, count in kernels.values()) or None
                        rows[name]["longest kernels"] = dict(list(kernels.items())[:KERNELS_KEPT])
                        rows[name]["peak, MiB"] = device.peak(side.both)
            except Exception as error:  # noqa: BLE001  stock code under a compiler may throw anything; the others are measured
                rows[name]["failed"] = (str(error).splitlines() or [repr(error)])[0][:200]
                continue
            if number >= 2:
                times[name][0].append(taken)
                times[name][1].append(taken_both)
    for name, (of_forward, of_both) in times.items():
        if of_both:
            rows[name] |= {"forward, ms": statistics.median(of_forward), "both, ms": statistics.median(of_both)}
    return rows, results


def distances(found, wanted):
    """By name, how far each tensor is from the one that is wanted: the largest difference, relative to the largest value that
    is wanted; infinite where they are no numbers elsewhere.

    Where an anchor lies at the border, RT-DETR has the largest float32; other anchors give gradients of 1e12."""
    counts = {name: tensor.abs() < LARGEST for name, tensor in wanted.items()}
    most = lambda tensor: tensor.double().abs().max().item() if tensor.numel() else 0.0
    largest = {name: most(tensor[counts[name]]) for name, tensor in wanted.items()}
    negligible = NEGLIGIBLE * statistics.median(largest.values())
    result = {}
    for name, tensor in wanted.items():
        result[name] = math.inf
        if torch.equal(found[name].abs() < LARGEST, counts[name]):
            difference = most((found[name].double() - tensor.double())[counts[name]])
            result[name] = difference and difference / max(largest[name], negligible, sys.float_info.min)
    return result


def of_module(arguments):
    device, levels, batch = Device(arguments.device), SMALL_LEVELS if arguments.small else LEVELS, 2
    kind, tokens = arguments.device, sum(height * width for height, width in levels)
    layer = modeling_deformable_detr.DeformableDetrMultiscaleDeformableAttention(deformable_detr(1), 8, 4).to(kind)
    torch.nn.init.normal_(layer.attention_weights.weight, std=0.02)
    # Each token looks around its own place, as in the encoder.
    places = [
        torch.stack(torch.meshgrid((torch.arange(h) + 0.5) / h, (torch.arange(w) + 0.5) / w, indexing="ij")[::-1], -1).view(-1, 2)
        for h, w in levels
    ]
    reference = torch.cat(places)[None, :, None].expand(batch, tokens, len(levels), 2).contiguous().to(kind)
    query = torch.randn(batch, tokens, 256, device=kind, requires_grad=True)
    position = torch.randn(batch, tokens, 256, device=kind)
    grad_outputs = {torch.float32: torch.randn(batch, tokens, 256, device=kind)}
    grad_outputs[torch.float16] = grad_outputs[torch.float32].half()
    sizes = torch.tensor(levels).prod(1)
    shapes = dict(
        spatial_shapes=torch.tensor(levels, device=kind),
        spatial_shapes_list=levels,
        level_start_index=(sizes.cumsum(0) - sizes).to(kind),
    )

    def side(of, context=contextlib.nullcontext, compiled=False, dtype=torch.float16):
        # A compiler of C++ for the CPU would take minutes.
        call = torch.compile(of, backend="eager" if kind == "cpu" else "inductor") if compiled else of

        def run():
            with torch.autocast(kind, dtype=dtype, enabled=dtype != torch.float32):
                return call(
                    hidden_states=query,
                    encoder_hidden_states=query,
                    position_embeddings=position,
                    reference_points=reference,
                    **shapes,
                )[0]

        def forward():
            with torch.no_grad():
                return run()

        def both():
            of.zero_grad(set_to_none=True)
            query.grad = None
            output = run()
            output.backward(grad_outputs[output.dtype])
            gradients = {name: parameter.grad for name, parameter in of.named_parameters()}
            return {"output": output, "query": query.grad, **gradients}

        return Side(forward, both, context)

    def converted():
        module = copy.deepcopy(layer)
        libmsda.torch.from_module(module)
        return module

    given = {
        "stock": side(copy.deepcopy(layer)),
        "stock, compiled": side(copy.deepcopy(layer), compiled=True),
        **{name: side(patched) for name, patched in by_deformops(layer).items()},
        "compat": side(copy.deepcopy(layer), libmsda.compat.transformers),
        "module": side(converted()),
        "module, compiled": side(converted(), compiled=True),
    }
    exact = {name: tensor.detach().float().cpu() for name, tensor in side(layer, dtype=torch.float32).both().items()}
    rows, results = measure(device, "float16 autocast", given, arguments.rounds)
    errors = {name: distances(found, exact) for name, found in results.items()}
    wrong = []
    for name, found in errors.items():
        rows[name]["error, output"] = found["output"]
        rows[name]["error, gradients"] = max(error for tensor, error in found.items() if tensor != "output")
        for tensor, error in found.items():
            of_stock = errors["stock"][tensor]
            if not error <= 2 * of_stock + torch.finfo(torch.float16).eps / 4:
                wrong.append(f"module: {name} has an error of {error:.1e} in {tensor}, stock {of_stock:.1e}")
    return list(rows.values()), wrong


def by_deformops(model):
    """{"deformops": a copy that runs its operator}, or nothing where it is not installed or has no patch for the model."""
    try:
        from deformops.integrations import transformers as peer

        return {"deformops": peer.patch(copy.deepcopy(model), strict=True)}
    except (ImportError, RuntimeError) as error:
        print(f"deformops is left out: {(str(error).splitlines() or [repr(error)])[0]}", file=sys.stderr)
        return {}


def of_deformable_detr(arguments):
    return of_model(
        "deformable_detr",
        arguments,
        *(
            tiny("deformable_detr")
            if arguments.small
            else (transformers.DeformableDetrForObjectDetection(deformable_detr(6)), images(2, 800, 1333))
        ),
    )


def of_rt_detr(arguments):
    return of_model(
        "rt_detr",
        arguments,
        *(
            tiny("rt_detr")
            if arguments.small
            else (transformers.RTDetrForObjectDetection(transformers.RTDetrConfig()), images(8, 640, 640))
        ),
    )


def images(batch, height, width):
    return dict(pixel_values=torch.randn(batch, 3, height, width))


def tiny(family):
    """The small model of the tests, and its inputs."""
    sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests" / "compat"))
    from families import FAMILIES

    return FAMILIES[family].tiny()


@torch.no_grad()
def move_points(model):
    """Untrained offsets are whole pixels, so that rounding decides between two gradients: moves them by fractions."""
    for name, parameter in model.named_parameters():
        if name.endswith("sampling_offsets.bias"):
            parameter += torch.rand_like(parameter)


def named_step(model, inputs):
    """The results of training_step() by name."""
    results = training_step(model, inputs)
    names = [name for name, parameter in model.named_parameters() if parameter.grad is not None]
    outputs = [f"output {number}" for number in range(len(results) - len(names))]
    return dict(zip([*outputs, *names], results, strict=True))


def of_model(figure, arguments, model, inputs):
    device, rows, wrong = Device(arguments.device), [], []
    move_points(model)
    model, inputs = model.eval().to(arguments.device), {name: one.to(arguments.device) for name, one in inputs.items()}
    changed = {"module": copy.deepcopy(model), **by_deformops(model)}
    libmsda.torch.from_module(changed["module"])
    for dtype in (torch.float32, torch.bfloat16):
        region = lambda dtype=dtype: torch.autocast(arguments.device, dtype=dtype, enabled=dtype != torch.float32)

        def side(name, context, region=region):
            of = changed.get(name, model)

            def run(work):
                with region():
                    return work(of, inputs)

            return Side(lambda: run(forward), lambda: run(named_step), context)

        contexts = {**sides(model), **dict.fromkeys(changed, contextlib.nullcontext)}
        given = {name: side(name, context) for name, context in contexts.items()}
        case = "float32" if dtype == torch.float32 else "bfloat16 autocast"
        found, results = measure(device, case, given, arguments.rounds)
        for name in ("compat", "module"):
            if name in results and "stock" in results:
                tensor, differs = max(distances(results[name], results["stock"]).items(), key=lambda item: item[1])
                found[name] |= {"differs by": differs, "most in": tensor}
                if dtype == torch.float32 and not differs < 1e-2:
                    wrong.append(f"{figure}: {name} differs from stock by {differs:.1e} of {tensor}'s largest value in {case}")
        for row in found.values():
            kernels, bound = row.get("kernels, us"), found["no operator"].get("kernels, us")
            if kernels and bound:
                row["operator's share of the kernels' time"] = 1 - bound / kernels
        rows += found.values()
    return rows, wrong


def of_training(arguments):
    """Two trainings of each side: whether all parameters end in the same bits, and the loss after the last step."""
    levels, layers, steps = (SMALL_LEVELS, 1, 2) if arguments.small else (LEVELS, 3, 10)
    kind, rows, wrong = arguments.device, [], []

    def encoder_and_decoder():
        model = Transformer(deformable_detr(layers), levels)
        return model, model.inputs(2)

    def rt_detr():
        if arguments.small:
            model, inputs = tiny("rt_detr")
            return model.model, inputs
        return transformers.RTDetrModel(transformers.RTDetrConfig()), images(2, 640, 640)

    def train(make, side, deterministic):
        torch.manual_seed(5)
        model, inputs = make()
        model, inputs = model.train().to(kind), {name: tensor.to(kind) for name, tensor in inputs.items()}
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        torch.use_deterministic_algorithms(deterministic)
        try:
            with sides(model)[side]():
                for _ in range(steps):
                    output = model(**inputs)
                    output = output if isinstance(output, torch.Tensor) else output.last_hidden_state
                    loss = (output - 0.5).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        finally:
            torch.use_deterministic_algorithms(False)
        return [parameter.detach().cpu() for parameter in model.parameters()], loss.item()

    for make in (encoder_and_decoder, rt_detr):
        for side, deterministic in (("stock", False), ("stock", True), ("compat", False), ("compat", True), ("module", True)):
            row = {"case": f"{make.__name__}, {steps} steps", "side": side, "deterministic": deterministic}
            rows.append(row)
            try:
                (first, loss), (second, _) = (train(make, side, deterministic) for _ in range(2))
                row["loss"] = loss
                row["parameters of the same bits"] = f"{sum(map(torch.equal, first, second))} of {len(first)}"
                if not all(map(torch.equal, first, second)) and side != "stock" and deterministic:
                    wrong.append(f"training: {row['case']} of {side} ended in other bits")
            except RuntimeError as error:  # of an operator without a deterministic implementation
                row["failed"] = (str(error).splitlines() or [""])[0][:200]
                if side != "stock" and make is encoder_and_decoder:
                    wrong.append(f"training: {side}: {row['failed']}")
    return rows, wrong


FIGURES = {"module": of_module, "training": of_training, "rt_detr": of_rt_detr, "deformable_detr": of_deformable_detr}


def goals_of(figure, rows):
    """Each goal of a figure with the ratio reached."""
    found = []
    for case in dict.fromkeys(row["case"] for row in rows):
        of_side = {row["side"]: row for row in rows if row["case"] == case}
        for name, measured, side, base, most in GOALS:
            mine, theirs = (of_side.get(one, {}).get(measured) for one in (side, base))
            if name == figure and mine and theirs:
                goal = {"case": case, "measure": measured, "side": side, "of": base}
                found.append(goal | {"ratio": mine / theirs, "at most": most})
    return found


def print_table(rows):
    columns = list(dict.fromkeys(name for row in rows for name in row if name not in ("longest kernels", "chosen")))
    for cells in (columns, ["---"] * len(columns), *[[text_of(row.get(name)) for name in columns] for row in rows]):
        print("|", " | ".join(cells), "|", flush=True)


def text_of(cell):
    if not isinstance(cell, float):
        return "" if cell is None else str(cell)
    return f"{cell:.0f}" if cell >= 100 else f"{cell:.2f}" if cell >= 0.01 else f"{cell:.1e}"


def run_figure(figure, arguments):
    """Measures a figure in this process, and prints it."""
    torch.manual_seed(0)
    rows, wrong = FIGURES[figure](arguments)
    print(f"\n### {figure}\n")
    print_table(rows)
    goals = goals_of(figure, rows)
    if goals:
        print()
        print_table(goals)
    for text in wrong:
        print(f"WRONG: {text}")
    return {"rows": rows, "goals": goals, "wrong": wrong}


def run_apart(figure, arguments):
    """Measures a figure in a process of its own, which prints it."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        words = [figure, "--json", file.name, "--rounds", str(arguments.rounds), "--device", arguments.device]
        status = subprocess.run([sys.executable, __file__, *words, *["--small"] * arguments.small], check=False).returncode
        text = file.read()
    if not text:
        return {"rows": [], "goals": [], "wrong": [f"{figure}: the process ended with status {status}"]}
    return json.loads(text)["figures"][figure]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    for figure in arguments.figures:
        if figure not in FIGURES:
            parser.error(f"unknown figure '{figure}'; there are: {', '.join(FIGURES)}")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU that torch can use; --device cpu --small tries the script")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # products with the same bits
    figures = arguments.figures or list(FIGURES)
    found = {figure: (run_figure if len(figures) == 1 else run_apart)(figure, arguments) for figure in figures}
    if arguments.json:
        name = torch.cuda.get_device_name() if arguments.device == "cuda" else "CPU"
        versions = {"torch": torch.__version__, "transformers": transformers.__version__, "libmsda": libmsda.__version__}
        with open(arguments.json, "w") as file:
            json.dump({"device": name, "versions": versions, "figures": found}, file, indent=1)
    missed = [goal for one in found.values() for goal in one["goals"] if goal["ratio"] > goal["at most"]]
    return int(any(one["wrong"] for one in found.values()) or (arguments.check and bool(missed)))


if __name__ == "__main__":
    sys.exit(main())
