#!/usr/bin/env python3
"""What training on many GPUs sends, beside what one GPU computes: the tables of docs/scaling.md.

    bench/scaling.py

Bytes are counted, times of the operator are those of bench/baselines (float16 values, one H200), and times of sending
are bytes by the rates below. Prints Markdown.
"""

import csv
import pathlib

BASELINES = pathlib.Path(__file__).parent / "baselines"
COUNTS = (8, 64, 512)
# Bytes a second that a GPU sends: two thirds of NVLink 4 within a host of 8, four fifths of 400 Gbit/s between hosts.
RATE = {8: 300e9, 64: 40e9, 512: 40e9}
CHANNELS = 256
MODELS = {  # parameters; milliseconds of a step on one GPU, or None: not measured
    "Deformable-DETR": (40e6, 78.2),
    "BEVFormer-base": (69e6, None),
}
# Encoder layers: how many, tokens of value, and the workload of each call.
LAYERS = {
    "Deformable-DETR": (6, 2 * 22223, ("enc-local",)),
    "BEVFormer-base": (6, 6 * 30825, ("bevformer-cross", "bevformer-temporal")),
}
# BEVFormer's backward over its forward is taken from bev-local, the only measured one that resembles it.
LIKE = {"bevformer-cross": "bev-local", "bevformer-temporal": "bev-local"}


def times(name):
    """Microseconds of the plan by workload, float16 values, float32 locations."""
    with open(BASELINES / name) as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {
            row["workload"]: float(row["median_us"])
            for row in rows
            if (row["side"], row["value_dtype"], row["math_mode"], row["input_mode"]) == ("plan", "f16", "accurate", "sampled")
            and row.get("coord_dtype", "f32") == "f32"
            and row.get("cache", "flushed") == "flushed"
        }


FORWARD, BACKWARD = times("h200_peers.csv"), times("h200_backward_peers.csv")


def backward(workload):
    like = LIKE.get(workload, workload)
    return FORWARD[workload] * BACKWARD[like] / FORWARD[like]


def operator_ms(model):
    """Forward and backward of all encoder layers' operators on one GPU."""
    layers, _, workloads = LAYERS[model]
    return layers * sum(FORWARD[name] + backward(name) for name in workloads) / 1e3


def sent(model, way, count):
    """Bytes that a GPU sends in a step."""
    parameters, part = MODELS[model][0], (count - 1) / count
    if way == "DDP":  # all-reduce of float32 gradients
        return 2 * part * 4 * parameters
    if way == "FSDP2":  # float32 parameters gathered for forward and backward, gradients reduced and scattered
        return 3 * part * 4 * parameters
    layers, tokens, _ = LAYERS[model]  # 16-bit value gathered, float32 parts of its gradient reduced and scattered
    return layers * part * (2 + 4) * tokens * CHANNELS


def rows(way):
    for model, (_, step) in MODELS.items():
        for count in COUNTS:
            data = sent(model, way, count)
            ms = data / RATE[count] * 1e3
            computed = operator_ms(model)
            if way == "queries":
                against = f"{computed / count:.2f}"
            else:
                against = f"{step:.1f}" if step else f"more than {computed:.1f}"
            yield f"| {model} | {count} | {data / 1e6:,.0f} | {ms:.2f} | {against} |"


def main():
    for way, title in [("DDP", "a step, ms"), ("FSDP2", "a step, ms"), ("queries", "operators of the encoder, split, ms")]:
        print(f"\n| {way} | GPUs | MB sent by a GPU | ms of sending | {title} |\n|---|---|---|---|---|")
        print("\n".join(rows(way)))


if __name__ == "__main__":
    main()
