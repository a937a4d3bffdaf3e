"""Seconds of the operator's node in ONNX Runtime on one thread of the CPU: by libmsda and by the function in the model.

    bench/onnx_models.py                   nodes of typical sizes
    bench/onnx_models.py MODEL...          exported models as they are, rewritten, and rewritten with libmsda's library

Times are seconds of a core of one call, the least of --rounds: other programs on the machine change them little.
"""

import argparse
import time

import libmsda.onnx
import numpy as np
import onnx
import onnxruntime
from libmsda.onnx import _function
from onnx import TensorProto, helper

# name, sizes of levels, queries, None: the pixels, with points near them as in an encoder, else points lie anywhere; 8 heads of
# 32 channels, 4 points
PROBLEMS = [
    ("RT-DETR's decoder, 640 x 640", [(80, 80), (40, 40), (20, 20)], 300),
    ("Mask2Former's encoder, 512 x 512", [(16, 16), (32, 32), (64, 64)], None),
    ("the same, points anywhere", [(16, 16), (32, 32), (64, 64)], 5376),
    ("Deformable-DETR's decoder, 800 x 1333", [(100, 167), (50, 84), (25, 42), (13, 21)], 300),
    ("its encoder", [(100, 167), (50, 84), (25, 42), (13, 21)], None),
]


def pixels(levels):
    """The middle of each pixel as (x, y) [Q, 2]."""
    grids = [np.meshgrid((np.arange(w) + 0.5) / w, (np.arange(h) + 0.5) / h) for h, w in levels]
    return np.concatenate([np.stack(grid, -1).reshape(-1, 2) for grid in grids])


def one_node(levels, given_queries):
    """The model, and its inputs."""
    rng = np.random.default_rng(0)
    queries = given_queries or sum(h * w for h, w in levels)
    tokens, count = sum(h * w for h, w in levels), len(levels)
    arrays = {"value": rng.standard_normal((1, tokens, 8, 32)), "coord": rng.random((1, queries, 8, count * 4, 2)),
              "weight": rng.random((1, queries, 8, count * 4))}
    if given_queries is None:
        arrays["coord"] = pixels(levels)[None, :, None, None] + rng.normal(0, 0.03, arrays["coord"].shape)
    inputs = [helper.make_tensor_value_info(key, TensorProto.FLOAT, one.shape) for key, one in arrays.items()]
    node = _function.node(_function.SAMPLED, ["value", "level_hw", "coord", "weight"], "output", [4] * count)
    output = helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, queries, 8, 32])
    graph = helper.make_graph([node], "bench", inputs, [output], [_function.integers("level_hw", levels)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _function.OPSET)], ir_version=8)
    _function.add_functions(model)
    return model, {key: one.astype(np.float32) for key, one in arrays.items()}


def seconds(model, inputs, with_library, rounds):
    """Of one call; None where the host cannot run the model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    if with_library:
        options.register_custom_ops_library(libmsda.onnx.ort_library())
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001
        print(f"  cannot run: {str(error).splitlines()[0][:160]}")
        return None
    session.run(None, inputs)
    times = []
    for _ in range(rounds):
        start = time.process_time()
        session.run(None, inputs)
        times.append(time.process_time() - start)
    return min(times)


def random_inputs(model):
    """Of a model whose inputs have fixed sizes: noise for floats, ones for integers."""
    rng = np.random.default_rng(0)
    made = {}
    for one in model.graph.input:
        tensor = one.type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        is_float = tensor.elem_type == TensorProto.FLOAT
        made[one.name] = rng.standard_normal(shape).astype(np.float32) if is_float else np.ones(shape, np.int64)
    return made


def show(*times):
    return " | ".join("-" if one is None else f"{1e3 * one:.2f}" for one in times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="exported models with inputs of fixed sizes")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    if not options.models:
        print("| node, ms | its function | libmsda | times as fast |\n|---|---|---|---|")
        for name, levels, queries in PROBLEMS:
            model, inputs = one_node(levels, queries)
            slow, fast = (seconds(model, inputs, with_library, options.rounds) for with_library in (False, True))
            print(f"| {name} | {show(slow, fast)} | {slow / fast:.1f} |", flush=True)
        return
    print("| model, ms | as exported | rewritten | with libmsda |\n|---|---|---|---|")
    for path in options.models:
        model = onnx.load(path)
        result, report = libmsda.onnx.rewrite(model)
        inputs = random_inputs(model)
        times = [seconds(one, inputs, own, options.rounds) for one, own in ((model, False), (result, False), (result, True))]
        print(f"| {path}, {len(report.replaced)} replaced | {show(*times)} |", flush=True)


if __name__ == "__main__":
    main()
