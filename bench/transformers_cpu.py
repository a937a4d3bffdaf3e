#!/usr/bin/env python3
"""Deformable-DETR's transformer on the CPU: unedited transformers code, stock beside libmsda.compat.

    build/torch-venv/bin/python bench/transformers_cpu.py [--layers 6] [--rounds 3] [--threads 1 2]

Encoder and decoder without the backbone, on the maps that ResNet-50 makes of an image of 800 x 1333, float32, random
weights. Sides take turns in one process, their results are compared, and the fastest round of each counts. Prints
Markdown.
"""

import argparse
import time

import torch
from transformers import DeformableDetrConfig, ResNetConfig
from transformers.models.deformable_detr import modeling_deformable_detr as modeling

import libmsda.compat

LEVELS = [(100, 167), (50, 84), (25, 42), (13, 21)]
CHANNELS = 256


class Transformer(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        config = DeformableDetrConfig(
            backbone_config=ResNetConfig(), encoder_layers=layers, decoder_layers=layers, dropout=0.0
        )
        self.encoder = modeling.DeformableDetrEncoder(config)
        self.decoder = modeling.DeformableDetrDecoder(config)
        self.levels = dict(
            spatial_shapes=torch.tensor(LEVELS), spatial_shapes_list=LEVELS, valid_ratios=torch.ones(1, len(LEVELS), 2)
        )
        sizes = torch.tensor([height * width for height, width in LEVELS])
        self.levels["level_start_index"] = sizes.cumsum(0) - sizes

    def forward(self, features, positions, queries):
        memory = self.encoder(inputs_embeds=features, spatial_position_embeddings=positions, **self.levels)
        return self.decoder(
            inputs_embeds=queries,
            object_queries_position_embeddings=queries,
            encoder_hidden_states=memory.last_hidden_state,
            reference_points=queries[..., :2].sigmoid(),
            **self.levels,
        ).last_hidden_state


def forward(model, inputs):
    with torch.no_grad():
        return [model(*inputs)]


def training_step(model, inputs):
    model.zero_grad(set_to_none=True)
    output = model(*inputs)
    output.square().mean().backward()
    return [output.detach(), *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]


def timed(work, model, inputs):
    begin = time.perf_counter()
    results = work(model, inputs)
    return time.perf_counter() - begin, torch.cat([result.flatten() for result in results])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=6, help="of the encoder, and of the decoder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()

    torch.manual_seed(0)
    model = Transformer(arguments.layers)
    tokens = sum(height * width for height, width in LEVELS)
    inputs = [torch.randn(1, count, CHANNELS) for count in (tokens, tokens, 300)]
    print("| work | threads | stock, s | libmsda, s | times faster | differ by |\n|---|---|---|---|---|---|")
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        for work in (forward, training_step):
            times = {"stock": [], "ours": []}
            for _ in range(arguments.rounds):
                seconds, stock = timed(work, model, inputs)
                times["stock"].append(seconds)
                with libmsda.compat.transformers() as patch:
                    seconds, ours = timed(work, model, inputs)
                times["ours"].append(seconds)
                report = patch.report()
                assert report.calls == 2 * arguments.layers and not report.fallbacks, report
            difference = ((ours - stock).norm() / stock.norm()).item()
            assert difference < 1e-3, difference
            stock_s, ours_s = (min(times[side]) for side in ("stock", "ours"))
            print(
                f"| {work.__name__} | {threads} | {stock_s:.2f} | {ours_s:.2f} | {stock_s / ours_s:.2f} | {difference:.0e} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
