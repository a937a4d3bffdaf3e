#!/usr/bin/env python3
"""An unedited Deformable-DETR of transformers on a photograph, stock beside libmsda.

The weights are random, so the boxes mean nothing. They show that the model computes the same on libmsda: the
20 boxes with the highest scores are compared, drawn over one another, and timed. A run in which the attention
returns zeros shows that the boxes depend on it.

    boxes.py [--quick] [--out DIR] [--photo FILE]
"""

import time

import matplotlib.patches
import torch
import tqdm
import transformers
from common import BLUE, ORANGE, arguments, photograph, plt, randomize, save, show

import libmsda.compat
import libmsda.torch

COUNT = 20
SEED = 3  # of boxes that are not all in one place
SPREAD = dict(sampling_offsets=1.5, attention_weights=1.5, bbox_embed=1, class_embed=0.7)


def model_of(quick):
    backbone = transformers.ResNetConfig(
        embedding_size=16,
        hidden_sizes=[16, 32, 48, 64],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    layers, width = (2, 64) if quick else (3, 128)
    config = transformers.DeformableDetrConfig(
        backbone_config=backbone,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        with_box_refine=True,
        two_stage=True,
    )
    torch.manual_seed(SEED)
    model = transformers.DeformableDetrForObjectDetection(config).eval()
    randomize(model, SPREAD)
    return model


def best_boxes(model, pixels):
    """[COUNT, 4] boxes (left, top, right, bottom) in pixels, and their scores, the highest first."""
    with torch.inference_mode():
        output = model(pixel_values=pixels)
    scores, queries = output.logits[0].sigmoid().amax(-1).topk(COUNT)
    x, y, width, height = output.pred_boxes[0, queries].unbind(-1)
    size = torch.tensor(pixels.shape[:1:-1]).repeat(2)
    return torch.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], -1) * size, scores


def without_attention(model, pixels):
    hooks = [
        layer.register_forward_hook(lambda _layer, _inputs, output: torch.zeros_like(output))
        for name, layer in model.named_modules()
        if name.endswith(("encoder_attn.output_proj", "encoder.layers.0.self_attn.output_proj"))
    ]
    boxes, _ = best_boxes(model, pixels)
    for hook in hooks:
        hook.remove()
    return boxes


def draw(photo, stock, ours, text):
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 4.9), layout="constrained")
    for axis, title, drawn in zip(
        axes,
        ("stock", "libmsda", "libmsda (dashes) over stock (lines)"),
        ([(stock, BLUE, "-", 1.6)], [(ours, ORANGE, "-", 1.6)], [(stock, BLUE, "-", 3), (ours, ORANGE, (0, (3, 3)), 1.4)]),
    ):
        show(axis, photo, title)
        for boxes, colour, style, width in drawn:
            for left, top, right, bottom in boxes.tolist():
                axis.add_patch(
                    matplotlib.patches.Rectangle(
                        (left, top), right - left, bottom - top, fill=False, ec=colour, ls=style, lw=width
                    )
                )
    figure.suptitle(text, fontsize=10)
    return figure


def main():
    given = arguments(__doc__)
    photo = photograph(given, 256 if given.quick else 512).copy()  # torch wants memory that it may write
    pixels = (torch.from_numpy(photo).permute(2, 0, 1)[None] / 255 - 0.45) / 0.225
    model, rounds = model_of(given.quick), 1 if given.quick else 2
    sides = {"stock": None, "drop-in": libmsda.compat.transformers, "module": lambda: libmsda.torch.from_module(model)}
    found, seconds = {}, {name: [] for name in sides}
    for name, patched in tqdm.tqdm([*sides.items()] * rounds, desc="runs of the model"):
        patch = patched() if patched else None
        start = time.perf_counter()
        found[name] = best_boxes(model, pixels)
        seconds[name].append(time.perf_counter() - start)
        if patch:
            patch.undo()
        if name == "drop-in":
            report = patch.report()
    fastest = {name: min(times) for name, times in seconds.items()}
    boxes, scores = found["stock"]
    apart = max((found[name][0] - boxes).abs().max().item() for name in sides)
    moved = (without_attention(model, pixels) - boxes).abs().amax(-1)
    print(f"  drop-in: {report.calls} calls by libmsda, {report.fallbacks.total()} by stock code")
    print(f"  scores {scores[0]:.3f} to {scores[-1]:.3f}; edges differ by at most {apart:.1e} pixels")
    print(f"  with attention that returns zeros {(moved > 1).sum()} of {COUNT} boxes are others")
    print("  " + ", ".join(f"{name} {value:.2f} s" for name, value in fastest.items()))
    threads = "1 CPU thread" if torch.get_num_threads() == 1 else f"{torch.get_num_threads()} CPU threads"
    text = (
        f"Deformable-DETR of transformers with random weights: the {COUNT} highest-scoring boxes mean nothing, but are\n"
        f"the same to {apart:.4f} pixels. On {threads}: stock {fastest['stock']:.2f} s, "
        f"with libmsda.compat {fastest['drop-in']:.2f} s, with libmsda.torch.from_module {fastest['module']:.2f} s"
    )
    save(draw(photo, boxes, found["drop-in"][0], text), given, "boxes.png")
    calls = model.config.encoder_layers + model.config.decoder_layers
    assert report.calls == calls and not report.fallbacks, report
    assert apart < 0.01 and (moved > 1).sum() > COUNT // 2


if __name__ == "__main__":
    main()
