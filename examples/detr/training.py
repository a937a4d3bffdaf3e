#!/usr/bin/env python3
"""Training a small Deformable-DETR encoder of transformers, stock beside libmsda.

The task is synthetic: a picture has one bright square in noise, and every token must tell how far away the square's
centre is. The encoder trains once on stock code and twice on libmsda.torch.from_module(), from the same weights on
the same pictures. The two runs on libmsda end with the same bits in every parameter; stock and libmsda round
differently, so their losses part slowly.

    training.py [--quick] [--out DIR]
"""

import contextlib
import time

import torch
import tqdm
import transformers
from common import BLUE, ORANGE, arguments, plt, save
from torch import nn
from transformers.models.deformable_detr.modeling_deformable_detr import DeformableDetrEncoder

import libmsda.torch

SIZE, WIDTH, BATCH = 64, 32, 8
STRIDES = (4, 8, 16, 32)
LEVELS = [(SIZE // stride, SIZE // stride) for stride in STRIDES]


class Finder(nn.Module):
    """Says for every token how far, in x and y, the square's centre is from it."""

    def __init__(self):
        super().__init__()
        config = transformers.DeformableDetrConfig(
            d_model=WIDTH, encoder_layers=2, encoder_ffn_dim=2 * WIDTH, encoder_attention_heads=4, dropout=0.0
        )
        self.embed = nn.Linear(1, WIDTH)
        self.encoder = DeformableDetrEncoder(config)
        self.answer = nn.Linear(WIDTH, 2)
        shapes = torch.tensor(LEVELS)
        self.register_buffer("shapes", shapes)
        self.register_buffer("starts", shapes.prod(1).cumsum(0) - shapes.prod(1))
        self.register_buffer("places", centres())
        waves = self.places[:, None] * (2.0 ** torch.arange(WIDTH // 4))[:, None] * torch.pi
        self.register_buffer("position", torch.cat([waves.sin(), waves.cos()], 1).flatten(1))

    def forward(self, picture):
        levels = [nn.functional.avg_pool2d(picture[:, None], stride).flatten(2) for stride in STRIDES]
        tokens = self.embed(torch.cat(levels, 2).transpose(1, 2))
        found = self.encoder(
            inputs_embeds=tokens,
            attention_mask=torch.ones(tokens.shape[:2], dtype=torch.bool),
            spatial_position_embeddings=self.position.expand_as(tokens),
            spatial_shapes=self.shapes,
            spatial_shapes_list=LEVELS,
            level_start_index=self.starts,
            valid_ratios=torch.ones(len(picture), len(LEVELS), 2),
        )
        return self.answer(found.last_hidden_state)


def centres():
    """[S, 2]: x and y of every token, 0 to 1."""
    grids = [torch.stack(torch.meshgrid(*[(torch.arange(n) + 0.5) / n for n in hw], indexing="ij"), -1) for hw in LEVELS]
    return torch.cat([grid.flip(-1).flatten(0, 1) for grid in grids])


def pictures(make):
    """A batch, and where the squares' centres are."""
    picture = 0.3 * torch.randn(BATCH, SIZE, SIZE, generator=make)
    corner = torch.randint(0, SIZE - 12, (BATCH, 2), generator=make)
    for one, (x, y) in zip(picture, corner.tolist()):
        one[y : y + 12, x : x + 12] += 2
    return picture, (corner + 6) / SIZE


def train(name, steps, converted):
    """The losses, the parameters at the end, and the seconds."""
    torch.manual_seed(1)
    model, make = Finder(), torch.Generator().manual_seed(2)
    with torch.no_grad():  # new offsets are whole pixels, where the gradient jumps: which side is a matter of rounding
        for layer in model.encoder.layers:
            layer.self_attn.sampling_offsets.bias.add_(0.3 * torch.randn(layer.self_attn.sampling_offsets.bias.shape))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses, start = [], time.perf_counter()
    with libmsda.torch.from_module(model) if converted else contextlib.nullcontext():
        for _ in tqdm.trange(steps, desc=name):
            picture, centre = pictures(make)
            loss = (model(picture) - (centre[:, None] - model.places)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses, [parameter.detach() for parameter in model.parameters()], time.perf_counter() - start


def draw(stock, ours, text):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.semilogy(stock, color=BLUE, lw=4, alpha=0.5, label="stock")
    left.semilogy(ours, color=ORANGE, lw=1.3, label="libmsda, two runs: the same bits")
    left.set(xlabel="step", ylabel="mean squared distance error", title="loss")
    left.legend()
    apart = [abs(one - other) / one or float("nan") for one, other in zip(stock, ours)]
    right.semilogy(apart, ".-", color="black", lw=1, ms=4)
    right.set(xlabel="step", ylabel="relative difference (no dot: none)", title="rounding: stock beside libmsda")
    for axis in (left, right):
        axis.grid(alpha=0.3)
    figure.suptitle(text, fontsize=10)
    return figure


def main():
    given = arguments(__doc__)
    steps = 20 if given.quick else 200
    stock, _, stock_seconds = train("stock", steps, converted=False)
    ours, parameters, our_seconds = train("libmsda", steps, converted=True)
    again, parameters_again, _ = train("libmsda again", steps, converted=True)
    same = ours == again and all(torch.equal(one, other) for one, other in zip(parameters, parameters_again))
    apart = max(abs(one - other) / one for one, other in zip(stock[:10], ours[:10]))
    print(f"  stock: loss {stock[0]:.4f} to {stock[-1]:.4f} in {stock_seconds:.1f} s")
    print(f"  libmsda: loss {ours[0]:.4f} to {ours[-1]:.4f} in {our_seconds:.1f} s")
    print(f"  two runs on libmsda end with {'the same' if same else 'DIFFERENT'} bits")
    print(f"  the first 10 losses of stock and libmsda differ by {apart:.1e}")
    text = (
        f"A two-layer Deformable-DETR encoder of transformers learns where a square is, {steps} steps on the CPU:\n"
        f"stock {stock_seconds:.1f} s, libmsda.torch.from_module {our_seconds:.1f} s"
    )
    save(draw(stock, ours, text), given, "training.png")
    assert same and apart < 1e-4 and ours[-1] < ours[0]


if __name__ == "__main__":
    main()
