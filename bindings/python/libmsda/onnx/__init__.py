"""One ONNX file for every host: the operator as a node with a function for hosts that have no kernel.

    import libmsda.onnx
    model, report = libmsda.onnx.rewrite(onnx.load("rtdetr.onnx"))
    options.register_custom_ops_library(libmsda.onnx.ort_library())

rewrite        finds the operator in exported models, puts nodes of domain msda in its place, and says what it found
export         torch.onnx.export() of a module that calls libmsda.torch or is patched by libmsda.compat
ort_library    the path of the library that ONNX Runtime loads

The command msda-onnx rewrites files and says where the library is. rewrite needs the package onnx, export also torch and
onnxscript, ort_library none of them.
"""

import pathlib
from typing import TYPE_CHECKING, Any

from .._core import library
from ._report import Left, Replaced, Report

if TYPE_CHECKING:
    import onnx

__all__ = ["Left", "Replaced", "Report", "export", "ort_library", "rewrite"]


def ort_library() -> str:
    """The path of libmsda_ort.so, for SessionOptions.register_custom_ops_library(). Raises FileNotFoundError where the
    package or build that libmsda is loaded from has none."""
    paths = library.plugin_paths("libmsda_ort.so")
    for path in paths:
        if path.exists():
            return str(path)
    raise FileNotFoundError(
        f"{paths[0]} is not there: build libmsda with MSDA_BUILD_PLUGINS=ON, or install its wheel or Debian's libmsda-plugins"
    )


def rewrite(model: "onnx.ModelProto") -> "tuple[onnx.ModelProto, Report]":
    """A copy of the model with the operator's nodes, and a report of what was replaced and left.

    Found are the composition of GridSample that models of transformers, Ultralytics, rf-detr, D-FINE and mmcv are exported
    to, and the nodes of NVIDIA's and mmdeploy's plugins. Each becomes a node MSDeformAttn of domain msda, with a function of that
    name for hosts without libmsda. What looks like the operator but does not compute the same is left. Level sizes must be
    constants of the model.

    Raises ValueError for models of opsets before 16, which have no GridSample.
    """
    from ._rewrite import rewrite as run

    return run(model)


def export(module: Any, args: tuple[Any, ...] = (), path: str | pathlib.Path | None = None, **options: Any) -> "onnx.ModelProto":
    """torch.onnx.export(dynamo=True) for modules that call the operators of libmsda.torch.

    module, args, options    as torch.onnx.export() takes them; opset_version is 18 unless it is given.
    path                     where the model is written; None: nowhere.

    Each call becomes one node MSDeformAttn or MSDeformAttnFused, with a function for hosts without libmsda. Returns the
    model. Raises libmsda.UnsupportedError where a call uses what nodes do not have: float8 values, levels that
    do not follow one another, a border of values.
    """
    from ._export import export_module

    return export_module(module, args, path, options)
