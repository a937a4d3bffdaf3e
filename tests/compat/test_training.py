"""Training ends in the same bits, also where two processes share the work."""

import pathlib
import subprocess
import sys

WORKER = pathlib.Path(__file__).with_name("ddp_worker.py")


def test_two_runs_of_two_processes_end_in_the_same_bits(tmp_path):
    command = [sys.executable, str(WORKER)]
    workers = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "meeting")], stdout=subprocess.PIPE, text=True) for rank in range(2)
    ]
    outputs = [worker.communicate()[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    digests = [line for output in outputs for line in output.splitlines() if line.startswith("digest ")]
    assert len(digests) == 4 and len(set(digests)) == 1, digests
