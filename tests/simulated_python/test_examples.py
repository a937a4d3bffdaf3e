"""The examples of a GPU's memory, streams and graphs, which check their own results."""

import pathlib
import subprocess

import libmsda
import pytest

BUILD = pathlib.Path(libmsda.library_path).parents[1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cuda_stream", "direct.sm75.f32.dany.pany@3: two streams and a graph have the same bits; at most"),
        ("cuda_stream_cpp", "direct.sm75.f32.dany.pany@3 and small.sm80.f32@5: output"),
    ],
)
def test_example(name, words):
    result = subprocess.run([BUILD / "bin" / f"example_{name}"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert words in result.stdout
