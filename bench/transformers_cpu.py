#!/usr/bin/env python3
"""Unedited transformers models on the CPU: stock code beside libmsda, in time and memory. Prints Markdown.

    transformers_cpu.py transformer    Deformable-DETR's encoder and decoder without the backbone, on the maps that
                                       ResNet-50 makes of an image of 800 x 1333
    transformers_cpu.py model          the same with ResNet-50
    transformers_cpu.py families       every family that has the operator, as its default configuration has it, on an
                                       image of 320 x 320 (rf_detr: 336 x 336): what libmsda saves

Options: --rounds 4; of Deformable-DETR --layers 2 of the encoder and of the decoder, --threads 1 2 and --work forward
training_step; of the families --only FAMILY..., with one thread.

Weights are random, everything is float32. The sides take turns in one process, and their results are compared. Seconds
are the fewest of all rounds. A ratio is the median of the rounds' own ratios, since neighbours in time share the state
of the machine. With one thread the process's CPU time counts, which other processes hardly change; else the clock's.

Sides: stock; compat, libmsda.compat.transformers(); module, libmsda.torch.from_module(model); and `no operator`, a
model whose operator returns a constant, which bounds what any replacement of the operator can save.
"""

import argparse
import ctypes
import gc
import statistics
import sys
import time
from pathlib import Path

import torch
import transformers
from transformers_models import WORKS, Transformer, deformable_detr, forward, sides

import libmsda.compat

sys.path.append(str(Path(__file__).parent.parent / "tests" / "compat"))
from families import FAMILIES


def measure(work, model, inputs, threads):
    """Seconds of a call, its results as one vector, and the bytes by which the process's memory grew at most."""
    clock = time.process_time if threads == 1 else time.perf_counter
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    resident = memory("VmRSS")
    begin = clock()
    results = work(model, inputs)
    seconds = clock() - begin
    return seconds, torch.cat([result.detach().flatten() for result in results]), memory("VmHWM") - resident


def memory(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def compare(work, model, inputs, threads, rounds, names):
    """{side: [(seconds, bytes)]} of the rounds, and how far compat and module are from stock."""
    torch.set_num_threads(threads)
    figures, differences = {name: [] for name in names}, {}
    for _ in range(rounds):
        for name in names:
            with sides(model)[name]() as patch:
                seconds, results, grown = measure(work, model, inputs, threads)
                if name == "compat":
                    report = patch.report()
                    assert report.calls and not report.fallbacks, report
            figures[name].append((seconds, grown))
            if name == "stock":
                stock = results
            elif name != "no operator":
                differences[name] = ((results - stock).norm() / stock.norm()).item()
    return figures, differences


def ratio(figures, name, field):
    """How many times more stock takes than the side."""
    return statistics.median(stock[field] / side[field] for stock, side in zip(figures["stock"], figures[name]))


def print_row(*cells):
    print("|", " | ".join(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells), "|", flush=True)


def print_header(*cells):
    print_row(*cells)
    print_row(*["---"] * len(cells))


def compare_deformable_detr(arguments):
    if arguments.what == "model":
        model = transformers.DeformableDetrModel(deformable_detr(arguments.layers)).eval()
        inputs = dict(pixel_values=torch.randn(1, 3, 800, 1333))
    else:
        model = Transformer(deformable_detr(arguments.layers))
        inputs = model.inputs(batch=1)
    names = list(sides(model))
    print_header(
        "work", "threads", *[f"{name}, s" for name in names], *[f"{name}, times faster" for name in names[1:]], "differ by"
    )
    for threads in arguments.threads:
        for work in map(WORKS.get, arguments.work):
            figures, differences = compare(work, model, inputs, threads, arguments.rounds, names)
            seconds = [min(figures[name])[0] for name in names]
            ratios = [ratio(figures, name, 0) for name in names[1:]]
            print_row(work.__name__, threads, *seconds, *ratios, f"{max(differences.values()):.0e}")


def default_model(name, family):
    """The family's model in its default configuration, and its inputs."""
    options, inputs = {}, family.inputs()  # text, besides the image
    size = 336 if name == "rf_detr" else 320
    if name == "omdet_turbo":  # its default backbone is another package's
        backbone = transformers.SwinConfig(image_size=size, embed_dim=96, out_indices=[2, 3, 4])
        options = dict(backbone_config=backbone, image_size=size, apply_layernorm_after_vision_backbone=False)
    if name == "lw_detr":  # its default has no scale at all
        options = dict(projector_scale_factors=[1.0])
    if name == "pp_doclayout_v2":  # its default has thresholds for no class
        options = dict(num_labels=3, class_thresholds=[0.5] * 3, class_order=[0, 1, 2])
    config = deformable_detr(6) if name == "deformable_detr" else family.config(**options)
    if name == "oneformer":
        inputs["task_inputs"] = torch.randint(1, 50, (1, config.task_seq_len)).float()
    inputs["pixel_values"] = torch.randn(1, 3, size, size)
    inputs.pop("pixel_mask", None)
    return family.model(config), inputs


def compare_families(arguments):
    print_header("family", "calls", "forward: time", "memory", "training step: time", "memory")
    for name in arguments.only or FAMILIES:
        torch.manual_seed(0)
        model, inputs = default_model(name, FAMILIES[name])
        with libmsda.compat.transformers() as patch:
            forward(model, inputs)
        cells = [patch.report().calls]
        for work in WORKS.values():
            figures, _ = compare(work, model, inputs, 1, arguments.rounds, ["stock", "compat"])
            cells += [ratio(figures, "compat", 0), ratio(figures, "compat", 1)]
        print_row(name, *cells)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["transformer", "model", "families"])
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--work", choices=WORKS, nargs="+", default=list(WORKS))
    parser.add_argument("--only", nargs="+", metavar="FAMILY")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    (compare_families if arguments.what == "families" else compare_deformable_detr)(arguments)


if __name__ == "__main__":
    main()
