"""The operator in ONNX Runtime has the bits of the C interface, under each of its names, and refuses what is wrong."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

import libmsda
import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from libmsda.onnx import _function

import nodes

FLOATS = ["float32", "float16", "bfloat16", "float64"]
PROBLEMS = 200


def array(rng, shape, dtype, spread=1.0):
    return (rng.standard_normal(shape) * spread).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else
                                                        ml_dtypes.float8_e4m3fn if dtype == "float8_e4m3fn" else dtype)


class Problem:
    """A random problem. A tenth of them has so many queries that the plugin splits them, another tenth an axis of length 0."""

    def __init__(self, seed):
        rng = self.rng = np.random.default_rng(seed)
        size = lambda low, high: int(rng.integers(low, high + 1))
        self.fused = bool(rng.integers(2))
        self.levels = [(size(1, 9), size(1, 9)) for _ in range(size(1, 4))]
        self.points = [size(0, 5) for _ in self.levels] if rng.integers(2) else [size(1, 4)] * len(self.levels)
        batch, queries, heads, dim = size(1, 3), size(1, 40), size(1, 4), size(1, 40)
        if seed % 10 == 0:
            self.points, queries, heads, dim = [5] * len(self.levels), size(600, 900), 4, size(28, 40)
        elif seed % 10 == 1:
            batch, queries, heads, dim = (0 if axis == rng.integers(4) else n
                                          for axis, n in enumerate((batch, queries, heads, dim)))
        tokens, total = sum(h * w for h, w in self.levels), sum(self.points)
        value, point, weight = (str(rng.choice(FLOATS + ["float8_e4m3fn"])), *(str(rng.choice(FLOATS)) for _ in range(2)))
        self.output = "float32" if value == "float8_e4m3fn" else value
        self.arrays = {"value": array(rng, (batch, tokens, heads, dim), value),
                       "level_hw": np.array(self.levels, str(rng.choice(["int32", "int64"])))}
        if self.fused:
            reference = array(rng, (batch, queries, len(self.levels), int(rng.choice([2, 4]))), point, 0.4)
            self.arrays |= {"reference": reference, "offset": array(rng, (batch, queries, heads, total, 2), point, 2.0),
                            "logit": array(rng, (batch, queries, heads, total), weight)}
        else:
            self.arrays |= {"coord": array(rng, (batch, queries, heads, total, 2), point, 0.7),
                            "weight": array(rng, (batch, queries, heads, total), weight)}
        if rng.integers(4) == 0:  # what no shape shows
            point = self.arrays["offset" if self.fused else "coord"].reshape(-1)
            point[rng.random(point.size) < 0.1] = rng.choice([np.nan, np.inf, -np.inf, 300.0])
        self.sampling = "nearest" if seed % 5 == 3 else "bilinear"
        if value == "float8_e4m3fn" and rng.integers(2):
            self.arrays["value_scale"] = rng.random(heads).astype(np.float32)

    def expected(self):
        given = dict(self.arrays)
        call = libmsda.forward_fused if self.fused else libmsda.forward
        return call(given.pop("value"), self.levels, *[given.pop(key) for key in list(given)[1:] if key != "value_scale"],
                    points=self.points, threads=1, value_scale=given.get("value_scale"), sampling_mode=self.sampling)


@pytest.mark.parametrize("first", range(0, PROBLEMS, 20))
def test_random_problems_have_the_bits_of_the_c_interface(first):
    for seed in range(first, first + 20):
        problem = Problem(seed)
        found = nodes.run("MSDeformAttnFused" if problem.fused else "MSDeformAttn", "msda", problem.arrays, 1 + seed % 3,
                          output=problem.output, shapes=bool(seed % 2), points=problem.points, sampling_mode=problem.sampling)
        expected = problem.expected()
        assert found.shape == expected.shape, seed
        np.testing.assert_array_equal(found, expected.astype(found.dtype), err_msg=f"seed {seed}")


def nearest_problem(seed):
    """Half of the points are on the lines where the pixel changes; some are no numbers, and some levels are empty."""
    rng = np.random.default_rng(seed)
    size = lambda low, high: int(rng.integers(low, high + 1))
    levels = [(size(seed % 2, 9), size(seed % 2, 9)) for _ in range(3)]
    points, fused = [size(0, 4) for _ in levels], seed % 4 < 2
    batch, queries, heads, dim, total = size(1, 2), size(1, 9), size(1, 3), size(1, 6), sum(points)
    point = FLOATS[seed % 4]
    lines = lambda *shape: array(rng, shape, point, 0.5) if rng.integers(2) else (
        rng.integers(-3, 25, shape) / 2 / rng.integers(1, 10, shape)).astype(array(rng, (), point).dtype)
    arrays = {"value": array(rng, (batch, sum(h * w for h, w in levels), heads, dim), "float32"), "level_hw": np.array(levels)}
    if fused:
        arrays |= {"reference": lines(batch, queries, 3, size(1, 2) * 2), "offset": lines(batch, queries, heads, total, 2),
                   "logit": array(rng, (batch, queries, heads, total), "float32")}
    else:
        arrays |= {"coord": lines(batch, queries, heads, total, 2),
                   "weight": array(rng, (batch, queries, heads, total), "float32")}
    for key in ("reference", "offset", "coord"):
        if key in arrays and seed % 3 == 0:
            flat = arrays[key].reshape(-1)
            flat[rng.random(flat.size) < 0.1] = rng.choice([np.nan, np.inf, -np.inf, 3e4])
    return levels, points, fused, arrays


def test_the_function_of_nearest_sampling_reads_the_pixels_of_the_c_interface():
    plain = onnxruntime.SessionOptions()
    plain.log_severity_level = 4
    for seed in range(24):
        levels, points, fused, arrays = nearest_problem(seed)
        settings = dict(shapes=True, points=points, sampling_mode="nearest")
        model = nodes.one_node("MSDeformAttnFused" if fused else "MSDeformAttn", "msda", arrays, **settings)
        _function.add_functions(model)
        session = onnxruntime.InferenceSession(model.SerializeToString(), plain, providers=["CPUExecutionProvider"])
        value, _, *rest = arrays.values()
        call = libmsda.forward_fused if fused else libmsda.forward
        expected = call(value, levels, *rest, points=points, sampling_mode="nearest", threads=1)
        np.testing.assert_allclose(session.run(None, nodes.feeds(arrays))[0], expected, atol=2e-6, err_msg=f"seed {seed}")
        np.testing.assert_array_equal(nodes.session(model).run(None, nodes.feeds(arrays))[0], expected, err_msg=f"seed {seed}")


def sampled(seed=0, dtype="float32", heads=2, dim=8):
    rng = np.random.default_rng(seed)
    levels = [(4, 5), (2, 3)]
    arrays = {"value": array(rng, (2, 26, heads, dim), dtype), "level_hw": np.array(levels),
              "coord": array(rng, (2, 7, heads, 2, 3, 2), dtype, 0.5), "weight": array(rng, (2, 7, heads, 2, 3), dtype)}
    return arrays, libmsda.forward(arrays["value"], levels, arrays["coord"], arrays["weight"], threads=1)


def test_points_may_have_an_axis_of_levels_and_all_options_are_read():
    arrays, expected = sampled(dtype="float16")
    np.testing.assert_array_equal(nodes.run("MSDeformAttn", "msda", arrays, output="float16"), expected)
    for key, allowed in (("math_mode", "accurate, fast"), ("point_locality", "unknown, local, scattered"),
                         ("sampling_mode", "bilinear, nearest")):
        for value in allowed.split(", "):
            found = nodes.run("MSDeformAttn", "msda", arrays, output="float16", **{key: value})
            if value != "nearest":
                np.testing.assert_allclose(found.astype("f4"), expected.astype("f4"), atol=0.02)
        with pytest.raises(Exception, match=f"attribute {key} is 'other': must be one of {allowed}"):
            nodes.run("MSDeformAttn", "msda", arrays, output="float16", **{key: "other"})


NAMES = [("MultiscaleDeformableAttnPlugin_TRT", domain, True, False) for domain in ("", "TRT", "nvidia")]
NAMES += [("MMCVMultiScaleDeformableAttention", domain, True, True) for domain in ("mmdeploy", "mmcv", "")]
NAMES += [("MultiScaleDeformableAttnTRT", "", False, True), ("MultiScaleDeformableAttnTRT2", "", False, True)]


@pytest.mark.parametrize("name, domain, has_starts, merges", NAMES)
@pytest.mark.parametrize("integer", ["int32", "int64"])
def test_names_of_other_projects(name, domain, has_starts, merges, integer):
    for dtype in ("float32", "float16"):
        arrays, expected = sampled(dtype=dtype)
        arrays["level_hw"] = arrays["level_hw"].astype(integer)
        if has_starts:
            arrays = with_starts(arrays, integer=integer)
        found = nodes.run(name, domain, arrays, output=dtype, im2col_step=64, plugin_version="1")
        np.testing.assert_array_equal(found, expected.reshape(2, 7, 16) if merges else expected)


def test_levels_start_where_nvidia_nodes_say():
    arrays, _ = sampled()
    value = arrays["value"]
    given = with_starts(arrays | {"value": np.concatenate([value[:, 20:], value[:, :20]], axis=1)}, starts=(6, 0))
    np.testing.assert_array_equal(nodes.run("MultiscaleDeformableAttnPlugin_TRT", "", given),
                                  nodes.run("MSDeformAttn", "msda", arrays))


@pytest.mark.parametrize("name", ["MultiScaleDeformableAttnTRT", "MultiScaleDeformableAttnTRT2"])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_points_of_groups_of_references(name, groups, dtype):
    rng = np.random.default_rng(groups)
    levels, heads, points, queries = np.array([(4, 5), (2, 3)]), 2, 4, 5
    arrays = {"value": array(rng, (2, 26, heads, 8), dtype), "shapes": levels.astype("int32"),
              "reference": rng.random((2, queries, 1, 2 * groups)).astype(dtype),
              "offset": array(rng, (2, queries, heads, 2 * points * 2), dtype),
              "logit": array(rng, (2, queries, heads, 2 * points), dtype)}
    found = nodes.run(name, "", arrays, output=dtype)
    exact = {key: array.astype("f8") for key, array in arrays.items()}
    reference = exact["reference"].reshape(2, queries, 1, 1, 1, groups, 2)
    offset = exact["offset"].reshape(2, queries, heads, 2, points // groups, groups, 2)
    coord = (reference + offset / levels[:, ::-1].reshape(1, 1, 1, 2, 1, 1, 2)).reshape(2, queries, heads, 2 * points, 2)
    weight = np.exp(exact["logit"])
    weight /= weight.sum(-1, keepdims=True)
    expected = libmsda.forward(exact["value"], levels.tolist(), coord, weight)
    np.testing.assert_allclose(found.astype("f8"), expected, atol=2e-6 if dtype == "float32" else 2e-3)


def refused(arrays, message, name="MSDeformAttn", domain="msda", **attributes):
    with pytest.raises(Exception, match=message or name) as raised:
        nodes.run(name, domain, arrays, **attributes)
    assert type(raised.value).__module__.startswith("onnxruntime")
    assert name in str(raised.value)


def test_bad_input_is_refused_with_the_input_and_what_is_allowed():
    arrays, _ = sampled()
    change = lambda **given: arrays | given
    levels = arrays["level_hw"]
    refused(change(level_hw=np.array([[4, 5], [2, -3]])), r"level_hw\[3\] is -3: must be 0 to 2147483647")
    refused(change(level_hw=np.array([[4, 5], [2, 2**31]])), r"level_hw\[3\] is 2147483648: must be 0 to")
    refused(change(level_hw=np.full((9, 2), 2**31 - 1)), "level_hw has more pixels than an int64 counts")
    refused(change(level_hw=np.array([[4, 5], [2, 4]])), r"value is \[2, 26, 2, 8\]: dimension 1 must be 28, the pixels of")
    refused(change(level_hw=levels.astype("float32")), "level_hw is float: must be int32 or int64")
    refused(change(level_hw=levels[0]), r"level_hw is \[2\]: must be \[L, 2\]")
    refused(change(level_hw=levels[:, :1]), r"level_hw is \[2, 1\]: dimension 1 must be 2")
    refused(change(value=arrays["value"][0]), r"value is \[26, 2, 8\]: must be \[B, S, M, D\]")
    refused(change(coord=arrays["coord"][..., 0]), r"coord is .*: dimension 4 must be 2, x and y")
    refused(change(coord=arrays["coord"][0, 0, 0]), r"coord is .*: must be \[B, Q, M, K, 2\] or")
    refused(change(coord=levels), r"coord is int64: must be float, float16, bfloat16 or double")
    refused(change(coord=arrays["coord"][:, :, :, :1]), r"coord is .*: dimension 3 must be 2, the levels")
    flat = {"coord": arrays["coord"].reshape(2, 7, 2, 6, 2)[:, :, :, :5], "weight": arrays["weight"].reshape(2, 7, 2, 6)[..., :5]}
    refused(change(**flat), r"coord is \[2, 7, 2, 5, 2\]: its 5 points must be as many on each of the 2 levels")
    refused(change(weight=arrays["weight"][:1]), r"weight is \[1, 7, 2, 2, 3\]: dimension 0 must be 2, the batch of value")
    refused(change(weight=arrays["weight"][:, :, :, :, :2]), "weight is .*: must have the 6 points of coord")
    refused(arrays, "attribute points has 1 numbers with the sum 6: must have one for each of the 2 levels", points=[6])
    refused(arrays, "attribute points has -1: must have numbers from 0 to", points=[-1, 7])
    refused(change(value_scale=np.ones(2, "float32")), "value_scale")
    refused(change(value_scale=np.ones(3, "float32")), r"value_scale is \[3\]: dimension 0 must be 2, the heads")


def test_bad_references_are_refused():
    rng = np.random.default_rng(0)
    given = fused_inputs()
    fused = {"name": "MSDeformAttnFused"}
    refused(given | {"reference": given["reference"][..., :1]}, r"reference is .*: must be \[B, Q, L, 2\] or", **fused)
    refused(given | {"reference": given["reference"][:, :, :1]}, "reference is .*: dimension 2 must be 2, the levels", **fused)
    whole = given["reference"].astype("int32")
    refused(given | {"reference": whole}, "reference is int32: must be float, float16, bfloat16 or double", **fused)
    trt = {"name": "MultiScaleDeformableAttnTRT", "domain": ""}
    given |= {"reference": given["reference"][:, :, :1], "offset": given["offset"].reshape(1, 7, 2, 12)}
    pair = array(rng, (1, 7, 1, 4), "float32")
    refused(given | {"reference": pair}, "reference is .*with G such that it divides the 3 points", **trt)
    refused(given | {"offset": given["offset"][..., :10]}, "offset is .*: dimension 3 must be 12, two for each", **trt)
    refused(given | {"value": np.zeros((1, 26, 2, 8), "int32")}, "", **trt)


def damaged(rng, arrays):
    """The arrays with a random change to one of them, or two."""
    arrays = dict(arrays)
    for key in rng.choice(list(arrays), int(rng.integers(1, 3)), replace=False):
        array, kind = arrays[key], rng.integers(6)
        if kind == 0 and array.ndim:  # another length
            axis = int(rng.integers(array.ndim))
            array = np.repeat(array, 2, axis) if rng.integers(2) else np.delete(array, 0, axis) if array.shape[axis] else array
        elif kind == 1 and array.ndim:
            array = np.asarray(array[0]) if len(array) else array[None]
        elif kind == 2:
            array = array[None]
        elif kind == 3:
            array = np.zeros([0 if rng.integers(2) else n for n in array.shape], array.dtype)
        elif array.dtype.kind == "i":
            array = rng.choice([-1, 0, 1, 2**31 - 1, 2**31, 2**62, -2**63], array.shape).astype("int64")
        else:
            array = np.where(rng.random(array.shape) < 0.3, rng.choice([np.nan, np.inf, 1e38]), array).astype(array.dtype)
        arrays[key] = array
    return arrays


OWN = ("MSDeformAttn", "msda", False, False)
ATTRIBUTES = {
    "points": [[3, 3], [6], [-1, 7], [2**40, 6 - 2**40], [2**63 - 1, 1], [0] * 9, 6, 1.5, "3, 3"],
    "sampling_mode": ["nearest", "", "\0", "bilinear" * 1000, 1, [0.5]], "math_mode": ["fast", "slow", 0],
    "point_locality": ["local", "nowhere", [1]], "another": ["text", 1, 2.5, [1]],
}


def fused_inputs(dtype="float32"):
    rng = np.random.default_rng(0)
    return {"value": array(rng, (1, 26, 2, 8), dtype), "level_hw": np.array([[4, 5], [2, 3]]),
            "reference": array(rng, (1, 7, 2, 2), dtype), "offset": array(rng, (1, 7, 2, 6, 2), dtype),
            "logit": array(rng, (1, 7, 2, 6), dtype)}


def inputs_in_groups():
    arrays = fused_inputs()
    reference = np.repeat(arrays["reference"][:, :, :1], 3, axis=-1)
    return arrays | {"reference": reference, "offset": arrays["offset"].reshape(1, 7, 2, 12)}


@pytest.mark.parametrize("name, domain, has_starts, merges, inputs, attributes", [
    *[(*one, lambda: sampled()[0], {}) for one in (OWN, NAMES[0], NAMES[3], NAMES[6])],
    ("MSDeformAttnFused", "msda", False, False, fused_inputs, {}),
    ("MultiScaleDeformableAttnTRT", "", False, False, inputs_in_groups, {}),
    (*OWN, lambda: sampled()[0], ATTRIBUTES),
    ("MSDeformAttnFused", "msda", False, False, fused_inputs, ATTRIBUTES),
])
def test_damaged_inputs_are_an_error_or_a_result_and_never_a_crash(name, domain, has_starts, merges, inputs, attributes):
    rng = np.random.default_rng(1)
    arrays = inputs()
    if has_starts:
        arrays = with_starts(arrays)
    sessions, ended = {}, {"error": 0, "result": 0}
    for _ in range(150):
        # Wrong attributes beside right inputs, as often as not.
        given = arrays if attributes and rng.integers(2) else damaged(rng, arrays)
        chosen = {key: values[rng.integers(len(values))] for key, values in attributes.items() if not rng.integers(3)}
        ranks = tuple(array.ndim for array in given.values()), str(chosen)
        model = nodes.one_node(name, domain, given, **chosen)
        try:
            if ranks not in sessions:
                sessions[ranks] = nodes.session(model)
            result = sessions[ranks].run(None, given)[0]
        except Exception as error:  # noqa: BLE001
            assert "onnxruntime" in type(error).__module__ and f"{name}: " in str(error), error
            ended["error"] += 1
        else:
            assert result.ndim == (3 if merges else 4)
            ended["result"] += 1
    assert min(ended.values()) > 10


def with_starts(arrays, starts=(0, 20), integer="int64"):
    """The inputs of the names that say where levels start."""
    first, second, *rest = arrays.items()
    return dict([first, second, ("starts", np.array(starts, integer)), *rest])


def test_one_session_runs_on_several_threads_at_once():
    arrays, expected = sampled(heads=4, dim=32)
    shared = nodes.session(nodes.one_node("MSDeformAttn", "msda", arrays), 2)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: shared.run(None, arrays)[0], range(40)):
            np.testing.assert_array_equal(found, expected)


def test_shapes_are_inferred_with_their_names():
    arrays, _ = sampled()
    inferred = nodes.session(nodes.one_node("MSDeformAttn", "msda", arrays)).get_outputs()[0].shape
    assert inferred == ["value0", "coord1", "value2", "value3"]
    merged = nodes.one_node("MMCVMultiScaleDeformableAttention", "mmcv", with_starts(arrays), shapes=True)
    assert nodes.session(merged).get_outputs()[0].shape == [2, 7, 16]


def test_the_library_needs_nothing_of_onnx_runtime():
    lines = subprocess.run(["nm", "-D", nodes.PLUGIN], capture_output=True, text=True, check=True).stdout.splitlines()
    names = {kind: {line.split()[-1].partition("@")[0] for line in lines if line.split()[-2] == kind} for kind in "UT"}
    assert {name for name in names["U"] if name.startswith("msda_")} >= {"msda_execute", "msda_plan_create"}
    assert [name for name in names["U"] if name.startswith(("Ort", "_ZN3Ort", "_ZN11onnxruntime"))] == []
    assert names["T"] == {"RegisterCustomOps"}
    needed = subprocess.run(["readelf", "-d", nodes.PLUGIN], capture_output=True, text=True, check=True).stdout
    assert "onnxruntime" not in needed and "libmsda.so.0" in needed
