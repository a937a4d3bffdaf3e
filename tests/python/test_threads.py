"""Many threads: of the library in one call, of Python on one plan, and a process that forks."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import libmsda
from hang import HANG_SECONDS
from libmsda._core.cache import Cache


@pytest.fixture
def larger():
    rng = np.random.default_rng(8)
    return {
        "value": rng.standard_normal((2, 1280, 4, 32)).astype(np.float32),
        "level_hw": [(32, 32), (16, 16)],
        "coord": rng.uniform(-0.1, 1.1, (2, 333, 4, 8, 2)).astype(np.float32),
        "weight": rng.random((2, 333, 4, 8)).astype(np.float32),
    }


@pytest.mark.parametrize("kernel", ["ref.cpu@1", "simd.cpu.f32@2"])
def test_any_number_of_threads_gives_the_same_bits(larger, kernel):
    expected = libmsda.forward(**larger, kernel=kernel, threads=1)
    for threads in (2, 3, 7, 16, 0):
        assert np.array_equal(libmsda.forward(**larger, kernel=kernel, threads=threads), expected)


def test_gradients_of_any_number_of_threads(larger):
    grad_output = libmsda.forward(**larger)
    expected = libmsda.backward(**larger, grad_output=grad_output, threads=1)
    for threads in (2, 3, 16):
        found = libmsda.backward(**larger, grad_output=grad_output, threads=threads)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected))


@pytest.mark.parametrize("kernel", ["ref.cpu@1", "simd.cpu.f32@2"])
def test_a_query_does_not_know_its_neighbours(larger, kernel):
    """Any batch item and any queries, in any order: the same rows."""
    whole = libmsda.forward(**larger, kernel=kernel)
    order = np.random.default_rng(9).permutation(333)[:50]
    part = (
        larger
        | {n: larger[n][1:, order] for n in ("coord", "weight")}
        | {"value": larger["value"][1:]}
    )
    assert np.array_equal(libmsda.forward(**part, kernel=kernel), whole[1:, order])


def test_one_plan_on_many_threads(larger):
    problem = libmsda.Problem(
        level_hw=larger["level_hw"], points=4, batch=2, query_count=333, head_count=4, head_dim=32
    )
    plan = libmsda.Plan(problem, handle=libmsda.Handle(threads=3))
    inputs = [
        {
            n: larger[n] * np.float32(i + 1) if n == "weight" else larger[n]
            for n in ("value", "coord", "weight")
        }
        for i in range(8)
    ]
    expected = [plan.execute(**tensors)["output"] for tensors in inputs]

    def work(index):
        return all(
            np.array_equal(plan.execute(**inputs[index])["output"], expected[index])
            for _ in range(20)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_threads_that_make_an_entry_at_once_share_it():
    cache, threads = Cache(8), 8
    together = threading.Barrier(threads)

    def make():
        together.wait()  # nobody has added its own before all are here
        return object()

    def work(_):
        return [cache.find(key, make) for key in range(20)]

    with ThreadPoolExecutor(threads) as pool:
        every = list(pool.map(work, range(threads)))
    assert all(found == every[0] for found in every) and len(cache) <= 8


def test_errors_belong_to_their_thread(small):
    """Each thread gets the message of its own mistake."""

    def work(index):
        words = f"query_hw has {index} pixels"
        for _ in range(50):
            with pytest.raises(libmsda.InvalidArgumentError, match=words):
                libmsda.forward(**small, query_hw=[(1, index)])
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(100, 108)))


def test_the_interpreter_is_free_meanwhile(larger):
    """Python code runs on while a call is in the library."""
    problem = libmsda.Problem(
        level_hw=larger["level_hw"], points=4, batch=2, query_count=333, head_count=4, head_dim=32
    )
    plan = libmsda.Plan(problem, kernel="ref.cpu@1", handle=libmsda.Handle(threads=1))
    tensors = {n: larger[n] for n in ("value", "coord", "weight")}
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)

    counter = threading.Thread(target=count)
    counter.start()
    old = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nobody is made to hand over the interpreter
    try:
        before = counted[0]
        patience = time.process_time() + 10  # of a core, which a busy machine gives later
        while counted[0] == before and time.process_time() < patience:
            plan.execute(**tensors)
        during = counted[0] - before
    finally:
        sys.setswitchinterval(old)
        stop.set()
        counter.join()
    assert during > 0


FORKED = """
import os, sys
import numpy as np, libmsda
arguments = dict(value=np.ones((1, 6, 1, 4), np.float32), level_hw=[(2, 3)],
                 coord=np.full((1, 5, 1, 1, 2), 0.5, np.float32),
                 weight=np.ones((1, 5, 1, 1), np.float32))
expected = libmsda.forward(**arguments)
handle = libmsda.Handle(threads=2)
child = os.fork()
if child == 0:
    assert np.array_equal(libmsda.forward(**arguments), expected)
    try:
        libmsda.forward(**arguments, handle=handle)
    except libmsda.InvalidArgumentError as error:
        assert "fork" in str(error), error
        sys.exit(7)
    sys.exit("a handle of the parent's worked in the child")
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert np.array_equal(libmsda.forward(**arguments), expected)
assert np.array_equal(libmsda.forward(**arguments, handle=handle), expected)
sys.exit(0 if status == 7 else f"the child ended with {status}")
"""


def test_fork():
    """In a forked child the functions work, the parent's own handles say why they do not, and both
    processes end as they should."""
    result = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=HANG_SECONDS, env=os.environ
    )
    assert result.returncode == 0, result.stderr
