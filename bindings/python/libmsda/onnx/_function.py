"""The operator as functions of a model, for hosts that have no kernel: a composition of GridSample.

A node of domain msda runs by libmsda's kernel where a host has one, else by the function of its name in
the model. The body is unrolled over the levels, so it is of one number of levels; points and sizes are
read from the node. It has the opset of the model, as hosts put it in the node's place.

Nearest sampling has a body of GatherND. GridSample's mode "nearest" reads other pixels: it rounds halves to even, and
from coordinates that were mapped to -1 to 1 and back.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import onnx
from onnx import FunctionProto, ModelProto, NodeProto, helper, numpy_helper

from ._graph import Graph

DOMAIN = "msda"
SAMPLED = "MSDeformAttn"
FUSED = "MSDeformAttnFused"
OPSET = 18  # of what is exported here: TensorRT has been wrong with GridSample of opset 20
OLDEST_OPSET = 16  # which has GridSample

INPUTS = {
    SAMPLED: ["value", "level_hw", "coord", "weight"],
    FUSED: ["value", "level_hw", "reference", "offset", "logit"],
}


class _Body:
    """Nodes in the order in which they are made; a method of an operator's name gives the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []

    def add(self, operator: str, *inputs: str, count: int = 0, **attributes: object) -> list[str]:
        names = [f"t{len(self.nodes)}" + (f"_{i}" if count else "") for i in range(count or 1)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names

    def one(self, operator: str, *inputs: str, **attributes: object) -> str:
        return self.add(operator, *inputs, **attributes)[0]

    def ints(self, *numbers: int) -> str:
        return self.one("Constant", value_ints=list(numbers))

    def number(self, number: float, like: str) -> str:
        return self.one("CastLike", self.one("Constant", value_float=number), like)

    def is_finite(self, tensor: str) -> str:
        return self.one("Less", self.one("Abs", tensor), self.number(math.inf, tensor))

    def slice(self, tensor: str, start: int, end: int, axis: int = 0) -> str:
        return self.one("Slice", tensor, self.ints(start), self.ints(end), self.ints(axis))

    def of_attribute(self, name: str) -> str:
        (out,) = self.add("Constant")
        self.nodes[-1].attribute.append(
            onnx.AttributeProto(
                name="value_ints", ref_attr_name=name, type=onnx.AttributeProto.INTS
            )
        )
        return out


class _Points:
    """The points [K] of all levels."""

    def __init__(self, body: _Body):
        self._body = body
        self.counts = body.of_attribute("points")
        # A point's level is the number of levels that end at it or before.
        end = body.one("CumSum", self.counts, body.one("Constant", value_int=0))
        total = body.one("ReduceSum", self.counts, keepdims=0)
        number = body.one("Range", body.one("Constant", value_int=0), total, body.one("Constant", value_int=1))
        is_behind = body.one("GreaterOrEqual", body.one("Unsqueeze", number, body.ints(1)), end)
        is_behind = body.one("Cast", is_behind, to=onnx.TensorProto.INT64)
        self._level = body.one("ReduceSum", is_behind, body.ints(1), keepdims=0)

    def of_levels(self, rows: str) -> str:
        """Repeats the rows [..., L, n] of levels for their points: [..., K, n]."""
        return self._body.one("Gather", rows, self._level, axis=-2)


def _located(body: _Body, points: _Points) -> tuple[str, str]:
    """The coordinates and weights of fused inputs."""
    offset = body.one("Reshape", "offset", body.ints(0, 0, 0, -1, 2))
    logit = body.one("Reshape", "logit", body.ints(0, 0, 0, -1))
    swapped = body.one("Gather", "level_hw", body.ints(1, 0), axis=1)
    wh = body.one("CastLike", swapped, offset)  # [L, 2]
    two = body.number(2.0, offset)
    counts = body.one("CastLike", points.counts, offset)
    doubled = body.one("Mul", body.one("Unsqueeze", counts, body.ints(1)), two)  # [L, 1]
    # A reference (x, y) counts as a box of 2 P pixels, so that both kinds are the same from here on.
    pixels = body.one("Div", doubled, wh)
    lead = body.one("Shape", "reference", start=0, end=3)
    pixels = body.one("Expand", pixels, body.one("Concat", lead, body.ints(2), axis=0))
    boxes = body.one("Concat", "reference", pixels, axis=-1)
    size = body.one("Div", body.slice(boxes, 2, 4, 3), doubled)
    per_point = [
        body.one("Unsqueeze", points.of_levels(tensor), body.ints(2))
        for tensor in (body.slice(boxes, 0, 2, 3), size)
    ]
    coord = body.one("Add", per_point[0], body.one("Mul", offset, per_point[1]))
    return coord, body.one("Softmax", logit, axis=-1)


class Variant(NamedTuple):
    """What a function is for, beside its name."""

    level_count: int
    is_nearest: bool = False
    is_double: bool = False  # positions of nearest sampling are computed in float64

    @property
    def overload(self) -> str:
        return f"levels{self.level_count}" + "_nearest" * self.is_nearest + "_double" * self.is_double


def function(name: str, variant: Variant, opset: int = OPSET) -> FunctionProto:
    """The function of the node `name` for a model of this opset."""
    body = _Body()
    points = _Points(body)
    if variant.is_nearest:
        output = _nearest(body, name, points, variant.is_double)
    else:
        output = _bilinear(body, name, points, variant.level_count, opset)
    body.nodes.append(helper.make_node("CastLike", [output, "value"], ["output"]))
    return helper.make_function(
        DOMAIN,
        name,
        INPUTS[name],
        ["output"],
        body.nodes,
        [helper.make_opsetid("", opset)],
        ["points"],
    )


def _nearest(body: _Body, name: str, points: _Points, is_double: bool) -> str:
    """One pixel a point, by the roundings of msda_sampling_mode in msda.h."""
    zero, one = body.ints(0), body.ints(1)
    wide = onnx.TensorProto.DOUBLE if is_double else onnx.TensorProto.FLOAT
    level_hw = body.one("Cast", "level_hw", to=onnx.TensorProto.INT64)
    height, width = (body.slice(level_hw, axis, axis + 1, 1) for axis in range(2))  # [L, 1]
    tokens = body.one("Mul", height, width)
    start = body.one("CumSum", tokens, body.one("Constant", value_int=0), exclusive=1)
    columns = [width, height, start, tokens]
    columns.append(body.one("Unsqueeze", points.counts, one))
    of_points = points.of_levels(body.one("Concat", *columns, axis=1))  # [K, 5]
    size = body.slice(of_points, 0, 2, 1)
    scale = body.one("Cast", size, to=wide)

    point = body.one("Cast", "offset" if name == FUSED else "coord", to=wide)
    point = body.one("Reshape", point, body.ints(0, 0, 0, -1, 2))  # [B, Q, M, K, 2]
    finite = body.is_finite(point)
    if name == FUSED:
        reference = body.one("Cast", "reference", to=wide)
        last = body.one("Shape", "reference", start=3)
        is_box = body.one("Equal", last, body.ints(4))
        # A reference (x, y) gets a size of 0, which is not used.
        lead = body.one("Shape", "reference", start=0, end=3)
        nothing = body.one("Expand", body.number(0.0, point), body.one("Concat", lead, body.ints(2), axis=0))
        boxes = body.one("Concat", reference, nothing, axis=-1)
        boxes = points.of_levels(body.slice(boxes, 0, 4, 3))
        boxes = body.one("Unsqueeze", boxes, body.ints(2))  # [B, Q, 1, K, 4]
        centre, extent = (body.slice(boxes, axis, axis + 2, 4) for axis in (0, 2))
        count = body.one("Cast", body.slice(of_points, 4, 5, 1), to=wide)
        step = body.one("Mul", extent, body.one("Div", body.number(0.5, point), count))
        by_box, by_size = body.one("Mul", point, step), body.one("Div", point, scale)
        point = body.one("Add", centre, body.one("Where", is_box, by_box, by_size))
        divides = body.one("Or", is_box, body.one("Greater", size, zero))  # by a size that is not 0
        for part in (body.is_finite(centre), body.is_finite(extent), divides):
            finite = body.one("And", finite, part)
        weight = body.one("Softmax", body.one("Reshape", "logit", body.ints(0, 0, 0, -1)), axis=-1)
    else:
        weight = body.one("Reshape", "weight", body.ints(0, 0, 0, -1))
    x_finite, y_finite = (body.slice(finite, axis, axis + 1, 4) for axis in range(2))
    finite = body.one("And", x_finite, y_finite)  # [B, Q, M, K, 1]

    position = body.one("Add", body.one("Mul", point, scale), body.number(0.5, point))
    position = body.one("Where", finite, position, body.number(0.0, point))
    # Before they are integers: a position may be larger than one holds.
    position = body.one("Min", body.one("Max", position, body.number(0.0, point)), scale)
    pixel = body.one("Cast", position, to=onnx.TensorProto.INT64)
    pixel = body.one("Min", pixel, body.one("Sub", size, one))
    x, y = (body.slice(pixel, axis, axis + 1, 4) for axis in range(2))
    row = body.one("Mul", y, body.slice(of_points, 0, 1, 1))
    token = body.one("Add", body.one("Add", row, x), body.slice(of_points, 2, 3, 1))
    # A token of zeros behind the last is read by points that are not finite and on levels without pixels.
    has_pixels = body.one("Greater", body.slice(of_points, 3, 4, 1), zero)
    token = body.one(
        "Where",
        body.one("And", finite, has_pixels),
        token,
        body.one("Shape", "value", start=1, end=2),
    )
    value = body.one("Transpose", body.one("CastLike", "value", weight), perm=[0, 2, 1, 3])
    value = body.one("Pad", value, body.ints(0, 0, 0, 0, 0, 0, 1, 0))  # [B, M, S + 1, D]
    token = body.one("Transpose", token, perm=[0, 2, 1, 3, 4])
    samples = body.one("GatherND", value, token, batch_dims=2)  # [B, M, Q, K, D]
    weight = body.one("Unsqueeze", weight, body.ints(4))
    weight = body.one("Where", finite, weight, body.number(0.0, weight))
    weight = body.one("Transpose", weight, perm=[0, 2, 1, 3, 4])
    output = body.one("ReduceSum", body.one("Mul", samples, weight), body.ints(3), keepdims=0)
    return body.one("Transpose", output, perm=[0, 2, 1, 3])


def _bilinear(body: _Body, name: str, points: _Points, level_count: int, opset: int) -> str:
    if name == FUSED:
        coord, weight = _located(body, points)
    else:
        coord = body.one("Reshape", "coord", body.ints(0, 0, 0, -1, 2))
        weight = body.one("Reshape", "weight", body.ints(0, 0, 0, -1))
    # In the type of weights: values may have 16 bits, and some exporters make float64 of locations.
    value = body.one("CastLike", "value", weight)
    coord = body.one("CastLike", coord, weight)
    level_hw = body.one("Cast", "level_hw", to=onnx.TensorProto.INT64)
    any_size = body.ints(-1)

    rows, columns = (body.slice(level_hw, axis, axis + 1, 1) for axis in range(2))
    tokens = body.one("Reshape", body.one("Mul", rows, columns), any_size)
    value = body.one("Transpose", value, perm=[0, 2, 3, 1])  # [B, M, D, S]
    dim = body.one("Shape", value, start=2, end=3)
    maps = body.add("Split", value, tokens, count=level_count, axis=3)
    ones = body.ints(*[1] * level_count)
    sizes = body.add("Split", level_hw, ones, count=level_count, axis=0)

    grid = body.one(
        "Sub", body.one("Mul", coord, body.number(2.0, coord)), body.number(1.0, coord)
    )
    grid = body.one("Transpose", grid, perm=[0, 2, 1, 3, 4])  # [B, M, Q, K, 2]
    heads = body.one("Shape", grid, start=0, end=2)
    tail = body.one("Shape", grid, start=2)
    grid = body.one("Reshape", grid, body.one("Concat", any_size, tail, axis=0))
    grids = body.add("Split", grid, points.counts, count=level_count, axis=2)

    samples = []
    for tensor, size, of_level in zip(maps, sizes, grids):
        hw = body.one("Reshape", size, body.ints(2))
        shape = body.one("Concat", any_size, dim, hw, axis=0)
        pixels = body.one("Reshape", tensor, shape)
        samples.append(
            body.one(
                "GridSample",
                pixels,
                of_level,
                mode="bilinear" if opset < 20 else "linear",
                padding_mode="zeros",
                align_corners=0,
            )
        )
    sampled = body.one("Concat", *samples, axis=-1)  # [B M, D, Q, K]
    weight = body.one("Transpose", weight, perm=[0, 2, 1, 3])
    shape = body.one(
        "Concat", any_size, body.ints(1), body.one("Shape", weight, start=2), axis=0
    )
    weight = body.one("Reshape", weight, shape)
    output = body.one("ReduceSum", body.one("Mul", sampled, weight), any_size, keepdims=0)
    output = body.one("Reshape", output, body.one("Concat", heads, dim, any_size, axis=0))
    return body.one("Transpose", output, perm=[0, 3, 1, 2])


def node(
    name: str, inputs: list[str], output: str, points: list[int], **settings: str
) -> NodeProto:
    # TensorRT's parser looks for a plugin of this version and namespace, and gives it level_hw as a shape input.
    return helper.make_node(
        name,
        inputs,
        [output],
        domain=DOMAIN,
        points=points,
        plugin_version="1",
        plugin_namespace=DOMAIN,
        tensorrt_plugin_shape_input_indices=[1],
        **settings,
    )


def _graphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """The graph and those inside its nodes."""
    inner = [a.g for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
    return [graph, *(deeper for one in inner for deeper in _graphs(one))]


def opset_of(model: ModelProto) -> int:
    return max((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=0)


def _variant(graph_of: Callable[[], Graph], node: NodeProto) -> Variant:
    attributes = {one.name: one for one in node.attribute}
    level_count = len(attributes["points"].ints)
    if "sampling_mode" not in attributes or attributes["sampling_mode"].s != b"nearest":
        return Variant(level_count)
    inputs = dict(zip(INPUTS[node.op_type], node.input))
    types = [graph_of().element_type(inputs[key]) for key in ("coord", "reference", "offset") if key in inputs]
    return Variant(level_count, True, onnx.TensorProto.DOUBLE in types)


def add_functions(model: ModelProto) -> None:
    """Gives a model the functions that its nodes of domain msda need, and the imports."""
    nodes = [
        one
        for graph in _graphs(model.graph)
        for one in graph.node
        if one.domain == DOMAIN and one.op_type in INPUTS
    ]
    if nodes and DOMAIN not in {one.domain for one in model.opset_import}:
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    graph_of = functools.cache(lambda: Graph(model))  # knows types, and takes long for large models
    wanted: dict[str, dict[Variant, list[NodeProto]]] = {}
    for one in nodes:
        wanted.setdefault(one.op_type, {}).setdefault(_variant(graph_of, one), []).append(one)
    kept = [one for one in model.functions if one.domain != DOMAIN or one.name not in wanted]
    del model.functions[:]
    model.functions.extend(kept)
    for name, by_variant in sorted(wanted.items()):
        for variant, users in sorted(by_variant.items()):
            made = function(name, variant, opset_of(model))
            if len(by_variant) > 1:  # functions of one name, since IR 10
                model.ir_version = max(model.ir_version, 10)
                made.overload = variant.overload
                for one in users:
                    one.overload = made.overload
            model.functions.append(made)
    model.ir_version = max(model.ir_version, 8)  # the first with functions


def integers(name: str, numbers: list[list[int]]) -> onnx.TensorProto:
    import numpy

    return numpy_helper.from_array(numpy.array(numbers, numpy.int64).reshape(-1, 2), name)
