"""Tests of several processes. Each test has the device and the number of processes in its name."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
