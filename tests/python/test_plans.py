"""Handle and Plan: what they say, what they keep alive, and plans as bytes."""

import dataclasses
import gc
import os
import time
import weakref

import numpy as np
import pytest

import libmsda
import oracle
from conftest import CPU_KERNELS, KERNELS

ENDLESS_MS = 1e12  # a budget that no clock uses up: tuning stops after some hundred runs


@pytest.fixture
def problem():
    return libmsda.Problem(
        level_hw=[(4, 6), (2, 3)], points=2, batch=2, query_count=7, head_count=3, head_dim=8
    )


@pytest.fixture
def tensors(small):
    return {name: small[name] for name in ("value", "coord", "weight")}


def test_problem_describes_its_tensors(problem):
    assert problem.token_count == 30 and problem.point_total == 4
    assert problem.inputs == ("value", "coord", "weight") and problem.outputs == ("output",)
    assert problem.shape("coord") == (2, 7, 3, 4, 2) and problem.dtype("coord") == "float32"
    assert problem == libmsda.Problem(
        level_hw=np.array([[4, 6], [2, 3]]),
        points=[2, 2],
        batch=2,
        query_count=7,
        head_count=np.int64(3),
        head_dim=8,
        value_dtype=np.float32,
    )
    assert len({problem, problem}) == 1
    fused = libmsda.Problem(
        level_hw=[(4, 6)],
        points=2,
        batch=2,
        query_count=7,
        head_count=3,
        head_dim=8,
        input_mode="fused",
        reference_dim=4,
        operation="backward",
        value_dtype="float64",
        value_border=True,
    )
    assert fused.token_count == 48 and fused.dtype("grad_reference") == "float64"
    assert fused.outputs == ("grad_value", "grad_reference", "grad_offset", "grad_logit")
    assert fused.shape("reference") == (2, 7, 1, 4)


def test_point_locality_is_a_hint(problem, tensors):
    expected = libmsda.Plan(problem).execute(**tensors)["output"]
    for locality in ("unknown", "local", "scattered"):
        told = dataclasses.replace(problem, point_locality=locality)
        c_problem, _keep = told.to_c()
        assert c_problem.point_locality == ("unknown", "local", "scattered").index(locality)
        assert (told == problem) == (locality == "unknown")
        plan = libmsda.Plan(told)
        assert np.array_equal(plan.execute(**tensors)["output"], expected)
        again = libmsda.Plan.deserialize(plan.serialize(), told)
        assert again.info == plan.info
    with pytest.raises(
        libmsda.InvalidArgumentError,
        match="point_locality is 'near': must be one of unknown, local, scattered",
    ):
        dataclasses.replace(problem, point_locality="near")


def test_execute_is_forward(problem, tensors, small):
    plan = libmsda.Plan(problem)
    expected = libmsda.forward(**small)
    assert np.array_equal(plan.execute(**tensors)["output"], expected)
    out = np.full_like(expected, np.nan)
    result = plan.execute(**tensors, output=out, workspace=plan.workspace())
    assert result["output"] is out and np.array_equal(out, expected)


def test_execute_backward(problem, tensors, small):
    backward = libmsda.Problem(
        level_hw=problem.level_hw,
        points=2,
        batch=2,
        query_count=7,
        head_count=3,
        head_dim=8,
        operation="backward",
    )
    plan = libmsda.Plan(backward)
    tensors["grad_output"] = grad_output = libmsda.forward(**small)
    expected = libmsda.backward(**small, grad_output=grad_output)
    found = plan.execute(**tensors)
    assert set(found) == {"grad_value", "grad_coord", "grad_weight"}
    own = np.full_like(small["weight"], np.nan)
    some = plan.execute(**tensors, grad_weight=own, grad_coord=True)
    assert set(some) == {"grad_weight", "grad_coord"} and some["grad_weight"] is own
    for name in ("value", "coord", "weight"):
        assert np.array_equal(found[f"grad_{name}"], getattr(expected, name))
    assert np.array_equal(own, expected.weight)


@pytest.mark.parametrize("kernel", ["ref.cpu@1", "simd.cpu.f32@2"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_attention_weights_are_there_for_who_asks(small, kernel, dtype):
    fused = libmsda.Problem(
        level_hw=small["level_hw"],
        points=2,
        batch=2,
        query_count=7,
        head_count=3,
        head_dim=8,
        input_mode="fused",
        reference_dim=2,
        weight_dtype=dtype,
    )
    assert fused.outputs == ("output",) and fused.extras == ("attention",)
    inputs = {
        "value": small["value"],
        "reference": np.full((2, 7, 2, 2), 0.4, np.float32),
        "offset": small["coord"],
        "logit": small["weight"].astype(dtype),
    }
    plan = libmsda.Plan(fused, kernel=kernel)
    without = plan.execute(**inputs)
    assert without.keys() == {"output"}
    found = plan.execute(**inputs, attention=True)
    assert found.keys() == {"output", "attention"}
    assert np.array_equal(found["output"], without["output"])
    power = np.exp(inputs["logit"].astype(np.float64))
    expected = power / power.sum(-1, keepdims=True)
    assert found["attention"].dtype == dtype
    assert np.allclose(found["attention"], expected, rtol=1e-3 if dtype == "float16" else 1e-6, atol=0)
    mine = np.zeros((2, 7, 3, 4), dtype)
    assert plan.execute(**inputs, attention=mine)["attention"] is mine
    assert np.array_equal(mine, found["attention"])
    other = "float32" if dtype == "float16" else "float16"
    for wrong, words in [
        (mine[:, :6], r"attention has shape \(2, 6, 3, 4\): must be \(2, 7, 3, 4\)"),
        (mine.astype(other), f"attention.dtype is {other}: must be {dtype}"),
        (mine.transpose(1, 0, 2, 3).copy().transpose(1, 0, 2, 3), "attention has element strides .*: must be packed"),
    ]:
        with pytest.raises(libmsda.InvalidArgumentError, match=words):
            plan.execute(**inputs, attention=wrong)
    assert np.array_equal(mine, found["attention"])
    with pytest.raises(libmsda.InvalidArgumentError, match="overlap"):
        plan.execute(**inputs | {"logit": mine}, attention=mine)


def test_execute_refuses(problem, tensors):
    plan = libmsda.Plan(problem)
    with pytest.raises(
        libmsda.InvalidArgumentError, match="weight is missing: this plan reads value, coord"
    ):
        plan.execute(value=tensors["value"], coord=tensors["coord"])
    with pytest.raises(
        libmsda.InvalidArgumentError, match="'logit' is no tensor of this plan: must be one"
    ):
        plan.execute(**tensors, logit=tensors["weight"])
    with pytest.raises(libmsda.InvalidArgumentError, match="value.dtype is float64: must be float32"):
        plan.execute(**tensors | {"value": tensors["value"].astype(np.float64)})


def test_plan_with_strides(problem, tensors, small):
    """A plan of rows with spare room takes such rows alone."""
    roomy = libmsda.Problem(
        level_hw=problem.level_hw,
        points=2,
        batch=2,
        query_count=7,
        head_count=3,
        head_dim=8,
        value_strides=(1500, 50, 10),
        output_strides=(400, 40, 10),
    )
    plan = libmsda.Plan(roomy)
    with pytest.raises(
        libmsda.InvalidArgumentError,
        match=r"value has element strides \(720, 24, 8, 1\): must be \(1500",
    ):
        plan.execute(**tensors)
    room = np.full((2, 30, 5, 10), np.nan, np.float32)
    room[:, :, :3, :8] = tensors["value"]
    output = plan.execute(**tensors | {"value": room[:, :, :3, :8]})["output"]
    assert output.strides == (1600, 160, 40, 4)
    assert np.array_equal(output, libmsda.forward(**small))


@pytest.mark.parametrize("kernel", ["ref.cpu@1", None])
@pytest.mark.parametrize("by_head", [False, True])
@pytest.mark.parametrize("reference_dim", [0, 2, 4])
def test_gradients_of_points_in_one_array(reference_dim, by_head, kernel):
    """Offsets and logits of one product: their gradients are parts of its gradient."""
    rng = np.random.default_rng(reference_dim)
    level_hw, B, Q, M, K = [(4, 6), (2, 3)], 2, 7, 3, 4
    whole = np.full((B, Q, M, 3 * K) if by_head else (B, Q, 3 * M * K), np.nan, np.float32)
    if by_head:
        points, weights = whole[..., : 2 * K].reshape(B, Q, M, K, 2), whole[..., 2 * K :]
    else:
        points = whole[..., : 2 * M * K].reshape(B, Q, M, K, 2)
        weights = whole[..., 2 * M * K :].reshape(B, Q, M, K)
    assert points.base is not None and np.shares_memory(points, whole) and np.shares_memory(weights, whole)
    fused = reference_dim > 0
    problem = libmsda.Problem(
        level_hw=level_hw,
        points=2,
        batch=B,
        query_count=Q,
        head_count=M,
        head_dim=8,
        operation="backward",
        input_mode="fused" if fused else "sampled",
        reference_dim=reference_dim,
        grad_coord_strides=tuple(s // 4 for s in points.strides[:3]),
        grad_weight_strides=tuple(s // 4 for s in weights.strides[:3]),
    )
    draw = lambda *shape: rng.uniform(0.1, 0.9, shape).astype(np.float32)
    tensors = {name: draw(*problem.shape(name)) for name in problem.inputs}
    names = ("grad_offset", "grad_logit") if fused else ("grad_coord", "grad_weight")
    plan = libmsda.Plan(problem, kernel=kernel)
    plan.execute(**tensors, **dict(zip(names, (points, weights))))
    assert np.isfinite(whole).all()
    inputs = [tensors[name] for name in problem.inputs]
    exact = (oracle.backward_fused if fused else oracle.backward)(inputs[0], level_hw, [2, 2], *inputs[1:])
    for wanted, found in zip(exact[-2:], (points, weights)):
        assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max()
    packed = dataclasses.replace(problem, grad_coord_strides=(0, 0, 0), grad_weight_strides=(0, 0, 0))
    for name, found in zip(names, (points, weights)):
        assert np.array_equal(libmsda.Plan(packed, kernel=kernel).execute(**tensors)[name], found)


def test_strides_of_gradients_that_are_refused(problem):
    refused = {
        (100, 0, 8): r"grad_coord_strides\[1\] is 0: must be at least 8, or grad_coord rows would overlap",
        (1000, 8, 8): r"grad_coord_strides\[2\] is 8: must be at least .*, or grad_coord rows would overlap",
        (-1, 8, 8): r"grad_coord_strides\[0\] is -1",
    }
    for strides, message in refused.items():
        with pytest.raises(libmsda.InvalidArgumentError, match=message):
            libmsda.Plan(dataclasses.replace(problem, operation="backward", grad_coord_strides=strides))


def test_workspace(small):
    """ref needs one: too small, unaligned and read-only ones are refused, a right one is used."""
    problem = libmsda.Problem(
        level_hw=[(4, 6), (2, 3)], points=2, batch=2, query_count=7, head_count=3, head_dim=8
    )
    plan = libmsda.Plan(problem, kernel="ref.cpu@1")
    tensors = {name: small[name] for name in ("value", "coord", "weight")}
    assert plan.info.workspace_bytes > 0
    right = plan.workspace()
    assert right.size == plan.info.workspace_bytes
    larger = np.zeros(right.size + 1024, np.uint8)
    offset = -larger.ctypes.data % plan.info.workspace_alignment
    expected = plan.execute(**tensors, workspace=right)["output"]
    for workspace, kind, words in [
        (right[:-1], libmsda.BufferTooSmallError, "workspace_bytes is .*must be at least"),
        (larger[offset + 8 :], libmsda.InvalidArgumentError, "must be aligned to 256 bytes"),
        (larger.view(np.int8), libmsda.InvalidArgumentError, "workspace.dtype is int8: must be uint8"),
        (larger[::2], libmsda.InvalidArgumentError, "must be one-dimensional and contiguous"),
    ]:
        out = np.full_like(expected, 7)
        with pytest.raises(kind, match=words):
            plan.execute(**tensors, output=out, workspace=workspace)
        assert (out == 7).all()
    assert np.array_equal(plan.execute(**tensors, workspace=right)["output"], expected)
    with pytest.raises(libmsda.UnsupportedError, match="ref.cpu@1"):
        libmsda.Plan(problem, kernel="ref.cpu@1", workspace_limit_bytes=1)


def test_kernels_and_explain(problem):
    assert "ref.cpu@1" in CPU_KERNELS and all(".sm" in k for k in set(KERNELS) - set(CPU_KERNELS))
    lines = libmsda.explain(problem).strip().splitlines()
    assert len(lines) == len(KERNELS)
    assert lines[0].split()[:2] == ["1", libmsda.Plan(problem).info.kernel_id]
    assert any(line.startswith("-  simd.cpu.f16@2  rejected: ") for line in lines)
    assert all("rejected: runs on a GPU" in line for line in lines if ".sm" in line)


def test_info(problem):
    info = libmsda.Plan(problem, kernel="ref.cpu@1").info
    assert info.kernel_id == "ref.cpu@1" and info.launch_count == 1
    assert info.is_deterministic is True and info.predicted_us > 0
    assert libmsda.__version__ in libmsda.build_info()


def test_serialize(problem, tensors):
    plan = libmsda.Plan(problem, kernel="ref.cpu@1")
    blob = plan.serialize()
    again = libmsda.Plan.deserialize(blob, problem)
    assert again.info == plan.info
    assert np.array_equal(again.execute(**tensors)["output"], plan.execute(**tensors)["output"])
    with pytest.raises(libmsda.InvalidArgumentError, match="damaged or cut short"):
        libmsda.Plan.deserialize(blob[:-1], problem)
    for position in range(0, len(blob), 7):
        damaged = bytearray(blob)
        damaged[position] ^= 0x40
        with pytest.raises(libmsda.InvalidArgumentError):
            libmsda.Plan.deserialize(bytes(damaged), problem)
    larger = libmsda.Problem(
        level_hw=[(4, 6), (2, 3)], points=2, batch=3, query_count=7, head_count=3, head_dim=8
    )
    with pytest.raises(libmsda.InvalidArgumentError, match="plan of another problem"):
        libmsda.Plan.deserialize(blob, larger)


def test_tune_gives_a_plan_and_a_record(problem, tensors, small):
    handle = libmsda.Handle(threads=2)
    assert handle.tuning_export() == "libmsda tuning records 3\n"
    out = np.full_like(libmsda.forward(**small), np.nan)
    plan = handle.tune(problem, **tensors, output=out, budget_ms=ENDLESS_MS)
    assert np.array_equal(out, plan.execute(**tensors)["output"])
    assert handle.plan(problem, tuned=True).info == plan.info
    title, record = handle.tuning_export().splitlines()
    assert f" kernel={plan.info.kernel_id} " in record and " threads=2 " in record
    # Without arrays to write into, and with a limit, which is a record of its own.
    handle.tune(problem, **tensors, workspace_limit_bytes=1 << 20, budget_ms=ENDLESS_MS)
    assert len(handle.tuning_export().splitlines()) == 3


def test_tuning_records_serve_another_handle(problem, tensors):
    first = libmsda.Handle(threads=1)
    first.tune(problem, **tensors, budget_ms=ENDLESS_MS)
    records = first.tuning_export().replace(" kernel=simd.cpu.f32@2 ", " kernel=ref.cpu@1 ")
    second = libmsda.Handle(threads=1)
    second.tuning_import(records)
    assert second.tuning_export() == records
    assert second.plan(problem, tuned=True).info.kernel_id == "ref.cpu@1"
    assert second.plan(problem).info.kernel_id == "simd.cpu.f32@2"
    larger = libmsda.Problem(
        level_hw=[(4, 6), (2, 3)], points=2, batch=3, query_count=7, head_count=3, head_dim=8
    )
    assert second.plan(larger, tuned=True).info.kernel_id == "simd.cpu.f32@2"


def test_tune_refuses(problem, tensors):
    handle = libmsda.Handle(threads=1)
    for budget_ms in (0, -1, float("nan"), float("inf"), "soon", None):
        with pytest.raises(libmsda.InvalidArgumentError, match="budget_ms is .*: must be a finite"):
            handle.tune(problem, **tensors, budget_ms=budget_ms)
    with pytest.raises(libmsda.InvalidArgumentError, match="weight is missing"):
        handle.tune(problem, value=tensors["value"], coord=tensors["coord"])
    with pytest.raises(libmsda.InvalidArgumentError, match="'logit' is no tensor of this plan"):
        handle.tune(problem, **tensors, logit=tensors["weight"])
    with pytest.raises(libmsda.InvalidArgumentError, match="tuned is True: kernel must be None"):
        libmsda.Plan(problem, tuned=True, kernel="ref.cpu@1")
    good = "libmsda tuning records 3\n"
    for text, kind, words in [
        ("", libmsda.InvalidArgumentError, "text_size is 0"),
        ("records", libmsda.InvalidArgumentError, "line 1: is cut off after 'records'"),
        (good + "version=\u00e9\n", libmsda.InvalidArgumentError, "line 2: byte 9 is 0xc3"),
        (good + "nonsense\n", libmsda.InvalidArgumentError, "line 2: has 'nonsense'"),
        (good.replace("3", "4"), libmsda.StalePlanError, "this library reads format 3"),
    ]:
        with pytest.raises(kind, match=words):
            handle.tuning_import(text)
    assert handle.tuning_export() == good


def test_log():
    lines = []
    handle = libmsda.Handle(
        threads=2, log=lambda level, message: lines.append((level, message)), log_level="info"
    )
    problem = libmsda.Problem(
        level_hw=[(4, 6)], points=2, batch=1, query_count=7, head_count=3, head_dim=8
    )
    handle.plan(problem, kernel="ref.cpu@1")
    assert ("info" in {level for level, _ in lines}) and any("ref.cpu@1" in m for _, m in lines)
    quiet = []
    libmsda.Handle(threads=1, log=lambda *line: quiet.append(line), log_level="error").plan(problem)
    assert quiet == []
    with pytest.raises(
        libmsda.InvalidArgumentError, match="log_level is 'loud': must be one of off, error"
    ):
        libmsda.Handle(log_level="loud")


def test_a_plan_outlives_its_handle(problem, tensors, small):
    messages = []
    handle = libmsda.Handle(threads=2, log=lambda *line: messages.append(line), log_level="trace")
    gone = weakref.ref(handle)
    plan = handle.plan(problem)
    del handle
    gc.collect()
    assert gone() is None
    seen = len(messages)
    assert np.array_equal(plan.execute(**tensors)["output"], libmsda.forward(**small))
    assert len(messages) >= seen


def test_handles_and_plans_are_freed(problem, tensors):
    """Threads of handles that nothing refers to end, and memory does not grow."""
    threads = lambda: len(os.listdir("/proc/self/task"))
    resident = lambda: int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def use(times):
        for _ in range(times):
            handle = libmsda.Handle(threads=3)
            handle.plan(problem).execute(**tensors)
        del handle
        gc.collect()

    use(50)
    threads_before, bytes_before = threads(), resident()
    use(300)
    # A thread that was joined may still be leaving: it needs a moment of a core, as this loop does.
    patience = time.process_time() + 5
    while threads() > threads_before and time.process_time() < patience:
        pass
    assert threads() <= threads_before
    assert resident() - bytes_before < 4 << 20
