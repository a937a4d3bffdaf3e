"""The tests of libmsda.jax run on 8 virtual devices of the CPU, and with MSDA_TEST_DEVICE=cuda on GPUs, too.

A machine with GPUs need not have flax, and those with one GPU do not collect tests of two: tools/check gpu counts a
skipped test as a failure."""

import importlib.util
import os
import pathlib
import sys

ON_CUDA = os.environ.get("MSDA_TEST_DEVICE") == "cuda"
flags = os.environ.get("XLA_FLAGS", "")
flags += " --xla_force_host_platform_device_count=8"
if ON_CUDA:
    flags += " --xla_gpu_graph_min_graph_size=1"  # every custom call that may be in a command buffer is
os.environ["XLA_FLAGS"] = flags
os.environ["JAX_PLATFORMS"] = "cuda,cpu" if ON_CUDA else "cpu"
os.environ["JAX_ENABLE_X64"] = "1"
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))

import jax  # noqa: E402

jax.config.update("jax_default_device", jax.devices("cpu")[0])
GPU_COUNT = len(jax.local_devices(backend="cuda")) if ON_CUDA else 0
collect_ignore = ["test_two_gpus.py"] if GPU_COUNT < 2 else []
if ON_CUDA and importlib.util.find_spec("flax") is None:
    collect_ignore.append("test_module.py")
