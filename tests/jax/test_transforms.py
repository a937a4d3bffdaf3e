"""libmsda.jax within what JAX does with functions."""

import functools
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import libmsda
import libmsda.jax as ours
from problems import DEVICES, LEVELS, arrays, assert_same_bits, call, everything, put, split

CASES = pytest.mark.parametrize("fused", [False, True], ids=["sampled", "fused"])


@pytest.mark.parametrize("device", DEVICES)
@CASES
def test_jit_and_remat_have_the_bits_of_eager_calls(fused, device):
    inputs, grad_output = split(arrays(fused, device=device))
    wanted = everything(inputs, grad_output)
    for function in (call, jax.checkpoint(call), jax.jit(call)):
        compute = jax.jit(functools.partial(everything, function=function))
        for one, other in zip(compute(inputs, grad_output), wanted):
            assert_same_bits(one, other)
    with jax.disable_jit():
        assert_same_bits(call(*inputs), wanted[0])


@CASES
def test_levels_and_points_may_be_one_axis(fused):
    inputs, grad_output = split(arrays(fused))
    flat = [x.reshape(*x.shape[:3], 8, *x.shape[5:]) if x.ndim > 4 else x for x in inputs]
    for one, other in zip(everything(flat, grad_output), everything(inputs, grad_output)):
        assert_same_bits(np.asarray(one).reshape(other.shape), other)


@pytest.mark.parametrize("boxes", [2, 4])
def test_a_reference_of_all_levels_has_the_sum_of_gradients(boxes):
    (value, reference, offset, logit), grad_output = split(arrays(True, "float64", boxes=boxes))
    one = reference[:, :, :1]
    found = everything((value, one, offset, logit), grad_output)
    wanted = everything((value, jnp.repeat(one, 2, 2), offset, logit), grad_output)
    assert_same_bits(found[0], wanted[0])
    np.testing.assert_allclose(found[2], wanted[2].sum(2, keepdims=True), rtol=1e-13)


@pytest.mark.parametrize("device", DEVICES)
@CASES
def test_vmap_is_a_call_for_each(fused, device):
    given = [arrays(fused, batch=batch, device=device) for batch in (2, 3)]
    several = [jnp.stack([one[name], other[name][:2]], 1) for name in given[0] for one, other in [given]]
    several[1] = several[1][:, 0]  # the same for all
    axes = [1, None, *[1] * (len(several) - 2)]
    function = lambda *x: everything(x[:-1], x[-1])
    found = jax.jit(jax.vmap(function, axes, 2))(*several)
    for index in range(2):
        wanted = function(*[x if axis is None else x[:, index] for x, axis in zip(several, axes)])
        for one, other in zip(found, wanted):
            assert_same_bits(one[:, :, index], other)


def test_a_batch_of_vmap_has_one_call():
    inputs, _ = split(arrays())
    several = [jnp.stack([x] * 5) for x in inputs]
    text = jax.jit(jax.vmap(call)).lower(*several).as_text()
    assert text.count("custom_call @msda_cpu_forward") == 1 and "while" not in text


@CASES
def test_gradients_that_nobody_wants_are_not_computed(fused):
    inputs, _ = split(arrays(fused))
    loss = lambda *given: call(*given).sum()
    for index in range(len(inputs)):
        text = jax.jit(jax.grad(loss, index)).lower(*inputs).as_text()
        assert f"wanted = {1 << index} : i32" in text
    full = jax.grad(loss, tuple(range(len(inputs))))(*inputs)
    for index, wanted in enumerate(full):
        assert_same_bits(jax.grad(loss, index)(*inputs), wanted)


def test_gradients_of_gradients_are_refused():
    inputs, _ = split(arrays())
    loss = lambda value: (call(value, *inputs[1:]) ** 2).sum()
    twice = jax.grad(lambda value: jax.grad(loss)(value).sum())
    with pytest.raises(libmsda.UnsupportedError, match="gradients of gradients are not computed"):
        twice(inputs[0])


def test_a_scale_has_no_gradient_and_float8_values_one_of_float8():
    inputs, grad_output = split(arrays())
    value, scale = inputs[0].astype("float8_e4m3fn"), put(np.full(3, 0.5), "float32")
    function = lambda value, scale: call(value, *inputs[1:], value_scale=scale)
    output, differentiate = jax.vjp(lambda value: function(value, scale), value)
    assert output.dtype == jnp.float32
    assert differentiate(grad_output)[0].dtype == value.dtype
    with pytest.raises(libmsda.InvalidArgumentError, match="value_scale requires a gradient, which"):
        jax.grad(lambda scale: function(value, scale).sum())(scale)
    with pytest.raises(libmsda.UnsupportedError, match="value_scale differs along an axis of vmap"):
        jax.vmap(lambda scale: function(value, scale))(jnp.stack([scale, scale]))


def test_an_output_that_is_not_used_has_gradients_of_zero():
    inputs, _ = split(arrays())
    grads = jax.grad(lambda *given: (0 * call(*given)).sum(), (0, 1, 2))(*inputs)
    assert all((g == 0).all() for g in grads)


def test_finite_differences_of_the_fused_call():
    inputs, grad_output = split(arrays(True, "float64"))
    for index in range(4):
        direction, step = put(np.random.default_rng(7).normal(size=inputs[index].shape), "float64"), 1e-7
        ends = [[*inputs[:index], inputs[index] + h * direction, *inputs[index + 1 :]] for h in (step, -step)]
        difference = ((call(*ends[0]) - call(*ends[1])) * grad_output).sum() / (2 * step)
        gradient = (everything(inputs, grad_output)[1 + index] * direction).sum()
        np.testing.assert_allclose(gradient, difference, rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@CASES
def test_a_program_that_runs_again_reads_its_new_arrays(fused, device):
    """A GPU's is a command buffer, recorded in the first runs and replayed in the others (conftest.py)."""
    inputs, _ = split(arrays(fused, "float64", queries=36, device=device))

    def chain(value, *rest):
        for _ in range(4):
            value = value + call(value, *rest)
        return value

    program = jax.jit(lambda *given: everything(given, given[0], chain))
    for factor in (1, 2, -3, 0.5, 5):
        given = [inputs[0] * factor, *inputs[1:]]
        for one, other in zip(program(*given), everything(given, given[0], chain)):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-10, atol=1e-10)


def test_a_kernel_and_threads_may_be_asked_for():
    inputs, _ = split(arrays())
    found = call(*inputs, kernel="ref.cpu@1", threads=2)
    value, *rest = map(np.asarray, inputs)
    assert_same_bits(found, libmsda.forward(value, LEVELS, *rest, kernel="ref.cpu@1"))
    with pytest.raises(libmsda.InvalidArgumentError, match="kernel_id"):
        call(*inputs, kernel="nothing.cpu@1")
    half = [x.astype("float16") for x in inputs]
    with pytest.raises(libmsda.UnsupportedError, match="value_dtype"):
        call(*half, kernel="simd.cpu.f32@2")


def test_threads_that_compile_and_run_at_once():
    cases = [split(arrays(fused, batch=batch)) for fused in (False, True) for batch in (1, 2, 3)]
    wanted = [everything(*case) for case in cases]
    with ThreadPoolExecutor(6) as pool:
        found = [*pool.map(lambda case: jax.jit(everything)(*case), cases * 2)]
    for one, other in zip(found, wanted * 2):
        for x, y in zip(one, other):
            assert_same_bits(x, y)


def test_numpy_arrays_are_arrays_and_lists_are_not():
    inputs, _ = split(arrays())
    assert_same_bits(call(*map(np.asarray, inputs)), call(*inputs))
    with pytest.raises(libmsda.InvalidArgumentError, match="value is list"):
        ours.forward(inputs[0].tolist(), LEVELS, *inputs[1:])
