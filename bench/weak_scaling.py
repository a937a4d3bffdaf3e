#!/usr/bin/env python3
"""A training step on one GPU and on several that have as many images each: how much of one GPU's speed is left.

    torchrun --nproc-per-node 2 bench/weak_scaling.py                 Deformable-DETR's encoder, and the whole model, under DDP
    torchrun --nproc-per-node 2 bench/weak_scaling.py --device cpu --small     tries the script; its times mean nothing

Each process has --batch images of 800 x 1333 and random weights, under bfloat16 autocast. A step is forward, backward and AdamW.
Sides: transformers' own code; the same model under libmsda.compat.transformers(); and with libmsda.torch's module in its place.
Three kinds of step take turns: the first GPU alone while the others wait, every GPU a model of its own, and DDP. Efficiency is
the time alone over that of DDP; what is lost while nothing is sent is what processes of one host take from one another. Prints
Markdown, and beside it the time that sending takes at the rate of bench/scaling.py.
"""

import argparse
import contextlib
import os
import statistics
import time
from typing import NamedTuple

import torch
import torch.distributed as dist
import transformers
from scaling import RATE
from transformers_gpu import SMALL_LEVELS, images, tiny
from transformers_models import CHANNELS, LEVELS, Transformer, deformable_detr, level_arguments, training_step

import libmsda.compat
import libmsda.torch


class Encoder(torch.nn.Module):
    """Deformable-DETR's encoder on the tokens of all levels."""

    def __init__(self, small):
        super().__init__()
        self.levels = SMALL_LEVELS if small else LEVELS
        self.encoder = Transformer(deformable_detr(1 if small else 6)).encoder

    def forward(self, features, positions):
        levels = level_arguments(self.levels, features)
        return self.encoder(inputs_embeds=features, spatial_position_embeddings=positions, **levels).last_hidden_state

    def inputs(self, batch):
        tokens = sum(height * width for height, width in self.levels)
        return {name: torch.randn(batch, tokens, CHANNELS) for name in ("features", "positions")}


def encoder(arguments):
    model = Encoder(arguments.small)
    return model, model.inputs(arguments.batch)


def whole_model(arguments):
    if arguments.small:
        return tiny("deformable_detr")
    return transformers.DeformableDetrForObjectDetection(deformable_detr(6)), images(arguments.batch, 800, 1333)


MODELS = {"encoder": encoder, "deformable_detr": whole_model}


class Processes(NamedTuple):
    rank: int
    count: int
    device: torch.device

    def finish(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def meet(self):
        self.finish()
        dist.barrier()
        self.finish()  # NCCL's barrier is a kernel


def step_of(model, optimizer, inputs):
    """A function that trains one step."""
    kind = next(iter(inputs.values())).device.type

    def step():
        with torch.autocast(kind, dtype=torch.bfloat16):
            training_step(model, inputs)
        optimizer.step()

    return step


def steps_of(make, side, processes, arguments):
    """The step of a model alone and of one under DDP, both with the same first parameters; and how many there are."""
    made = []
    for distributed in (False, True):
        torch.manual_seed(0)
        model, inputs = make(arguments)
        if side == "module":
            libmsda.torch.from_module(model)
        model, inputs = model.train().to(processes.device), {name: one.to(processes.device) for name, one in inputs.items()}
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if distributed:
            ids = [processes.device.index] if processes.device.type == "cuda" else None
            # Some parameters of the whole model have no gradient, always the same ones; its batch norms are frozen.
            options = dict(static_graph=True, gradient_as_bucket_view=True, broadcast_buffers=False)
            model = torch.nn.parallel.DistributedDataParallel(model, device_ids=ids, **options)
        optimizer = torch.optim.AdamW(parameters, lr=1e-5)
        made.append(step_of(model, optimizer, inputs))
    return made, sum(parameter.numel() for parameter in parameters)


def measure(make, side, processes, arguments):
    """Median milliseconds of a step by kind, the slowest process's, and the number of parameters trained."""
    (alone, together), parameters = steps_of(make, side, processes, arguments)
    times = {"one GPU": [], "each alone": [], "DDP": []}
    with libmsda.compat.transformers() if side == "compat" else contextlib.nullcontext():
        for number in range(arguments.rounds + 2):
            for kind, taken in times.items():
                processes.meet()
                begin = time.perf_counter()
                if kind != "one GPU" or processes.rank == 0:
                    (together if kind == "DDP" else alone)()
                    processes.finish()
                slowest = torch.tensor(time.perf_counter() - begin, device=processes.device)
                dist.all_reduce(slowest, dist.ReduceOp.MAX)
                if number >= 2:
                    taken.append(slowest.item() * 1e3)
    return {kind: statistics.median(taken) for kind, taken in times.items()}, parameters


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--batch", type=int, default=2, help="images of each process (2)")
    parser.add_argument("--rounds", type=int, default=21, help="steps of each kind, of which the median counts (21)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    for name in arguments.models:
        if name not in MODELS:
            parser.error(f"MODEL is {name}; there are {', '.join(MODELS)}")
    if "RANK" not in os.environ:
        parser.error("start it by torchrun, with --nproc-per-node as many as there are GPUs")
    device = torch.device(arguments.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", device_id=device if device.type == "cuda" else None)
    processes = Processes(dist.get_rank(), dist.get_world_size(), device)
    if processes.rank == 0:
        columns = ["model", "side", "one GPU, ms", f"{processes.count} GPUs, each alone", "DDP", "efficiency"]
        columns += ["MB sent by a GPU", "ms of sending"]
        print("|", " | ".join(columns), "|")
        print("|" + "---|" * len(columns))
    for name in arguments.models or MODELS:
        for side in ("stock", "compat", "module"):
            times, parameters = measure(MODELS[name], side, processes, arguments)
            sent = 2 * (processes.count - 1) / processes.count * 4 * parameters
            cells = [*(f"{ms:.1f}" for ms in times.values()), f"{times['one GPU'] / times['DDP']:.3f}"]
            cells += [f"{sent / 1e6:.0f}", f"{sent / RATE[8] * 1e3:.2f}"]
            if processes.rank == 0:
                print("|", " | ".join([name, side, *cells]), "|", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
