"""The command msda-onnx, which is also python -m libmsda.onnx."""

import argparse
import pathlib
import sys
from collections.abc import Sequence

from . import ort_library, rewrite

_LARGEST = 2**31 - 2**20  # bytes of a file of protobuf


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="msda-onnx", description="Multi-scale deformable attention in ONNX models, by libmsda."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    change = commands.add_parser(
        "rewrite",
        help="put the operator's nodes into an exported model",
        description="Finds multi-scale deformable attention in a model (compositions of GridSample, nodes of NVIDIA's and "
        "mmdeploy's plugins), puts nodes of domain msda in its place and reports what was replaced and left. The result runs in "
        "every host: by libmsda where the host has its library, else by functions in the model. Exit status 1 if nothing was "
        "replaced.",
    )
    change.add_argument("model", type=pathlib.Path, help="the exported model, opset 16 or newer")
    change.add_argument("result", type=pathlib.Path, help="where the result is written")
    commands.add_parser(
        "library",
        help="print the path of the library that ONNX Runtime loads",
        description="Prints the path of libmsda_ort.so, for SessionOptions.register_custom_ops_library().",
    )
    options = parser.parse_args(arguments)
    try:
        if options.command == "library":
            print(ort_library())
            return 0
        return _rewrite_file(options.model, options.result)
    except (OSError, ValueError, ImportError) as error:
        print(f"msda-onnx {options.command}: error: {error}", file=sys.stderr)
        return 2


def _rewrite_file(source: pathlib.Path, target: pathlib.Path) -> int:
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise ImportError(f"{error}: install the package onnx") from None
    if not source.is_file():
        raise ValueError(f"{source} does not exist")
    try:
        model = onnx.load(source)
    except DecodeError:
        raise ValueError(f"{source} is no ONNX model") from None
    if not model.opset_import:
        raise ValueError(f"{source} is no ONNX model")
    result, report = rewrite(model)
    print(report)
    if not report.replaced:
        print(f"msda-onnx rewrite: nothing was replaced, {target} is not written", file=sys.stderr)
        return 1
    large = result.ByteSize() > _LARGEST
    onnx.save(result, target, save_as_external_data=large, location=f"{target.name}.data" if large else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
