"""Models of one node, and sessions that have the operator."""

import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

PLUGIN = Path(os.environ["MSDA_LIBRARY"]).with_name("libmsda_ort.so")

TYPES = {
    "float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16,
    "float64": TensorProto.DOUBLE, "float8_e4m3fn": TensorProto.FLOAT8E4M3FN, "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
}


def options(threads: int = 1) -> onnxruntime.SessionOptions:
    made = onnxruntime.SessionOptions()
    made.intra_op_num_threads = threads
    made.log_severity_level = 4
    made.register_custom_ops_library(str(PLUGIN))
    return made


def session(model: onnx.ModelProto, threads: int = 1) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model.SerializeToString(), options(threads), providers=["CPUExecutionProvider"])


def one_node(name: str, domain: str, arrays: dict[str, np.ndarray], output: str = "float32", shapes: bool = False,
             **attributes: object) -> onnx.ModelProto:
    """A model of one node, whose inputs have the types of the arrays. They come as float32 where numpy has no type for
    them, and so does the output: a cast in the model gives the same values."""
    inputs, nodes, feeds = [], [], []
    for key, array in arrays.items():
        type_name, shape = array.dtype.name, array.shape if shapes else [f"{key}{i}" for i in range(array.ndim)]
        given = type_name
        if type_name in ("bfloat16", "float8_e4m3fn"):
            given = "float32"
            nodes.append(helper.make_node("Cast", [key], [f"{key}_cast"], to=TYPES[type_name]))
        inputs.append(helper.make_tensor_value_info(key, TYPES[given], shape))
        feeds.append(key if given == type_name else f"{key}_cast")
    nodes.append(helper.make_node(name, feeds, ["result"], domain=domain, **attributes))
    seen = TYPES["float32" if output == "bfloat16" else output]
    nodes.append(helper.make_node("Cast", ["result"], ["output"], to=seen))
    graph = helper.make_graph(nodes, "one_node", inputs, [helper.make_tensor_value_info("output", seen, None)])
    opsets = [helper.make_opsetid("", 19)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def feeds(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    plain = ("bfloat16", "float8_e4m3fn")
    return {key: array.astype(np.float32) if array.dtype.name in plain else array for key, array in arrays.items()}


def run(name: str, domain: str, arrays: dict[str, np.ndarray], threads: int = 1, **keywords: object) -> np.ndarray:
    return session(one_node(name, domain, arrays, **keywords), threads).run(None, feeds(arrays))[0]
