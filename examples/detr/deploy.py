#!/usr/bin/env python3
"""An unedited RT-DETR of transformers as one ONNX file, which ONNX Runtime runs with libmsda's library and without.

The weights are random, so the boxes mean nothing. They show that all four ways of running the model compute the same: torch,
the file as torch exports it, and the rewritten file by the functions in it and by the library.

RT-DETR takes the queries with the highest scores, and rounding may swap two of them. So each of torch's boxes, with its scores,
is compared with the one of ONNX Runtime that is nearest to it. A run in which the operator returns zeros shows that the boxes
depend on it.

    deploy.py [--quick] [--out DIR] [--photo FILE]
"""

import time
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from common import arguments, photograph, standardize

import libmsda.onnx

SEED = 5


class Detector(torch.nn.Module):
    def __init__(self, quick):
        super().__init__()
        torch.manual_seed(SEED)
        width, layers, channels = (32, 2, [12, 16, 24]) if quick else (128, 3, [32, 64, 128])
        backbone = transformers.RTDetrResNetConfig(
            embedding_size=channels[0],
            hidden_sizes=[channels[0], *channels],
            depths=[1] * 4,
            layer_type="basic",
            out_features=["stage2", "stage3", "stage4"],
        )
        config = transformers.RTDetrConfig(
            backbone_config=backbone,
            encoder_in_channels=channels,
            encoder_hidden_dim=width,
            encoder_ffn_dim=width,
            d_model=width,
            decoder_in_channels=[width] * 3,
            decoder_layers=layers,
            decoder_ffn_dim=width,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            num_queries=30 if quick else 300,
            num_denoising=0,
        )
        self.model, self.layers = transformers.RTDetrForObjectDetection(config).eval(), layers

    def forward(self, pixels):
        found = self.model(pixels)
        return torch.cat([found.pred_boxes, found.logits], -1)[0]  # [queries, 4 + classes]


def without_operator(model):
    """The model with zeros in the place of the operator's outputs."""
    wrong = onnx.ModelProto()
    wrong.CopyFrom(model)
    wrong.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(0), "nothing"))
    for index, node in reversed([*enumerate(wrong.graph.node)]):
        if node.domain == "msda":
            name, node.output[0] = node.output[0], node.output[0] + "_right"
            wrong.graph.node.insert(index + 1, onnx.helper.make_node("Mul", [node.output[0], "nothing"], [name]))
    return wrong


def run(model, pixels, rounds, library=None):
    """The output, and the milliseconds of a core that a call takes at least."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if library:
        options.register_custom_ops_library(library)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    times = []
    for _ in range(rounds):
        start = time.process_time()
        (found,) = session.run(None, {"pixels": pixels})
        times.append(time.process_time() - start)
    return found, 1e3 * min(times)


def distance(found, expected):
    """From each row that is expected to the nearest that was found: the largest."""
    return max(np.abs(found - row).max(axis=1).min() for row in expected)


def main():
    given = arguments(__doc__)
    # Rounding grows from layer to layer: 6e-6 were seen in the small form, 1e-3 in the large one, where half of the rows are
    # within 2e-5.
    size, rounds, allowed = (128, 15, 1e-3) if given.quick else (640, 5, 1e-2)
    photo = photograph(given, size)[:size]
    pixels = np.zeros((1, 3, size, size), np.float32)
    pixels[0, :, : photo.shape[0]] = photo.transpose(2, 0, 1) / 255
    detector, file = Detector(given.quick), given.out / "rt_detr.onnx"
    standardize(detector, torch.from_numpy(pixels))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter
        expected = detector(torch.from_numpy(pixels)).numpy()
        tensors = (torch.from_numpy(pixels),)
        torch.onnx.export(detector, tensors, file, input_names=["pixels"], opset_version=17, dynamo=False)

    exported = onnx.load(file)
    model, report = libmsda.onnx.rewrite(exported)
    onnx.save(model, file)
    print(report)

    library = libmsda.onnx.ort_library()
    for name, which, chosen in (
        ("as exported", exported, None),
        ("rewritten, functions", model, None),
        ("rewritten, libmsda", model, library),
    ):
        found, milliseconds = run(which, pixels, rounds, chosen)
        apart, count = distance(found, expected), len(which.graph.node)
        print(f"  {name:<20} {count:5} nodes {milliseconds:8.1f} ms, at most {apart:.1e} from torch")
        assert apart < allowed, name
    moved = distance(run(without_operator(model), pixels, 1, library)[0], expected)
    print(f"  with an operator that returns zeros boxes and scores move by up to {moved:.2f}")
    assert len(report.replaced) == detector.layers and not report.left and moved > 30 * allowed


if __name__ == "__main__":
    main()
