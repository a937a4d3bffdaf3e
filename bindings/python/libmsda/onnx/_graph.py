"""A graph as the rewriter reads it: who makes and uses a tensor, its shape, and what a few of its nodes compute."""

import ast
import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy
import onnx
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

# They only move or copy elements.
MOVES = {
    "Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze",
}  # fmt: skip
# They compute each element from the one at its place.
ELEMENTWISE = {"Add", "Cast", "Div", "Mul", "Sub"}
# The sizes that stand for symbols while nodes are evaluated: primes that no model is likely to have.
_STAND_INS = (3, 11, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)
_MOST_TURNS = 16
_LARGEST_FOLDED = 65536  # elements


class CannotEvaluate(Exception):
    """Why some nodes cannot be computed alone."""


class Graph:
    """The tables of a model's main graph, for one moment: edits make them stale."""

    def __init__(self, model: ModelProto):
        self.model = model
        self.graph: GraphProto = model.graph
        self.producer: dict[str, NodeProto] = {}
        self.consumers: dict[str, list[NodeProto]] = {}
        self.constants: dict[str, numpy.ndarray | None] = {}
        self.initializers = {one.name: one for one in self.graph.initializer}
        for node in self.graph.node:
            for name in node.output:
                self.producer[name] = node
            for name in used_by(node):
                self.consumers.setdefault(name, []).append(node)
        self.outputs = {one.name for one in self.graph.output}
        self._sizes: dict[str, int] = {}  # of symbols
        self._symbols = {dim.dim_param for one in self.graph.input for dim in one.type.tensor_type.shape.dim}
        self._shapes, self._types = self._described()

    def _described(self) -> tuple[dict[str, tuple[int | None, ...]], dict[str, int]]:
        """Shapes and types of all tensors, as far as they are known. Exporters compute many shapes by nodes: what these
        give is a constant where the shapes that they begin with are known, so inference and folding take turns."""
        copy = _without_weights(self.model)
        shapes: dict[str, tuple[int | None, ...]] = {}
        types: dict[str, int] = {}
        for _ in range(_MOST_TURNS):
            inferred = onnx.shape_inference.infer_shapes(copy, data_prop=True)
            values = (*self.graph.value_info, *inferred.graph.value_info)
            for value in (*values, *self.graph.output, *copy.graph.input):
                tensor = value.type.tensor_type
                types[value.name] = tensor.elem_type or types.get(value.name, 0)
                if tensor.HasField("shape"):
                    known = tuple(self._size(dim) for dim in tensor.shape.dim)
                    if None not in known or value.name not in shapes:
                        shapes[value.name] = known
            if not self._fold(copy, shapes):
                break
        for name, one in self.initializers.items():
            shapes[name], types[name] = tuple(one.dims), one.data_type
        return shapes, types

    def _fold(self, copy: ModelProto, shapes: dict[str, tuple[int | None, ...]]) -> bool:
        """Makes initializers of what nodes compute from small constants and known shapes; False where there is none."""
        values = self.constants
        for one in copy.graph.initializer:
            if one.name not in values:
                values[one.name] = numpy_helper.to_array(one)
        kept, folded = [], []
        for node in copy.graph.node:
            shape = shapes.get(node.input[0]) if node.input else None
            is_static = shape is not None and not any(size is None or self.is_symbolic(size) for size in shape)
            if node.op_type in ("Shape", "Size") and is_static:
                feeds = {node.input[0]: numpy.zeros(shape, numpy.bool_)}  # type: ignore[arg-type]
            else:
                feeds = {name: values[name] for name in node.input if name and values.get(name) is not None}
            is_pure = node.op_type not in ("RandomNormal", "RandomUniform") and node.domain in ("", "ai.onnx")
            inner = any(one.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for one in node.attribute)
            if is_pure and not inner and all(not name or name in feeds for name in node.input):
                try:
                    made = _evaluate([node], feeds, list(node.output), copy)
                except Exception:  # noqa: BLE001  the evaluator lacks the operator or the case
                    made = []
                if made and all(isinstance(one, numpy.ndarray | numpy.generic) and one.size <= _LARGEST_FOLDED for one in made):
                    values |= zip(node.output, map(numpy.asarray, made))
                    folded += node.output
                    continue
            kept.append(node)
        del copy.graph.node[:], copy.graph.value_info[:]
        copy.graph.node.extend(kept)
        copy.graph.initializer.extend(numpy_helper.from_array(values[name], name) for name in folded)
        return bool(folded)

    def _size(self, dim: Any) -> int | None:
        if dim.HasField("dim_value"):
            return int(dim.dim_value)
        names = set(re.findall(r"[A-Za-z_]\w*", dim.dim_param))
        is_given = dim.dim_param in self._symbols or (names and names <= self._symbols)  # inference makes names, too
        return self._evaluated(dim.dim_param) if is_given else None

    def _evaluated(self, text: str) -> int | None:
        """A size from its expression, such as "8*batch"."""
        actions = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}

        def value(node: ast.AST) -> int:
            if isinstance(node, ast.Constant) and isinstance(node.value, int):
                return node.value
            if isinstance(node, ast.Name):
                new = _STAND_INS[len(self._sizes) % len(_STAND_INS)]
                return self._sizes.setdefault(node.id, new)
            if isinstance(node, ast.BinOp) and type(node.op) in actions:
                return int(actions[type(node.op)](value(node.left), value(node.right)))
            raise ValueError

        try:
            return value(ast.parse(text, mode="eval").body)
        except (SyntaxError, ValueError, ZeroDivisionError):
            return self._sizes.setdefault(text, _STAND_INS[len(self._sizes) % len(_STAND_INS)])

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Its sizes, with numbers in the place of symbols; None where one of them is not known."""
        shape = self._shapes.get(name)
        return None if shape is None or None in shape else shape  # type: ignore[return-value]

    def is_symbolic(self, size: int) -> bool:
        return size in self._sizes.values()

    def element_type(self, name: str) -> int:
        return self._types.get(name, 0)

    def constant(self, name: str) -> numpy.ndarray | None:
        """The value of an initializer, or what nodes compute from constants; None where it is no constant."""
        if name not in self.constants:
            one = self.initializers.get(name)
            self.constants[name] = None if one is None else numpy_helper.to_array(one)
        return self.constants[name]

    def data_input(self, node: NodeProto) -> str | None:
        """Returns the one input of a node that moves or scales; None where it has two."""
        if node.op_type in MOVES - {"Concat"}:
            return str(node.input[0])
        given = [name for name in node.input if name and self.constant(name) is None]
        return given[0] if len(given) == 1 else None

    def upstream(self, name: str, allowed: set[str]) -> Iterator[str]:
        """The tensor and those that it is made of, one after another, as long as nodes are among `allowed`."""
        current: str | None = name
        while current is not None:
            yield current
            node = self.producer.get(current)
            current = self.data_input(node) if node is not None and node.op_type in allowed else None

    def only_consumer(self, name: str) -> NodeProto | None:
        users = [one for one in self.consumers.get(name, []) if one.op_type not in ("Shape", "Size")]
        return users[0] if len(users) == 1 and name not in self.outputs else None

    def compute(self, feeds: dict[str, numpy.ndarray], wanted: Sequence[str]) -> list[numpy.ndarray]:
        """What the graph makes of these tensors. Shapes of others are known, so their values are not needed."""
        nodes: list[NodeProto] = []
        done, constants = set(feeds), {}

        def need(name: str) -> None:
            if not name or name in done:
                return
            done.add(name)
            if (value := self.constant(name)) is not None:
                constants[name] = value
                return
            node = self.producer.get(name)
            if node is None:
                raise CannotEvaluate(f"{name} is an input of the model")
            if node.op_type in ("Shape", "Size") and node.domain in ("", "ai.onnx"):
                shape = self.shape(node.input[0])
                if shape is None:
                    raise CannotEvaluate(f"the shape of {node.input[0]} is not known")
                start, end = (next((a.i for a in node.attribute if a.name == key), None) for key in ("start", "end"))
                sizes = numpy.array(shape, numpy.int64)
                constants[name] = sizes[start:end] if node.op_type == "Shape" else sizes.prod()
                return
            for one in node.input:
                need(one)
            nodes.append(node)
            done.update(node.output)

        for name in wanted:
            need(name)
        try:
            return _evaluate(nodes, feeds | constants, wanted, self.model)
        except CannotEvaluate:
            raise
        except Exception as error:
            raise CannotEvaluate(f"its nodes cannot be computed alone: {error}") from error


def used_by(node: NodeProto) -> Iterable[str]:
    """Inputs, and what graphs inside the node take from outside."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs:
            for inner in graph.node:
                yield from used_by(inner)
            yield from (one.name for one in graph.output)


def _without_weights(model: ModelProto) -> ModelProto:
    """The model for shape inference: it copies what it is given, and large weights have no say in shapes."""
    small = ModelProto()
    small.ir_version = model.ir_version
    small.opset_import.extend(model.opset_import)
    small.functions.extend(model.functions)
    graph = small.graph
    graph.name = model.graph.name or "graph"
    graph.node.extend(model.graph.node)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    inputs = {one.name: one for one in model.graph.input}
    for one in model.graph.initializer:
        if numpy.prod(one.dims, dtype=numpy.int64) <= 1024:
            graph.initializer.append(one)
        elif one.name not in inputs:
            inputs[one.name] = helper.make_tensor_value_info(one.name, one.data_type, list(one.dims))
    graph.input.extend(inputs.values())
    return small


def _model(
    nodes: Sequence[NodeProto], inputs: Sequence[str], outputs: Sequence[str], like: ModelProto | None = None
) -> ModelProto:
    values = [[helper.make_empty_tensor_value_info(name) for name in names] for names in (inputs, outputs)]
    graph = helper.make_graph(nodes, "part", *values)
    imports = like.opset_import if like is not None else [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=imports)


def _evaluate(
    nodes: Sequence[NodeProto],
    feeds: dict[str, numpy.ndarray],
    wanted: Sequence[str],
    like: ModelProto | None = None,
) -> list[numpy.ndarray]:
    made = {name for node in nodes for name in node.output}
    values = dict(feeds)
    if rest := [name for name in wanted if name in made]:
        used = {name for node in nodes for name in node.input}
        inputs = [name for name in feeds if name in used]
        evaluator = ReferenceEvaluator(_model(nodes, inputs, rest, like))
        values |= zip(rest, evaluator.run(None, {name: feeds[name] for name in inputs}))
    return [values[name] for name in wanted]
