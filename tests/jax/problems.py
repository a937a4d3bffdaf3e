"""Small problems for the tests of libmsda.jax, and the C interface on the memory of JAX's arrays."""

import ctypes

import jax
import jax.numpy as jnp
import numpy as np

import libmsda.jax as ours
from conftest import ON_CUDA
from libmsda._core.handle import CPU, default_handle
from libmsda._core.plan import Plan, slots_of

LEVELS = ((6, 5), (3, 2))
DEVICES = ["cpu", "cuda"] if ON_CUDA else ["cpu"]
SAMPLED = ("value", "coord", "weight")
FUSED = ("value", "reference", "offset", "logit")

# The axes of inputs with grad_output, and of the output with gradients.
LETTERS = {False: ("bsmd", "bqmlpc", "bqmlp", "bqmd"), True: ("bsmd", "bqlr", "bqmlpc", "bqmlp", "bqmd")}
RESULTS = {False: ("bqmd", "bsmd", "bqmlpc", "bqmlp"), True: ("bqmd", "bsmd", "bqlr", "bqmlpc", "bqmlp")}


def arrays(fused=False, dtype="float32", batch=2, queries=7, heads=3, boxes=2, device="cpu"):
    """Inputs by name, and grad_output."""
    rng = np.random.default_rng(batch)
    rand = lambda *shape: rng.random(shape)
    points = rand(batch, queries, heads, 2, 4, 2)
    found = {"value": rand(batch, 36, heads, 4) - 0.5}
    if fused:
        found |= {"reference": rand(batch, queries, 2, boxes), "offset": points - 0.5}
        found["logit"] = rand(batch, queries, heads, 2, 4)
    else:
        found |= {"coord": points, "weight": rand(batch, queries, heads, 2, 4)}
    found["grad_output"] = rand(batch, queries, heads, 4) - 0.5
    return {name: put(array, dtype, device) for name, array in found.items()}


def put(array, dtype, device="cpu"):
    return jax.device_put(np.asarray(array).astype(jnp.dtype(dtype)), jax.local_devices(backend=device)[0])


def call(value, *rest, **settings):
    """libmsda.jax's function for these inputs."""
    function = ours.forward_fused if len(rest) == 3 else ours.forward
    return function(value, LEVELS, *rest, **settings)


def everything(inputs, grad_output, function=call):
    """The output and all gradients."""
    output, differentiate = jax.vjp(function, *inputs)
    return output, *differentiate(grad_output)


def split(given):
    """Inputs, and grad_output."""
    *inputs, grad_output = given.values()
    return inputs, grad_output


def bits(array):
    array = np.asarray(array)
    return array.view(f"u{array.dtype.itemsize}")


def assert_same_bits(found, wanted, context=""):
    assert found.dtype == wanted.dtype, context
    np.testing.assert_array_equal(bits(found).reshape(wanted.shape), bits(wanted), err_msg=str(context))


def by_c(problem, given, device="cpu", kernel=None, value_scale=None):
    """What msda_execute() writes for the inputs of a problem, as numpy arrays by name."""
    number = CPU if device == "cpu" else jax.local_devices(backend=device)[0].local_hardware_id
    plan = Plan(problem, kernel=kernel, handle=default_handle(1 if number == CPU else 0, number))
    results = {name: put(np.full(problem.shape(name), 7), problem.dtype(name), device) for name in problem.outputs}
    alignment = max(plan.info.workspace_alignment, 1)
    memory = put(np.zeros(plan.info.workspace_bytes + alignment), "uint8", device)
    used = {**given, **results, "workspace": memory}
    if value_scale is not None:
        used["value_scale"] = value_scale
    jax.block_until_ready(used)
    address = {name: array.unsafe_buffer_pointer() for name, array in used.items()}
    address["workspace"] += -address["workspace"] % alignment
    address["workspace_bytes"] = plan.info.workspace_bytes
    plan.run([address.get(name, 0) for name in slots_of(problem)])
    if number != CPU:
        wait(number)
    return {name: np.array(array) for name, array in results.items()}


def wait(number):
    """Waits for all that runs on a GPU: not all of it is on JAX's streams."""
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), number) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    assert driver.cuCtxSynchronize() == 0
    assert driver.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0
    assert driver.cuDevicePrimaryCtxRelease_v2(number) == 0
