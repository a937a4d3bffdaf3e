"""Bad calls are refused where they are traced, by the name of the argument."""

import jax
import jax.numpy as jnp
import pytest

import libmsda
import libmsda.jax as ours
from problems import LEVELS, arrays


def sampled(**changed):
    given = {"level_hw": LEVELS, **arrays(), **changed}
    del given["grad_output"]
    return given


def fused(**changed):
    given = {"level_hw": LEVELS, **arrays(True), **changed}
    del given["grad_output"]
    return given


VALUE, COORD, WEIGHT, _ = arrays().values()
_, REFERENCE, OFFSET, LOGIT, _ = arrays(True).values()
FLOAT8 = jnp.dtype("float8_e4m3fn")
SCALE = jnp.ones(3, "float32")
WRONG = {
    "value of integers": (sampled(value=VALUE.astype(int)), "value.dtype is 'int64': must be one of"),
    "coord of integers": (sampled(coord=COORD.astype("int32")), "coord.dtype is 'int32': must be one of"),
    "weight of float8": (sampled(weight=WEIGHT.astype(FLOAT8)), "weight.dtype is 'float8_e4m3fn': must"),
    "value without batch": (sampled(value=VALUE[0]), r"value has shape \(36, 3, 4\): must be"),
    "value by heads": (sampled(value=VALUE.swapaxes(1, 2)), r"if it is \[B, M, S, D\]"),
    "a token too few": (sampled(value=VALUE[:, 1:]), r"6 x 5 \+ 3 x 2 pixels, not 35"),
    "coord of one level": (sampled(coord=COORD[:, :, :, :1]), "axis 3 must be the 2 levels"),
    "weight of fewer queries": (sampled(weight=WEIGHT[:, 1:]), "weight has shape"),
    "levels of odd length": (sampled(level_hw=[6, 5, 3]), r"level_hw is \[6, 5, 3\]: must be pairs"),
    "a negative level": (sampled(level_hw=[(-6, -5), (3, 2)]), r"level_hw\[0\]\[0\] is -6: must be 0"),
    "points of one level": (sampled(points=[4]), "points has 1 entries: must have one for each"),
    "a level past the end": (sampled(level_start_index=[0, 31]), r"level_start_index\[1\] is 31"),
    "queries of another grid": (sampled(query_hw=[(3, 3)]), "query_hw has 9 pixels in all: must be"),
    "output of integers": (sampled(out_dtype="int32"), "out_dtype is 'int32': must be one of"),
    "an unknown math mode": (sampled(math_mode="swift"), "math_mode is 'swift': must be one of"),
    "an unknown locality": (sampled(point_locality="far"), "point_locality is 'far': must be one"),
    "threads below 0": (sampled(threads=-1), "threads is -1: must be 0 to"),
    "a scale of float32": (sampled(value_scale=SCALE), "value_scale is given: must be None, as"),
    "a scale of 2 heads": (sampled(value=VALUE.astype(FLOAT8), value_scale=SCALE[1:]), r"must be \(3,\)"),
    "reference of integers": (fused(reference=REFERENCE.astype(int)), "reference.dtype is 'int64': must be one of"),
    "reference of 3 numbers": (fused(reference=REFERENCE[..., [0, 1, 1]]), "axis 3 must be 2 .x, y. or 4"),
    "offset of integers": (fused(offset=OFFSET.astype(int)), "offset.dtype is 'int64': must be one of"),
    "logit of fewer points": (fused(logit=LOGIT[..., 1:]), "logit has shape"),
}


def traced(given):
    """Traces the call with its arrays as tracers; nothing is computed."""
    given = dict(given)
    arrays = {name: given.pop(name) for name in [*given] if isinstance(given[name], jax.Array)}
    function = ours.forward_fused if "logit" in arrays else ours.forward
    return jax.eval_shape(lambda arrays: function(**arrays, **given), arrays)


@pytest.mark.parametrize("case", WRONG)
def test_a_bad_call_is_refused_when_it_is_traced(case):
    given, words = WRONG[case]
    with pytest.raises(libmsda.InvalidArgumentError, match=words):
        traced(given)


def test_good_calls_are_traced():
    assert traced(sampled()).shape == traced(fused()).shape == (2, 7, 3, 4)


@pytest.mark.parametrize("name", ["level_hw", "points", "level_start_index", "query_hw"])
def test_a_traced_array_in_the_place_of_integers_is_refused(name):
    given = sampled()
    known = {"level_hw": LEVELS, "points": [4, 4], "level_start_index": [0, 30], "query_hw": [(7, 1)]}[name]
    assert traced(given | {name: known}).shape == (2, 7, 3, 4)
    with pytest.raises(libmsda.InvalidArgumentError, match=f"{name} is a traced array: must be of Python's integers"):
        traced(given | {name: jnp.array(known)})
    if name == "level_hw":
        with pytest.raises(libmsda.InvalidArgumentError, match=r"level_hw\[0\]\[0\] is .*: must be an integer"):
            jax.jit(lambda h: ours.forward(**given | {name: ((h, 5), (3, 2))}))(6)


def test_an_unknown_keyword_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'handle'; there are points, level_start_index"):
        ours.forward(**sampled(handle=None))


def test_other_arrays_are_refused():
    with pytest.raises(libmsda.InvalidArgumentError, match="coord is list: must be an array of JAX or numpy"):
        ours.forward(**sampled(coord=COORD.tolist()))
