"""libmsda.torch in 2 and 4 processes: DTensor, DDP and FSDP2 over gloo on the CPU, or with MSDA_TEST_DEVICE=cuda over NCCL
on as many GPUs as there are."""

import ast
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch
from hang import HANG_SECONDS

FOLDER = pathlib.Path(__file__).parent
EXAMPLE = FOLDER.parents[1] / "examples" / "distributed" / "train.py"
KIND = "cuda" if os.environ.get("MSDA_TEST_DEVICE") == "cuda" else "cpu"
COUNTS = [count for count in (2, 4) if KIND == "cpu" or count <= torch.cuda.device_count()]
CHECKS = [
    node.name
    for node in ast.parse((FOLDER / "worker.py").read_text()).body
    if isinstance(node, ast.FunctionDef) and re.match("dtensors_|gradients_|training_", node.name)
]
# Each process takes some seconds to import torch, so 4 of the CPU run what another number may change.
OF_FOUR = ["training_by_ddp_is_that_of_one_process", "training_by_fsdp2_is_that_of_one_process"]
CASES = [(count, name) for count in COUNTS for name in (OF_FOUR if KIND == "cpu" and count == 4 else CHECKS)]


def launch(count, script, *words):
    """What the processes print; a fault of one ends the others."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", str(script), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=HANG_SECONDS)


@functools.cache
def processes(count):
    """What the processes of all checks with this count print."""
    return launch(count, FOLDER / "worker.py", *[name for number, name in CASES if number == count])


@pytest.mark.parametrize(("count", "check"), CASES, ids=lambda one: f"{KIND}-{one}" if isinstance(one, int) else one)
def test_in_several_processes(count, check):
    done = processes(count)
    lines = [json.loads(line) for line in re.findall(r'\{"check"[^}]*\}', done.stdout)]
    ranks = sorted(line["rank"] for line in lines if line["check"] == check)
    assert ranks == [*range(count)], done.stdout + done.stderr


def losses(text):
    return [float(loss) for loss in re.findall(r"^step +\d+  loss (\S+)$", text, re.MULTILINE)]


@pytest.mark.parametrize("count", COUNTS[:1], ids=lambda count: f"{KIND}-{count}")
def test_the_example_is_the_same_script_for_one_process_and_several(count):
    words = ["--steps", "21", "--device", KIND]
    one = subprocess.run([sys.executable, str(EXAMPLE), *words], capture_output=True, text=True, timeout=HANG_SECONDS)
    wanted = losses(one.stdout)
    assert len(wanted) == 2 and wanted[1] < 0.7 * wanted[0], one.stdout + one.stderr
    done = launch(count, EXAMPLE, *words, "--shard")
    assert losses(done.stdout) == pytest.approx(wanted, rel=1e-3), done.stdout + done.stderr


def test_a_pytorch_with_other_names_inside_has_all_but_the_rules():
    code = """
import sys, torch, torch.distributed.tensor
sys.modules["torch.distributed.tensor._op_schema"] = None
import libmsda.torch
value, weight = torch.ones(1, 6, 1, 4), torch.ones(1, 2, 1, 1)
with torch.autocast("cpu"):
    print(*libmsda.torch.forward(value, ((2, 3),), torch.full((1, 2, 1, 1, 2), 0.5), weight).shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.stdout.split() == ["1", "2", "1", "4"], done.stderr
