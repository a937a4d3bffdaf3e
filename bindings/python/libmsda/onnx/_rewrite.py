"""Finds the operator in exported models and puts nodes of domain msda in its place.

GridSample nodes whose results are weighted and summed together are one instance, and so are the Gather nodes that nearest
sampling is exported to. Where its tensors of values, locations and
weights are is a guess by their shapes. A guess counts only if the model's own nodes, computed on numbers that tell every
element from every other, give what the operator's definition says: for each level the pixels and points that GridSample
gets, and for the sum the output.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from . import _function
from ._graph import ELEMENTWISE, MOVES, CannotEvaluate, Graph, used_by
from ._report import Left, Replaced, Report

_PLUGINS = {"MultiscaleDeformableAttnPlugin_TRT": False, "MMCVMultiScaleDeformableAttention": True}  # True: heads are merged


_GATHERS = {"Gather", "GatherElements", "GatherND"}
# Operators that make indices of the positions of nearest sampling.
_TO_INDICES = MOVES | ELEMENTWISE | _GATHERS | {"Clip", "Floor", "Max", "Min"}


class _NotTheOperator(Exception):
    """Why an instance is left."""


def rewrite(model: ModelProto) -> tuple[ModelProto, Report]:
    opset = _function.opset_of(model)
    if opset < _function.OLDEST_OPSET:
        raise ValueError(f"the model's opset is {opset}: must be {_function.OLDEST_OPSET} or newer; export it again")
    result, report = ModelProto(), Report()
    result.CopyFrom(model)
    reasons: dict[str, Left] = {}
    while True:  # behind a replaced plugin more shapes are known
        before = len(report.replaced)
        for replace in (_replace_plugins, _replace_compositions):
            replace(result, report, reasons)
            _function.add_functions(result)
        if len(report.replaced) == before:
            break
    report.left = list(reasons.values())
    return result, report


# ---- compositions ---------------------------------------------------------------------------------


@dataclasses.dataclass
class _Instance:
    """Nodes of one weighted sum. Letters as in msda.h."""

    samples: list[NodeProto]  # of each level the node that makes [B M, D, Q, P]
    product: NodeProto
    weight: str  # the product's other operand, [B M, 1, Q, K]
    summed: str  # [B M, D, Q]
    gathers: list[NodeProto] | None = None  # nearest sampling: they take the pixels of each level

    @property
    def operator(self) -> str:
        return self.samples[0].op_type if self.gathers is None else self.gathers[0].op_type


def _replace_compositions(model: ModelProto, report: Report, reasons: dict[str, Left]) -> None:
    graph = Graph(model)
    found: dict[str, list[NodeProto]] = {}
    for node in graph.graph.node:
        if nearest := _gathered(graph, node):
            _replace_instance(graph, nearest, report, reasons)
        if node.op_type != "GridSample" or node.domain not in ("", "ai.onnx"):
            continue
        try:
            found.setdefault(_product_of(graph, node).output[0], []).append(node)
        except _NotTheOperator as error:
            reasons[node.output[0]] = Left(node.name or node.output[0], node.op_type, str(error))
    for product, samples in found.items():
        try:
            instance = _instance(graph, graph.producer[product], samples)
        except _NotTheOperator as error:
            _leave(samples, str(error), reasons)
        else:
            _replace_instance(graph, instance, report, reasons)
    _drop_unused(model)


def _replace_instance(graph: Graph, instance: _Instance, report: Report, reasons: dict[str, Left]) -> None:
    nodes = instance.samples if instance.gathers is None else instance.gathers
    try:
        made, replaced, end = _matched(graph, instance, len(report.replaced))
    except (_NotTheOperator, CannotEvaluate) as error:
        _leave(nodes, str(error), reasons)
        return
    for node in nodes:
        reasons.pop(node.output[0], None)
    _splice(graph.model, end, made)
    report.replaced.append(replaced)


def _leave(nodes: Sequence[NodeProto], reason: str, reasons: dict[str, Left]) -> None:
    for node in nodes:
        reasons[node.output[0]] = Left(node.name or node.output[0], node.op_type, reason)


def _gathered(graph: Graph, total: NodeProto) -> _Instance | None:
    """The instance of nearest sampling that ends with this node, if it looks like one."""
    product = graph.producer.get(total.input[0]) if total.op_type == "ReduceSum" else None
    if product is None or product.op_type != "Mul":
        return None
    for name, weight in (product.input, reversed(product.input)):
        node = graph.producer.get(name)
        levels = node.input if node is not None and node.op_type == "Concat" else [name]
        gathers = [_gather_of(graph, level) for level in levels]
        if None not in gathers:
            samples = [graph.producer[level] for level in levels]
            return _Instance(samples, product, weight, total.output[0], gathers)  # type: ignore[arg-type]
    return None


def _gather_of(graph: Graph, name: str) -> NodeProto | None:
    """The node that gathers by indices which are no constants, where a tensor is made of its result."""
    for one in graph.upstream(name, MOVES | _GATHERS):
        node = graph.producer.get(one)
        if node is not None and node.op_type in _GATHERS and graph.constant(node.input[1]) is None:
            return node
    return None


def _attribute(node: NodeProto, name: str, default: object) -> object:
    return next((helper.get_attribute_value(one) for one in node.attribute if one.name == name), default)


def _product_of(graph: Graph, sample: NodeProto) -> NodeProto:
    """The product with the weights that follows a GridSample."""
    mode = _attribute(sample, "mode", b"bilinear")
    if mode not in (b"bilinear", b"linear"):
        raise _NotTheOperator(f"its mode is {mode.decode()}, the operator's is bilinear")  # type: ignore[attr-defined]
    if _attribute(sample, "padding_mode", b"zeros") != b"zeros" or _attribute(sample, "align_corners", 0) != 0:
        raise _NotTheOperator("its padding_mode is not zeros or its align_corners is not 0")
    name = sample.output[0]
    while node := graph.only_consumer(name):
        if node.op_type == "Mul":
            return node
        if node.op_type not in MOVES:
            break
        name = node.output[0]
    raise _NotTheOperator("its result is not weighted and summed")


def _instance(graph: Graph, product: NodeProto, samples: Sequence[NodeProto]) -> _Instance:
    (operand,) = [i for i in range(2) if _reaches(graph, product.input[i], samples[0])][:1] or [None]
    if operand is None:
        raise _NotTheOperator("its result is not weighted and summed")
    order = _concatenated(graph, product.input[operand])
    position = {node.output[0]: order.index(node.output[0]) if node.output[0] in order else -1 for node in samples}
    if sorted(position.values()) != list(range(len(samples))):
        raise _NotTheOperator("the levels are not put together by one Concat")
    total = graph.only_consumer(product.output[0])
    if total is None or total.op_type != "ReduceSum":
        raise _NotTheOperator("its result is not weighted and summed")
    ordered = sorted(samples, key=lambda node: position[node.output[0]])
    return _Instance(ordered, product, product.input[1 - operand], total.output[0])


def _reaches(graph: Graph, name: str, sample: NodeProto) -> bool:
    pending = [name]
    while pending:
        node = graph.producer.get(pending.pop())
        if node is not None and node.output[0] == sample.output[0]:
            return True
        if node is not None and node.op_type in MOVES:
            pending += node.input if node.op_type == "Concat" else node.input[:1]
    return False


def _concatenated(graph: Graph, name: str) -> list[str]:
    """The results of GridSample that a tensor is put together of, in their order."""
    node = graph.producer.get(name)
    if node is None or (node.op_type not in MOVES and node.op_type != "GridSample"):
        return []
    if node.op_type == "GridSample":
        return [node.output[0]]
    inputs = node.input if node.op_type == "Concat" else node.input[:1]
    return list(itertools.chain.from_iterable(_concatenated(graph, one) for one in inputs))


def _numbers(graph: Graph, name: str, shape: Sequence[int]) -> numpy.ndarray:
    """Numbers that tell every element of a tensor, exact in float32 up to 16 million of them."""
    return numpy.arange(numpy.prod(shape, dtype=numpy.int64), dtype=_dtype(graph, name)).reshape(shape)


def _dtype(graph: Graph, name: str) -> type:
    return numpy.float64 if graph.element_type(name) == TensorProto.DOUBLE else numpy.float32


def _known(graph: Graph, name: str, rank: int) -> tuple[int, ...]:
    shape = graph.shape(name)
    if shape is None or len(shape) != rank:
        raise _NotTheOperator(f"the shape of {name} is {'not known' if shape is None else shape}, expected are {rank} axes")
    return shape


def _matched(graph: Graph, instance: _Instance, number: int) -> tuple[list[NodeProto], Replaced, str]:
    """The nodes for an instance, and the tensor that they make in the place of its own."""
    match = (_match_bilinear if instance.gathers is None else _match_nearest)(graph, instance)
    batch, levels, counts = match.batch, match.levels, match.counts
    weight = _points_of(
        graph, [instance.weight], MOVES | {"Cast"}, (batch, match.queries, match.heads), [sum(counts)], 1,
        lambda points: points, "weights",
    )  # fmt: skip
    end, merges = _end_of(graph, instance, batch, match.dim)

    prefix = f"msda_{number}"
    made: list[NodeProto] = []
    name = match.value
    if not match.has_heads:
        made += _reshaped(name, f"{prefix}_value", [0, 0, match.heads, match.dim])
        name = f"{prefix}_value"
    made.append(_constant(f"{prefix}_level_hw", numpy.array(levels, numpy.int64)))
    output = f"{prefix}_output" if merges else end
    inputs = [name, f"{prefix}_level_hw", match.coord, weight]
    settings = {} if instance.gathers is None else {"sampling_mode": "nearest"}
    made.append(_function.node(_function.SAMPLED, inputs, output, counts, **settings))
    made[-1].name = prefix
    if merges:
        made += _reshaped(output, end, [0, 0, -1])
    was = f"{len(levels)} {instance.operator} before {instance.product.name or instance.product.output[0]}"
    return made, Replaced(prefix, was, tuple((h, w) for h, w in levels), tuple(counts)), end


class _Match(NamedTuple):
    """The tensors of an instance's values and locations, and its sizes."""

    value: str
    has_heads: bool  # value is [B, S, M, D], not [B, S, M D]
    coord: str
    levels: list[tuple[int, int]]
    counts: list[int]
    batch: int
    heads: int
    dim: int
    queries: int


def _match_bilinear(graph: Graph, instance: _Instance) -> _Match:
    maps = [_known(graph, node.input[0], 4) for node in instance.samples]
    grids = [_known(graph, node.input[1], 4) for node in instance.samples]
    rows, dim = maps[0][:2]
    queries, counts = grids[0][1], [grid[2] for grid in grids]
    if any(one[:2] != (rows, dim) for one in maps) or any(one[:2] != (rows, queries) for one in grids):
        raise _NotTheOperator("its levels differ in heads, channels or queries")
    levels = [(one[2], one[3]) for one in maps]
    value, batch, has_heads = _value_of(graph, [node.input[0] for node in instance.samples], rows, dim, levels)
    coord = _points_of(
        graph, [node.input[1] for node in instance.samples], MOVES | ELEMENTWISE, (batch, queries, rows // batch), counts, 2,
        lambda level: 2 * level - 1, "locations",
    )  # fmt: skip
    return _Match(value, has_heads, coord, levels, counts, batch, rows // batch, dim, queries)


def _match_nearest(graph: Graph, instance: _Instance) -> _Match:
    """As with GridSample, but the model's nodes are computed on random locations: indices are no numbers that a
    definition gives one by one."""
    shapes = [_known(graph, node.output[0], 4) for node in instance.samples]
    rows, dim, queries, _ = shapes[0]
    if any(one[:3] != (rows, dim, queries) for one in shapes):
        raise _NotTheOperator("its levels differ in heads, channels or queries")
    counts = [one[3] for one in shapes]
    maps = [_map_of(graph, node, rows, dim) for node in instance.gathers or ()]
    levels = [(one[2], one[3]) for one in (_known(graph, name, 4) for name in maps)]
    value, batch, has_heads = _value_of(graph, maps, rows, dim, levels)
    heads = rows // batch
    ways = [_sources(graph, node.input[1]) for node in instance.gathers or ()]
    for name in (one for one in ways[0] if all(one in way for way in ways[1:])):
        shape = graph.shape(name)
        if shape is None or shape[:3] != (batch, queries, heads) or len(shape) not in (5, 6) or shape[-1] != 2:
            continue
        if numpy.prod(shape[3:-1]) != sum(counts) or (len(shape) == 6 and shape[3] != len(counts)):
            continue
        # In and around the maps, half of them on the lines where the pixel changes.
        generator = numpy.random.default_rng(0)
        points = generator.uniform(-0.3, 1.3, shape)
        lines = generator.integers(-2, 19, shape) / generator.choice([hw for pair in levels for hw in pair], shape) / 2
        points = numpy.where(generator.random(shape) < 0.5, lines, points).astype(_dtype(graph, name))
        if _reads_nearest(graph, instance, maps, name, points, levels, counts):
            return _Match(value, has_heads, name, levels, counts, batch, heads, dim, queries)
    raise _NotTheOperator("there is no tensor of locations of which the pixels int(x W + 0.5), int(y H + 0.5) are gathered")


def _map_of(graph: Graph, gather: NodeProto, rows: int, dim: int) -> str:
    """The tensor [B M, D, H, W] that pixels are gathered from."""
    ways = list(graph.upstream(gather.input[0], MOVES))
    for name in reversed(ways):  # the first may be [B M, H, W, D], with the same sizes
        shape = graph.shape(name)
        if shape is not None and len(shape) == 4 and shape[:2] == (rows, dim):
            return name
    raise _NotTheOperator("its pixels are not gathered from a tensor [B M, D, H, W]")


def _sources(graph: Graph, name: str) -> list[str]:
    """The tensors that indices are computed from, the nearest first."""
    found: list[str] = [name]
    for one in found:
        node = graph.producer.get(one)
        if node is not None and node.op_type in _TO_INDICES:
            inputs = node.input[:1] if node.op_type in MOVES - {"Concat"} else node.input
            found += [other for other in inputs if other and other not in found and graph.constant(other) is None]
    return found


def _reads_nearest(
    graph: Graph,
    instance: _Instance,
    maps: Sequence[str],
    coord: str,
    points: numpy.ndarray,
    levels: Sequence[tuple[int, int]],
    counts: Sequence[int],
) -> bool:
    """Whether the model's nodes take the pixels that msda_sampling_mode in msda.h says."""
    batch, queries, heads = points.shape[:3]
    flat = points.reshape(batch, queries, heads, -1, 2).transpose(0, 2, 1, 3, 4).reshape(batch * heads, queries, -1, 2)
    pixels = {name: _numbers(graph, name, _known(graph, name, 4)) for name in maps}
    starts = list(itertools.accumulate(counts, initial=0))
    found = graph.compute(pixels | {coord: points}, [node.output[0] for node in instance.samples])
    for name, (height, width), start, end, one in zip(maps, levels, starts, starts[1:], found):
        size = numpy.array([width, height], flat.dtype)
        x, y = ((flat[:, :, start:end] * size + flat.dtype.type(0.5)).astype(numpy.int64)[..., axis] for axis in (0, 1))
        row = numpy.arange(batch * heads)[:, None, None]
        expected = pixels[name][row, :, y.clip(0, height - 1), x.clip(0, width - 1)].transpose(0, 3, 1, 2)
        if not numpy.array_equal(one, expected):
            return False
    return True


def _value_of(
    graph: Graph, maps: Sequence[str], rows: int, dim: int, levels: Sequence[tuple[int, int]]
) -> tuple[str, int, bool]:
    """The tensor [B, S, M, D] or [B, S, M D] that the levels' pixels are of, its B, and whether it has four axes."""
    if any(graph.is_symbolic(size) for size in itertools.chain(*levels)):
        raise _NotTheOperator("the size of a level is not a constant of the model: export it for one size of images")
    starts = list(itertools.accumulate((h * w for h, w in levels), initial=0))
    for name in _common(graph, maps, MOVES):
        shape = graph.shape(name)
        if shape is None or len(shape) not in (3, 4) or shape[1] != starts[-1] or shape[0] == 0 or rows % shape[0]:
            continue
        batch, heads = shape[0], rows // shape[0]
        if shape[2:] not in ((heads, dim), (heads * dim,)):
            continue
        numbers = _numbers(graph, name, shape)
        pixels = numbers.reshape(batch, -1, heads, dim).transpose(0, 2, 3, 1)
        found = graph.compute({name: numbers}, maps)
        expected = [pixels[..., a:b].reshape(rows, dim, *hw) for a, b, hw in zip(starts, starts[1:], levels)]
        if all(numpy.array_equal(one, other) for one, other in zip(found, expected)):
            return name, batch, len(shape) == 4
    raise _NotTheOperator("there is no tensor [B, S, M, D] of which each level is a part")


def _points_of(
    graph: Graph,
    inputs: Sequence[str],
    allowed: set[str],
    lead: tuple[int, int, int],
    counts: Sequence[int],
    width: int,
    scaled: Callable[[numpy.ndarray], numpy.ndarray],
    what: str,
) -> str:
    """The tensor [B, Q, M, K, width], K perhaps as [L, P], of which the inputs are parts."""
    batch, queries, heads = lead
    total = sum(counts)
    starts = list(itertools.accumulate(counts, initial=0))
    for name in _common(graph, inputs, allowed):
        shape = graph.shape(name)
        if shape is None or shape[:3] != lead or numpy.prod(shape[3:]) != total * width:
            continue
        if len(shape) - (width > 1) not in (4, 5) or (width > 1 and shape[-1] != width):
            continue
        numbers = _numbers(graph, name, shape)
        points = numbers.reshape(batch, queries, heads, total, width).transpose(0, 2, 1, 3, 4)
        points = points.reshape(batch * heads, queries, total, width)
        found = graph.compute({name: numbers}, inputs)
        expected = [scaled(points[:, :, a:b]) for a, b in zip(starts, starts[1:])]
        if all(_equal(one, other) for one, other in zip(found, expected)):
            return name
    raise _NotTheOperator(f"there is no tensor of {what} with axes [B, Q, M, ...] of which each level is a part")


def _equal(found: numpy.ndarray, expected: numpy.ndarray) -> bool:
    """Whether they have the same numbers; axes of length 1 do not count."""
    return found.size == expected.size and numpy.array_equal(found.reshape(expected.shape), expected)


def _common(graph: Graph, names: Sequence[str], allowed: set[str]) -> list[str]:
    """The tensors that all of these are made of, the nearest first."""
    ways = [list(graph.upstream(name, allowed)) for name in names]
    return [name for name in ways[0] if all(name in way for way in ways[1:])]


def _end_of(graph: Graph, instance: _Instance, batch: int, dim: int) -> tuple[str, bool]:
    """The tensor [B, Q, M D], or [B, Q, M, D], that the sum becomes, and whether heads are merged there."""
    generator = numpy.random.default_rng(0)
    feeds = {}
    samples = []
    for node in instance.samples:
        rows, _, queries, _ = shape = _known(graph, node.output[0], 4)
        samples.append(generator.integers(-8, 9, shape).astype(_dtype(graph, node.output[0])))
        feeds[node.output[0]] = samples[-1]
    total = sum(one.shape[3] for one in samples)
    weights = generator.integers(-8, 9, (rows, 1, queries, total)).astype(_dtype(graph, instance.weight))
    feeds[instance.weight] = weights.reshape(_known(graph, instance.weight, 4))
    result = (numpy.concatenate(samples, 3) * weights).sum(3).reshape(batch, rows // batch, dim, queries)
    result = result.transpose(0, 3, 1, 2)  # [B, Q, M, D]

    ends: list[str] = []
    name = instance.summed
    while node := graph.only_consumer(name):
        if node.op_type not in MOVES:
            break
        name = node.output[0]
        ends.append(name)
    for name in reversed(ends):
        if (shape := graph.shape(name)) in (result.shape, (batch, queries, rows // batch * dim)):
            if numpy.array_equal(graph.compute(feeds, [name])[0], result.reshape(shape)):
                return name, len(shape) == 3
    raise _NotTheOperator("its sum does not become a tensor [B, Q, M D]")


# ---- plugins --------------------------------------------------------------------------------------


def _replace_plugins(model: ModelProto, report: Report, reasons: dict[str, Left]) -> None:
    graph = Graph(model)
    for node in list(graph.graph.node):
        if node.op_type not in _PLUGINS:
            continue
        try:
            made, replaced = _of_plugin(graph, node, len(report.replaced))
        except _NotTheOperator as error:
            reasons[node.output[0]] = Left(node.name or node.output[0], node.op_type, str(error))
            continue
        reasons.pop(node.output[0], None)
        _splice(model, node.output[0], made)
        report.replaced.append(replaced)


def _of_plugin(graph: Graph, node: NodeProto, number: int) -> tuple[list[NodeProto], Replaced]:
    value, shapes, starts, coord, weight = node.input
    level_hw, level_start = graph.constant(shapes), graph.constant(starts)
    if level_hw is None or level_start is None:
        raise _NotTheOperator("its level sizes or starts are not constants of the model")
    packed = [0, *itertools.accumulate(int(h) * int(w) for h, w in level_hw)]
    if level_start.tolist() != packed[:-1]:
        raise _NotTheOperator(f"its levels start at {level_start.tolist()}, not one after another: {packed[:-1]}")
    points = _known(graph, weight, 5)[4]
    prefix = f"msda_{number}"
    merges = _PLUGINS[node.op_type]
    counts = [points] * len(level_hw)
    output = f"{prefix}_output" if merges else node.output[0]
    made = [_constant(f"{prefix}_level_hw", level_hw.astype(numpy.int64))]
    made.append(_function.node(_function.SAMPLED, [value, f"{prefix}_level_hw", coord, weight], output, counts))
    made[-1].name = prefix
    if merges:
        made += _reshaped(output, node.output[0], [0, 0, -1])
    was = f"{node.domain + '::' if node.domain else ''}{node.op_type} {node.name}".strip()
    return made, Replaced(prefix, was, tuple((int(h), int(w)) for h, w in level_hw), tuple(counts))


# ---- edits ----------------------------------------------------------------------------------------


def _constant(name: str, array: numpy.ndarray) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array, name))


def _reshaped(name: str, output: str, shape: Sequence[int]) -> list[NodeProto]:
    return [
        _constant(f"{output}_shape", numpy.array(shape, numpy.int64)),
        helper.make_node("Reshape", [name, f"{output}_shape"], [output]),
    ]


def _splice(model: ModelProto, end: str, made: Sequence[NodeProto]) -> None:
    """Puts nodes in the place of the one that made `end`."""
    index = next(i for i, node in enumerate(model.graph.node) if end in node.output)
    del model.graph.node[index]
    for offset, one in enumerate(made):
        model.graph.node.insert(index + offset, one)


def _drop_unused(model: ModelProto) -> None:
    """Takes out nodes and weights whose results nobody uses."""
    graph = model.graph
    needed = {one.name for one in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            kept.append(node)
            needed.update(used_by(node))
    del graph.node[:]
    graph.node.extend(reversed(kept))
    inputs = {one.name for one in graph.input}
    for values in (graph.initializer, graph.value_info):
        made = {name for node in kept for name in node.output}
        used = [one for one in values if one.name in needed | made | inputs]
        del values[:]
        values.extend(used)
