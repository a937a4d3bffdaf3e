"""libmsda on two devices, by arrays that only DLPack or `__cuda_array_interface__` describes."""

import os
import subprocess
import sys

import numpy as np
import pytest

import libmsda
import oracle
from device_arrays import DEVICES, KINDS, OfDlpack, OfInterface, Stream
from hang import HANG_SECONDS
from numeric_cases import assert_close

LEVELS, POINTS = [(3, 4), (2, 2)], [2, 2]
SIZES = dict(batch=2, query_count=5, head_count=2, head_dim=8)
FUSED = {False: ("value", "coord", "weight"), True: ("value", "reference", "offset", "logit")}


def numbers(fused=False, seed=1):
    """Arrays of the host by name, and the output and its gradients in float64."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.uniform(-0.2, 1.2, shape).astype(np.float32)
    found = {"value": draw(2, 16, 2, 8), "coord": draw(2, 5, 2, 4, 2), "weight": draw(2, 5, 2, 4)}
    if fused:
        found = {"value": found["value"], "reference": draw(2, 5, 2, 2), "offset": found["coord"], "logit": found["weight"]}
    return found


def exact(given, grad_output=None):
    value, *rest = given.values()
    name = "forward" if grad_output is None else "backward"
    function = getattr(oracle, name + "_fused" * ("logit" in given))
    return function(value, LEVELS, POINTS, *rest, *([] if grad_output is None else [grad_output]))


def assert_forward(given, output):
    value, *rest = given.values()
    if "logit" in given:
        rest = oracle.fused_inputs(LEVELS, POINTS, *rest)
    bound = oracle.float32_bound(value, LEVELS, POINTS, *rest)
    assert_close("output", output, exact(given), bound)


def on(kind, device, given):
    return {name: kind(array, device) for name, array in given.items()}


def empty(kind, device, shape):
    return kind(np.full(shape, np.nan, np.float32), device)


def call(arrays, out, **options):
    value, *rest = arrays.values()
    function = libmsda.forward_fused if "logit" in arrays else libmsda.forward
    return function(value, LEVELS, *rest, out=out, **options)


@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_forward(kind, device, fused):
    given = numbers(fused)
    out = empty(kind, device, (2, 5, 2, 8))
    assert call(on(kind, device, given), out) is out
    assert_forward(given, out.numpy())


@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_backward_by_a_plan(kind, device, fused):
    given = numbers(fused) | {"grad_output": np.ones((2, 5, 2, 8), np.float32)}
    mode = dict(input_mode="fused", reference_dim=2) if fused else {}
    problem = libmsda.Problem(level_hw=LEVELS, points=2, operation="backward", **SIZES, **mode)
    plan = libmsda.Plan(problem, handle=libmsda.default_handle(device=device))
    outputs = {name: empty(kind, device, problem.shape(name)) for name in problem.outputs}
    with pytest.raises(libmsda.InvalidArgumentError, match=f"the plan runs on CUDA device {device}"):
        plan.workspace()
    size = plan.info.workspace_bytes
    workspace = kind(np.zeros(size + plan.info.workspace_alignment, np.uint8), device)
    done = plan.execute(**on(kind, device, given), **outputs, workspace=workspace)
    assert done == outputs
    grad_output = given.pop("grad_output")
    for name, wanted in zip(problem.outputs, exact(given, grad_output)):
        np.testing.assert_allclose(outputs[name].numpy(), wanted, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("by_head", [False, True])
@pytest.mark.parametrize("fused", FUSED)
def test_gradients_of_points_in_one_array(fused, by_head):
    given = numbers(fused)
    names, mode = ("grad_coord", "grad_weight"), {}
    if fused:
        names, mode = ("grad_offset", "grad_logit"), dict(input_mode="fused", reference_dim=2)
    whole = OfInterface(np.full((2, 5, 2, 12) if by_head else (2, 5, 24), np.nan, np.float32), 1)
    parts = [whole.host[..., :8], whole.host[..., 8:]] if by_head else [whole.host[..., :16], whole.host[..., 16:]]
    parts = [parts[0].reshape(2, 5, 2, 4, 2), parts[1].reshape(2, 5, 2, 4)]
    strides = {
        "grad_coord_strides": tuple(step // 4 for step in parts[0].strides[:3]),
        "grad_weight_strides": tuple(step // 4 for step in parts[1].strides[:3]),
    }
    packed, plan = [
        libmsda.Plan(
            libmsda.Problem(level_hw=LEVELS, points=2, operation="backward", **SIZES, **mode, **strided),
            handle=libmsda.default_handle(device=1),
        )
        for strided in ({}, strides)
    ]
    assert plan.info.kernel_id == packed.info.kernel_id
    inputs = on(OfInterface, 1, given | {"grad_output": np.ones((2, 5, 2, 8), np.float32)})
    outputs = {name: whole.part(part) for name, part in zip(names, parts)}
    workspace = OfInterface(np.zeros(plan.info.workspace_bytes + plan.info.workspace_alignment, np.uint8), 1)
    plan.execute(**inputs, **outputs, workspace=workspace)
    wanted = exact(given, np.ones((2, 5, 2, 8), np.float32))
    for name, found in zip(names, wanted[-2:]):
        np.testing.assert_allclose(outputs[name].numpy(), found, rtol=1e-5, atol=1e-5, err_msg=name)
    assert np.isfinite(whole.numpy()).all()


@pytest.mark.parametrize("kind", KINDS)
def test_strides_are_read_where_they_lie(kind):
    given = numbers()
    room = np.full((3, 2, 16, 8), np.nan, np.float32)
    value = room[1:].swapaxes(1, 2)
    value[...] = given["value"]
    given["value"] = value
    out = empty(kind, 1, (2, 5, 2, 8))
    call(on(kind, 1, given), out)
    assert_forward(given, out.numpy())
    spread = on(kind, 1, given | {"coord": np.repeat(given["coord"], 2, -1)[..., ::2]})
    with pytest.raises(libmsda.InvalidArgumentError, match="inner axes must be packed"):
        call(spread, out)


def test_calls_in_turns_on_both_devices_have_their_plans():
    outputs = []
    for seed in range(3):
        for device in DEVICES:
            given = numbers(seed=seed)
            out = empty(OfDlpack, device, (2, 5, 2, 8))
            call(on(OfDlpack, device, given), out)
            outputs.append((given, out))
    for given, out in outputs:
        assert_forward(given, out.numpy())
    handles = [libmsda.default_handle(device=device) for device in DEVICES]
    assert handles[0] is not handles[1] and [handle.device for handle in handles] == [0, 1]
    planned = [{id(plan) for plan in handle.plans._young.values()} for handle in handles]
    assert planned[0] and planned[1] and not planned[0] & planned[1]


@pytest.mark.parametrize("kind", KINDS)
def test_devices_are_not_mixed(kind):
    given = numbers()
    for name in ("coord", "weight"):
        arrays = on(kind, 0, given) | {name: kind(given[name], 1)}
        words = f"{name} is on CUDA device 1: must be on CUDA device 0, where value is"
        with pytest.raises(libmsda.InvalidArgumentError, match=words):
            call(arrays, empty(kind, 0, (2, 5, 2, 8)))
    arrays = on(kind, 0, given)
    with pytest.raises(libmsda.InvalidArgumentError, match="out is on CUDA device 1: must be on CUDA device 0"):
        call(arrays, empty(kind, 1, (2, 5, 2, 8)))
    with pytest.raises(libmsda.InvalidArgumentError, match="value is on CUDA device 0: must be on CUDA device 1"):
        call(arrays, empty(kind, 0, (2, 5, 2, 8)), handle=libmsda.default_handle(device=1))
    with pytest.raises(libmsda.InvalidArgumentError, match="coord is on the CPU: must be on CUDA device 0"):
        call(arrays | {"coord": given["coord"]}, empty(kind, 0, (2, 5, 2, 8)))
    with pytest.raises(libmsda.InvalidArgumentError, match=rf"coord is .*{kind.__name__}: must be a numpy"):
        libmsda.forward(given["value"], LEVELS, arrays["coord"], given["weight"])


def test_a_plan_of_a_device_refuses_arrays_of_the_host_and_of_the_other():
    given, shape = numbers(), (2, 5, 2, 8)
    plan = libmsda.Plan(libmsda.Problem(level_hw=LEVELS, points=2, **SIZES), handle=libmsda.default_handle(device=1))
    with pytest.raises(libmsda.InvalidArgumentError, match="value is on the CPU: must be on CUDA device 1"):
        plan.execute(**given, output=np.zeros(shape, np.float32))
    arrays = on(OfDlpack, 1, given)
    for change, words in [
        ({"output": empty(OfDlpack, 0, shape)}, "output is on CUDA device 0: must be on CUDA device 1"),
        ({"workspace": OfDlpack(np.zeros(8, np.uint8), 0)}, "workspace is on CUDA device 0"),
        ({"workspace": np.zeros(8, np.uint8)}, "workspace is on the CPU"),
    ]:
        with pytest.raises(libmsda.InvalidArgumentError, match=words):
            plan.execute(**arrays, **{"output": empty(OfDlpack, 1, shape)} | change)


def test_a_package_is_asked_to_order_its_work_before_the_default_stream():
    arrays = on(OfDlpack, 1, numbers())
    call(arrays, empty(OfDlpack, 1, (2, 5, 2, 8)))
    assert all(set(array.streams) == {1} for array in arrays.values())


def test_what_writes_on_the_stream_of_an_interface_is_waited_for():
    given = numbers()
    arrays = on(OfInterface, 1, given)
    stream = Stream(1)
    arrays["value"].stream = stream.number
    given["value"][...] = numbers(seed=2)["value"]
    out = empty(OfInterface, 1, (2, 5, 2, 8))
    arrays["value"].write(stream.number)
    call(arrays, out)
    assert_forward(given, out.numpy())


def test_interfaces_that_are_wrong():
    given, shape = numbers(), (2, 5, 2, 8)
    arrays, out = on(OfInterface, 0, given), empty(OfInterface, 0, shape)
    with pytest.raises(libmsda.InvalidArgumentError, match="out is read-only"):
        call(arrays, OfInterface(np.zeros(shape, np.float32), 0, read_only=True))
    lost = OfInterface(given["coord"], 0)
    lost.address = given["coord"].ctypes.data
    with pytest.raises(libmsda.InvalidArgumentError, match=r"coord has .* cuPointerGetAttribute\(\) returned"):
        call(arrays | {"coord": lost}, out)
    with pytest.raises(libmsda.InvalidArgumentError, match="weight.dtype is '<i8'"):
        call(arrays | {"weight": OfInterface(given["weight"].astype(np.int64), 0)}, out)


def test_explain_of_a_call_on_a_device():
    arrays = on(OfDlpack, 1, numbers())
    text = libmsda.explain(libmsda.forward, arrays["value"], LEVELS, arrays["coord"], arrays["weight"])
    assert text.split()[1].startswith("direct.sm75.f32") and "simd.cpu" in text


FORKED = """
import os, sys
sys.path[:0] = {paths}
import numpy as np, libmsda
from test_devices import OfDlpack, assert_forward, call, empty, numbers, on
given = numbers()
arrays, out = on(OfDlpack, 1, given), empty(OfDlpack, 1, (2, 5, 2, 8))
call(arrays, out)
host = libmsda.forward(given["value"], [(3, 4), (2, 2)], given["coord"], given["weight"])
handle = libmsda.default_handle(device=1)
assert len(handle.plans) == 1
child = os.fork()
if child == 0:
    again = libmsda.forward(given["value"], [(3, 4), (2, 2)], given["coord"], given["weight"])
    assert np.array_equal(again, host) and not len(handle.plans) and not len(handle.calls)
    assert libmsda.default_handle(device=1) is not handle  # CUDA itself refuses to work in a child
    os._exit(7)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
call(arrays, out)
assert_forward(given, out.numpy())
sys.exit(0 if status == 7 else f"the child ended with {{status}}")
"""


def test_fork():
    """A forked child finds no plan of its parent's, computes on the CPU, and the parent goes on."""
    code = FORKED.format(paths=sys.path)
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_SECONDS, env=os.environ
    )
    assert result.returncode == 0, result.stderr
