#!/usr/bin/env python3
"""Trains a small encoder of libmsda.torch.MSDeformAttn layers, on one device or many: the same script.

    python examples/distributed/train.py                              one process, on a GPU where there is one
    torchrun --nproc-per-node 8 examples/distributed/train.py         a process for each GPU of this machine
    torchrun ... examples/distributed/train.py --shard                parameters split by FSDP2 instead of copied by DDP

The task is synthetic: every token of a pyramid of noise with one bright square has to tell how far the square's centre
is. The batch is that of all processes together, so each run sees the same pictures and has the same losses but for rounding.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn

import libmsda.torch

SIZE, WIDTH, BATCH = 32, 32, 8
STRIDES = (4, 8, 16)
LEVELS = tuple((SIZE // stride, SIZE // stride) for stride in STRIDES)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = libmsda.torch.MSDeformAttn(WIDTH, head_count=4, level_count=len(LEVELS), point_count=4)
        self.norm = nn.LayerNorm(WIDTH)
        self.forward_net = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, tokens, position, reference):
        tokens = self.norm(tokens + self.attention(tokens, reference, LEVELS, position=position))
        return tokens + self.forward_net(tokens)


class Encoder(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.embed = nn.Linear(1, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(depth))
        self.answer = nn.Linear(WIDTH, 2)
        places = torch.cat([centres(height, width) for height, width in LEVELS])
        waves = places[:, None] * (2.0 ** torch.arange(WIDTH // 4))[:, None] * torch.pi
        self.register_buffer("places", places)
        self.register_buffer("position", torch.cat([waves.sin(), waves.cos()], 1).flatten(1))

    def forward(self, picture):
        levels = [nn.functional.avg_pool2d(picture[:, None], stride).flatten(2) for stride in STRIDES]
        tokens = self.embed(torch.cat(levels, 2).transpose(1, 2))
        reference = self.places[None, :, None].expand(len(picture), -1, 1, -1)
        for layer in self.layers:
            tokens = layer(tokens, self.position.expand_as(tokens), reference)
        return self.answer(tokens)


def centres(height, width):
    """(x, y) of each pixel of a level, 0 to 1."""
    y, x = torch.meshgrid((torch.arange(height) + 0.5) / height, (torch.arange(width) + 0.5) / width, indexing="ij")
    return torch.stack([x, y], -1).flatten(0, 1)


def batch_of(step, places):
    """Pictures and answers of a step, the same in every process."""
    make = torch.Generator().manual_seed(step)
    picture = 0.1 * torch.randn(BATCH, SIZE, SIZE, generator=make)
    corner = torch.randint(0, SIZE - 8, (BATCH, 2), generator=make)
    for one, (x, y) in zip(picture, corner.tolist()):
        one[y : y + 8, x : x + 8] += 1
    return picture, (corner + 4.0)[:, None] / SIZE - places.cpu()


def parallel(model, shard, device):
    """The model for several processes: parameters split (FSDP2), or a copy in each (DDP)."""
    if not shard:
        return nn.parallel.DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(model, places, steps, rank, count, device):
    """The mean losses of all processes, step by step. Each process takes its part of the batch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    part = slice(rank * BATCH // count, (rank + 1) * BATCH // count)
    losses = []
    for step in range(steps):
        picture, answer = (tensor[part].to(device) for tensor in batch_of(step, places))
        loss = (model(picture) - answer).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach() / count
        if count > 1:
            dist.all_reduce(total)
        losses.append(total.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--shard", action="store_true", help="split parameters by FSDP2")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    rank, count = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = torch.device(arguments.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    torch.manual_seed(0)  # the same first parameters in every process
    model = Encoder().to(device)
    places = model.places
    if count > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        model = parallel(model, arguments.shard, device)
    losses = train(model, places, arguments.steps, rank, count, device)
    if rank == 0:
        for step in sorted({*range(0, arguments.steps, 20), arguments.steps - 1}):
            print(f"step {step:4}  loss {losses[step]:.6f}")
    if count > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
