"""Exports torch modules that call libmsda's operators."""

import functools
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import onnxscript
import torch
from onnx import defs

from .. import torch as _libmsda_torch  # makes torch.ops.msda  # noqa: F401
from .._core.errors import UnsupportedError
from . import _function

_NODES = {"forward": _function.SAMPLED, "forward_fused": _function.FUSED}


@functools.cache
def _register_schema(name: str) -> None:
    """Tells onnx of the node, which the exporter writes by its schema."""
    floats = ["tensor(float)", "tensor(float16)", "tensor(bfloat16)", "tensor(double)"]
    types = {"value": "V", "level_hw": "I", "reference": "C", "offset": "C", "coord": "C", "weight": "W", "logit": "W"}
    parameter, attribute = defs.OpSchema.FormalParameter, defs.OpSchema.Attribute
    texts = ("math_mode", "point_locality", "sampling_mode", "plugin_version", "plugin_namespace")
    defs.register_schema(
        defs.OpSchema(
            name,
            _function.DOMAIN,
            1,
            inputs=[parameter(one, types[one]) for one in _function.INPUTS[name]],
            outputs=[parameter("output", "V")],
            type_constraints=[
                ("V", floats, "values"),
                ("I", ["tensor(int32)", "tensor(int64)"], "sizes of levels"),
                ("C", floats, "coordinates"),
                ("W", floats, "weights"),
            ],
            attributes=[
                attribute("points", defs.OpSchema.AttrType.INTS, "points of each level", required=True),
                attribute("tensorrt_plugin_shape_input_indices", defs.OpSchema.AttrType.INTS, "", required=False),
                *(attribute(key, defs.OpSchema.AttrType.STRING, "", required=False) for key in texts),
            ],
        )
    )


def _writer(name: str) -> Callable[..., Any]:
    """What the exporter calls for each call of the operator."""
    _register_schema(name)
    node = getattr(onnxscript.values.Opset(_function.DOMAIN, 1), name)
    standard = onnxscript.values.Opset("", _function.OPSET)
    count = len(_function.INPUTS[name]) - 1

    def write(*given: Any, **settings: Any) -> Any:
        names = ("level_hw", "out_dtype", "value_scale", "points", "level_start_index", "value_border",
                 "query_hw", "point_locality", "math_mode", "kernel_id", "threads", "sampling_mode")  # fmt: skip
        tensors, settings = given[:count], dict(zip(names, given[count:])) | settings
        for key in ("out_dtype", "value_scale", "level_start_index", "value_border"):
            if settings.get(key):
                raise UnsupportedError(f"{key} is given: a node of ONNX has no {key}")
        levels = list(zip(*[iter(settings["level_hw"])] * 2))
        points = settings.get("points") or _points(tensors[-1].shape, len(levels))
        sizes = standard.Constant(value=_function.integers("level_hw", levels))
        options = {key: settings[key] for key in ("point_locality", "math_mode") if settings.get(key)}
        if settings.get("sampling_mode", "bilinear") != "bilinear":
            options["sampling_mode"] = settings["sampling_mode"]
        return node(tensors[0], sizes, *tensors[1:], points=list(points), plugin_version="1",
                    plugin_namespace=_function.DOMAIN, tensorrt_plugin_shape_input_indices=[1], **options)  # fmt: skip

    return write


def _points(shape: Sequence[Any], level_count: int) -> list[int]:
    total = math.prod(int(size) for size in shape[3:])
    return [total // level_count] * level_count


def export_module(
    module: Any, args: tuple[Any, ...], path: str | pathlib.Path | None, options: dict[str, Any]
) -> onnx.ModelProto:
    table = {getattr(torch.ops.msda, key).default: _writer(name) for key, name in _NODES.items()}
    options = {"opset_version": _function.OPSET, "verbose": False} | options
    program = torch.onnx.export(module, args, dynamo=True, custom_translation_table=table, **options)
    model = program.model_proto
    _function.add_functions(model)
    if path is not None:
        large = model.ByteSize() > 2**31 - 2**20  # more than a file of protobuf holds
        onnx.save(model, path, save_as_external_data=large)
    return model


