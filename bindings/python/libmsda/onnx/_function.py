"""The operator as functions of a model, for hosts that have no kernel: a composition of GridSample.

A node of domain msda runs by libmsda's kernel where a host has one, else by the function of its name in
the model. The body is unrolled over the levels, so it is of one number of levels; points and sizes are
read from the node. It has the opset of the model, as hosts put it in the node's place.
"""

import onnx
from onnx import FunctionProto, ModelProto, NodeProto, helper, numpy_helper

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


def _per_point(body: _Body, of_levels: str, points: str, level_count: int) -> str:
    """Repeats the rows [..., L, n] of levels for their points: [..., K, n]."""
    ones = body.ints(*[1] * level_count)
    rows = body.add("Split", of_levels, ones, count=level_count, axis=-2)
    counts = body.add("Split", points, ones, count=level_count, axis=0)
    repeated = []
    for row, points_of_level in zip(rows, counts):
        # Expand takes the larger of two sizes: [P, 1] makes P rows of one.
        shape = body.one("Concat", points_of_level, body.ints(1), axis=0)
        repeated.append(body.one("Expand", row, shape))
    return body.one("Concat", *repeated, axis=-2)


def _located(body: _Body, points: str, level_count: int) -> tuple[str, str]:
    """The coordinates and weights of fused inputs."""
    offset = body.one("Reshape", "offset", body.ints(0, 0, 0, -1, 2))
    logit = body.one("Reshape", "logit", body.ints(0, 0, 0, -1))
    swapped = body.one("Gather", "level_hw", body.ints(1, 0), axis=1)
    wh = body.one("CastLike", swapped, offset)  # [L, 2]
    two = body.number(2.0, offset)
    counts = body.one("CastLike", points, offset)
    doubled = body.one("Mul", body.one("Unsqueeze", counts, body.ints(1)), two)  # [L, 1]
    # A reference (x, y) counts as a box of 2 P pixels, so that both kinds are the same from here on.
    pixels = body.one("Div", doubled, wh)
    lead = body.one("Shape", "reference", start=0, end=3)
    pixels = body.one("Expand", pixels, body.one("Concat", lead, body.ints(2), axis=0))
    boxes = body.one("Concat", "reference", pixels, axis=-1)
    size = body.one("Div", body.slice(boxes, 2, 4, 3), doubled)
    per_point = [
        body.one("Unsqueeze", _per_point(body, tensor, points, level_count), body.ints(2))
        for tensor in (body.slice(boxes, 0, 2, 3), size)
    ]
    coord = body.one("Add", per_point[0], body.one("Mul", offset, per_point[1]))
    return coord, body.one("Softmax", logit, axis=-1)


def function(name: str, level_count: int, opset: int = OPSET) -> FunctionProto:
    """The function of the node `name`, for this number of levels and a model of this opset."""
    body = _Body()
    points = body.of_attribute("points")
    if name == FUSED:
        coord, weight = _located(body, points, level_count)
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
    grids = body.add("Split", grid, points, count=level_count, axis=2)

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
    output = body.one("Transpose", output, perm=[0, 3, 1, 2])
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


def node(name: str, inputs: list[str], output: str, points: list[int]) -> NodeProto:
    # TensorRT's parser looks for a plugin of this version and namespace.
    return helper.make_node(
        name,
        inputs,
        [output],
        domain=DOMAIN,
        points=points,
        plugin_version="1",
        plugin_namespace=DOMAIN,
    )


def _graphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """The graph and those inside its nodes."""
    inner = [a.g for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
    return [graph, *(deeper for one in inner for deeper in _graphs(one))]


def opset_of(model: ModelProto) -> int:
    return max((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=0)


def add_functions(model: ModelProto) -> None:
    """Gives a model the functions that its nodes of domain msda need, and the imports."""
    wanted: dict[str, dict[int, list[NodeProto]]] = {}
    for graph in _graphs(model.graph):
        for one in graph.node:
            if one.domain == DOMAIN and one.op_type in INPUTS:
                (points,) = [a.ints for a in one.attribute if a.name == "points"]
                wanted.setdefault(one.op_type, {}).setdefault(len(points), []).append(one)
    kept = [one for one in model.functions if one.domain != DOMAIN or one.name not in wanted]
    del model.functions[:]
    model.functions.extend(kept)
    for name, by_level_count in sorted(wanted.items()):
        for level_count, nodes in sorted(by_level_count.items()):
            made = function(name, level_count, opset_of(model))
            if len(by_level_count) > 1:  # functions of one name, since IR 10
                model.ir_version = max(model.ir_version, 10)
                made.overload = f"levels{level_count}"
                for one in nodes:
                    one.overload = made.overload
            model.functions.append(made)
    if wanted and DOMAIN not in {one.domain for one in model.opset_import}:
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    model.ir_version = max(model.ir_version, 8)  # the first with functions


def integers(name: str, numbers: list[list[int]]) -> onnx.TensorProto:
    import numpy

    return numpy_helper.from_array(numpy.array(numbers, numpy.int64).reshape(-1, 2), name)
