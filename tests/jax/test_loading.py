"""libmsda_jax.so: where it is looked for, and what is said where it is not there."""

import os
import pathlib
import subprocess
import sys

import libmsda
from hang import HANG_SECONDS


def run(code, **environment):
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    return result.returncode, result.stdout + result.stderr


def test_a_missing_library_is_named_with_the_places_looked_in(tmp_path):
    status, text = run("import libmsda.jax", MSDA_JAX_LIBRARY=str(tmp_path / "none.so"))
    assert status == 1 and f"Tried {tmp_path}/none.so: cannot open shared object file" in text
    alone = tmp_path / "libmsda.so.0"
    alone.write_bytes(pathlib.Path(libmsda.library_path).read_bytes())
    status, text = run("import libmsda.jax", MSDA_LIBRARY=str(alone))
    assert status == 1 and f"Tried {tmp_path}/libmsda_jax.so: cannot open" in text
    assert "; libmsda_jax.so: cannot open" in text and "set MSDA_JAX_LIBRARY to its path" in text


def test_another_library_is_refused():
    status, text = run("import libmsda.jax", MSDA_JAX_LIBRARY=libmsda.library_path)
    assert status == 1 and f"{libmsda.library_path} is not libmsda_jax.so" in text
