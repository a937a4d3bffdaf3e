"""libmsda.jax.MSDeformAttn beside the same module written with gathers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from documentation import gaps
from flax import nnx
from test_loading import run

import libmsda
from libmsda.jax import MSDeformAttn
from problems import LEVELS, put

B, Q, C, HEADS, POINTS = 2, 7, 16, 4, 3
TOKENS = sum(h * w for h, w in LEVELS)


def bilinear(image, x, y):
    """[H,W,D] at pixel coordinates [Q,P], those outside counting as zero."""
    height, width, _ = image.shape
    x0, y0 = jnp.floor(x), jnp.floor(y)
    px, py = x0 + jnp.array([0, 0, 1, 1])[:, None, None], y0 + jnp.array([0, 1, 0, 1])[:, None, None]
    part = (1 - jnp.abs(x - px)) * (1 - jnp.abs(y - py))
    inside = (px >= 0) & (px < width) & (py >= 0) & (py < height)
    pixels = image[jnp.clip(py, 0, height - 1).astype(int), jnp.clip(px, 0, width - 1).astype(int)]
    return (jnp.where(inside, part, 0)[..., None] * pixels).sum(0)


def composed(module, query, reference, value, position, mask):
    """The module of equations 2 and 3 of Deformable DETR, level by level."""
    layer = lambda name, x: x @ getattr(module, name).kernel[...] + getattr(module, name).bias[...]
    values = jnp.where(mask[..., None], 0, layer("value_proj", value)).reshape(B, TOKENS, HEADS, -1)
    asked = query + position
    offset = layer("sampling_offsets", asked).reshape(B, Q, HEADS, 2, POINTS, 2)
    logit = layer("attention_weights", asked).reshape(B, Q, HEADS, 2 * POINTS)
    weight = jax.nn.softmax(logit).reshape(B, Q, HEADS, 2, POINTS)
    total, start = 0, 0
    for level, (height, width) in enumerate(LEVELS):
        images = values[:, start : start + height * width].reshape(B, height, width, HEADS, -1)
        start += height * width
        centre = reference[:, :, None, level, None]
        unit = jnp.array([1 / width, 1 / height]) if centre.shape[-1] == 2 else centre[..., 2:] / (2 * POINTS)
        place = (centre[..., :2] + offset[:, :, :, level] * unit) * jnp.array([width, height]) - 0.5
        sample = jax.vmap(jax.vmap(bilinear, (2, 1, 1), 1))  # of each head, of each picture
        total += (weight[:, :, :, level, :, None] * sample(images, place[..., 0], place[..., 1])).sum(3)
    return layer("output_proj", total.reshape(B, Q, C))


def inputs(boxes, dtype="float64"):
    rng = np.random.default_rng(5)
    query, position = rng.normal(size=(2, B, Q, C))
    value, reference = rng.normal(size=(B, TOKENS, C)), rng.random((B, Q, 2, boxes))
    return [put(x, dtype) for x in (query, reference, value, position)], rng.random((B, TOKENS)) < 0.2


def made(**settings):
    """A module whose parameters are random, all of them."""
    module = MSDeformAttn(C, HEADS, 2, POINTS, rngs=nnx.Rngs(3), **settings)
    graph, state = nnx.split(module)
    rng = np.random.default_rng(6)
    state = jax.tree.map(lambda x: x + put(rng.normal(size=x.shape) / 4, x.dtype), state)
    return nnx.merge(graph, state)


@pytest.mark.parametrize("boxes", [2, 4])
def test_outputs_and_gradients_are_those_of_gathers(boxes):
    module = made(param_dtype=jnp.float64)
    given, mask = inputs(boxes)

    def of(function):
        def loss(module, query, reference, value, position):
            return (function(module, query, reference, value, position) * jnp.arange(1.0, C + 1)).sum()

        return nnx.jit(nnx.value_and_grad(loss, argnums=(0, 1, 2, 3, 4)))(module, *given)

    call = lambda module, query, reference, value, position: module(
        query, reference, LEVELS, value, position=position, padding_mask=mask
    )
    found = jax.tree.leaves(of(call))
    wanted = jax.tree.leaves(of(lambda *x: composed(*x, mask)))
    assert len(found) == len(wanted) == 13
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)


def test_a_first_module_looks_around_its_reference():
    module = MSDeformAttn(C, HEADS, 2, POINTS, rngs=nnx.Rngs(3))
    offsets = np.asarray(module.sampling_offsets.bias[...]).reshape(HEADS, 2, POINTS, 2)
    direction = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])[:, None, None]
    np.testing.assert_allclose(offsets, np.broadcast_to(direction * np.arange(1, 4)[:, None], offsets.shape), atol=1e-6)
    assert not np.asarray(module.attention_weights.kernel[...]).any()


def test_16_bit_products_have_locations_of_float32():
    module = made(dtype=jnp.bfloat16)
    (query, reference, value, position), _ = inputs(2, "float32")
    found = jax.jit(lambda q, r, v, p: module(q, r, LEVELS, v, position=p))(query, reference, value, position)
    assert found.dtype == jnp.bfloat16
    precise = made()(query, reference, LEVELS, value, position=position)
    assert float(jnp.abs(found - precise).max()) < 0.05 * float(jnp.abs(precise).max())


def test_a_query_may_be_the_value():
    module, (_, _, value, _) = made(), inputs(2, "float32")[0]
    reference = put(np.random.default_rng(1).random((B, TOKENS, 1, 2)), "float32")
    np.testing.assert_array_equal(module(value, reference, LEVELS), module(value, reference, LEVELS, value))


def test_bad_calls_are_refused():
    module, ((query, reference, value, _), _) = made(), inputs(2, "float32")
    for given, words in [
        ((query[..., 1:], reference, LEVELS, value), r"query has shape \(2, 7, 15\): must be \[any, any, 16\]"),
        ((query, reference, LEVELS[:1], value), "level_hw has 1 levels: must have 2"),
        ((query, reference, LEVELS, value[:, 1:]), r"6 x 5 \+ 3 x 2 pixels, not 35"),
        ((query, reference[:, :3], LEVELS, value), "reference has shape"),
    ]:
        with pytest.raises(libmsda.InvalidArgumentError, match=words):
            module(*given)
    with pytest.raises(libmsda.InvalidArgumentError, match="embed_dim, head_count, level_count, point_count are 10, 4"):
        MSDeformAttn(10, 4, rngs=nnx.Rngs(0))


def test_flax_is_imported_for_the_module_alone():
    seen = "print('flax' in sys.modules)"
    status, text = run(f"import sys, libmsda.jax; {seen}; libmsda.jax.MSDeformAttn; {seen}")
    assert (status, text.split()) == (0, ["False", "True"])
    hidden = "import sys; sys.modules['flax'] = None; import libmsda.jax; libmsda.jax.MSDeformAttn"
    status, text = run(hidden)
    assert status == 1 and "libmsda.jax.MSDeformAttn needs flax, which is not there" in text


def test_help_says_all_that_a_caller_needs():
    assert gaps(MSDeformAttn) == gaps(MSDeformAttn.__call__) == []
