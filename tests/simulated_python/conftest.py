"""Tests of the Python package on the two devices of a simulated GPU, which MSDA_LIBRARY's libmsda was built for:

    cmake --preset simulated-python && cmake --build --preset simulated-python
    MSDA_LIBRARY=build/simulated-python/lib/libmsda.so python -m pytest tests/simulated_python
"""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("golden", "support", "python")]
os.environ.setdefault("MSDA_SIMT_LEAKS", "fail")

import libmsda  # noqa: E402

if "simulated on the CPU" not in libmsda.build_info():
    raise RuntimeError(f"MSDA_LIBRARY is {libmsda.library_path}: must be a library of simulated devices")
