"""Tests of libmsda_jax.so on the two devices of a simulated GPU; no JAX is needed:

    cmake --preset simulated-python && cmake --build --preset simulated-python
    MSDA_LIBRARY=build/simulated-python/lib/libmsda.so python -m pytest tests/simulated_jax

They have a process of their own, for the handlers keep plans and devices until it ends (plugins/jax/README.md).
"""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
folders = ("golden", "support", "python", "simulated_python")
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in folders]
os.environ["MSDA_SIMT_LEAKS"] = "ignore"
