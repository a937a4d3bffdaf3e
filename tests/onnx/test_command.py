"""The command msda-onnx."""

import contextlib
import io
import subprocess
import sys

import numpy as np
import onnx
from libmsda.onnx.__main__ import main

import nodes


def run(*arguments):
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            status = main([str(one) for one in arguments])
        except SystemExit as end:
            status = end.code
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), error.getvalue())


def test_library():
    """Without the package onnx, as on a machine that serves."""
    code = "import sys; sys.modules['onnx'] = None; from libmsda.onnx.__main__ import main; sys.exit(main(['library']))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stdout.strip()) == (0, str(nodes.PLUGIN.resolve())), result.stderr


def test_rewrite(tmp_path):
    arrays = {"value": np.zeros((1, 6, 1, 4), "f4"), "shapes": np.array([(2, 3)]), "starts": np.array([0]),
              "coord": np.zeros((1, 2, 1, 1, 1, 2), "f4"), "weight": np.zeros((1, 2, 1, 1, 1), "f4")}
    model = nodes.one_node("MultiscaleDeformableAttnPlugin_TRT", "TRT", arrays, shapes=True)
    source, target = tmp_path / "model.onnx", tmp_path / "result.onnx"
    onnx.save(model, source)
    result = run("rewrite", source, target)  # sizes are an input, no constants
    assert result.returncode == 1 and "0 replaced, 1 left" in result.stdout and not target.exists()
    assert f"nothing was replaced, {target} is not written" in result.stderr
    for name in ("shapes", "starts"):
        model.graph.initializer.append(onnx.numpy_helper.from_array(arrays[name], name))
    onnx.save(model, source)
    result = run("rewrite", source, target)
    assert result.returncode == 0 and "1 replaced, 0 left" in result.stdout and "levels 2x3; points 1" in result.stdout
    assert [one.name for one in onnx.load(target).functions] == ["MSDeformAttn"]


def test_help_and_errors(tmp_path):
    text = run("--help").stdout
    assert "rewrite" in text and "library" in text and "Exit status 1" in run("rewrite", "--help").stdout
    result = run("rewrite", tmp_path / "none.onnx", tmp_path / "out.onnx")
    assert (result.returncode, result.stderr) == (2, f"msda-onnx rewrite: error: {tmp_path}/none.onnx does not exist\n")
    (tmp_path / "text.onnx").write_text("this is no model")
    result = run("rewrite", tmp_path / "text.onnx", tmp_path / "out.onnx")
    assert (result.returncode, result.stderr) == (2, f"msda-onnx rewrite: error: {tmp_path}/text.onnx is no ONNX model\n")
    assert run().returncode == 2
