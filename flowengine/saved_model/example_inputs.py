"""Inputs that take serialized `tf.Example`s: the features that the graph parses them into.

    features_of(model.graph, "input_example_tensor:0")["age"].dtype

Exports of Estimators have such inputs: a vector of strings, each a serialized message of named features.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import to_array
from flowengine.core.dtypes import DType
from flowengine.core.names import parse_tensor_name
from flowengine.core.shapes import TensorShape
from flowengine.functions.bodies import FunctionBodies
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.functions import FunctionLibrary
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import CALL_OPS
from flowengine.ir.proto.example_pb2 import Example
from flowengine.ir.traits import Constant, HandsOn

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

#: Ops that parse a vector of examples. The second has its keys in vectors, and ragged features.
_PARSERS: Final = ("ParseExample", "ParseExampleV2")


@dataclass(frozen=True, slots=True)
class ExampleFeature:
    """A feature that examples are parsed for.

    shape      of one example's values; None where there may be any number of them
    required   whether each example must have it
    """

    dtype: DType
    shape: TensorShape | None
    required: bool


def features_of(graph: Graph, tensor: str) -> dict[str, ExampleFeature]:
    """Return {name: feature} of the examples that a tensor takes; empty where nothing parses it as such.

    A tensor may be parsed in a function that the graph calls with it, as in exports of TensorFlow 2.
    """
    library = FunctionLibrary(graph.library, graph.registry, graph.producer)
    return _features(graph, OutputPort(*parse_tensor_name(tensor)), FunctionBodies(library), frozenset())


def _features(
    nodes: NodeGraph, port: OutputPort, bodies: FunctionBodies, within: frozenset[str]
) -> dict[str, ExampleFeature]:
    """The features of a port's examples; `within` names the functions around, which may call themselves."""
    found: dict[str, ExampleFeature] = {}
    for node in nodes:
        if port not in node.inputs:
            continue
        if node.op in _PARSERS and node.inputs[0] == port:
            found |= _parsed(nodes, node)
        elif node.has(HandsOn) and node.inputs[0] == port:
            found |= _features(nodes, OutputPort(node.name, 0), bodies, within)
        elif node.op in CALL_OPS:
            function: FuncAttr = node.attrs["f"]
            if function.name in bodies.library and function.name not in within:
                body = bodies.of(function)
                for argument, given in zip(body.arguments, node.inputs, strict=True):
                    if given == port:
                        found |= _features(body.graph, argument, bodies, within | {function.name})
    return found


def _parsed(nodes: NodeGraph, node: Node) -> dict[str, ExampleFeature]:
    types: Sequence[DType] = node.attrs["Tdense"]
    sparse_types: Sequence[DType] = node.attrs["sparse_types"]
    shapes: Sequence[TensorShape] = node.attrs["dense_shapes"]
    ragged_types: Sequence[DType] = node.attrs.get("ragged_value_types", [])
    if node.op == _PARSERS[0]:
        ends = (2, 2 + len(sparse_types), 2 + len(sparse_types) + len(types))
        sparse, dense = (_texts(nodes, node.inputs[a:b]) for a, b in itertools.pairwise(ends))
        ragged: list[Any] = []
    else:
        sparse, dense, ragged = (_texts(nodes, node.inputs[at : at + 1]) for at in (2, 3, 4))
    defaults = node.inputs[len(node.inputs) - len(types) :]
    found = {
        key: ExampleFeature(dtype, None, required=False)
        for keys, kinds in ((sparse, sparse_types), (ragged, ragged_types))
        for key, dtype in zip(keys, kinds, strict=False)
    }
    for key, dtype, shape, default in zip(dense, types, shapes, defaults, strict=False):
        value = _constant(nodes, default)
        varies = shape.dims is None or None in shape.dims
        required = value is not None and not to_array(value).size and not varies
        found[key] = ExampleFeature(dtype, None if varies else shape, required)
    return found


def _constant(nodes: NodeGraph, port: OutputPort) -> Any:
    """The value of a constant, or of one that is handed on; None of what is no constant."""
    node = nodes[port.node]
    while node.has(HandsOn):
        node = nodes[node.inputs[0].node]
    constant = node.trait(Constant)
    return None if constant is None else node.attrs[constant.value].value()


def _texts(nodes: NodeGraph, ports: Iterable[OutputPort]) -> list[str]:
    """The texts of constants, one after another; none of what is no constant."""
    found: list[str] = []
    for port in ports:
        value = _constant(nodes, port)
        if value is not None:
            found += [each.decode() for each in to_array(value).reshape(-1).tolist()]
    return found


def serialized(features: Mapping[str, ExampleFeature], columns: Mapping[str, Any], count: int) -> Any:
    """Return `count` serialized examples, (count,) of bytes.

    columns   {feature: an array (count, ...), or a list with None for an example that lacks it}
    """
    found = np.empty(count, dtype=object)
    examples = [Example() for _ in range(count)]
    for key, values in columns.items():
        kind = features[key].dtype
        part = "bytes_list" if kind is dtypes.string else "int64_list" if kind.is_integer else "float_list"
        for example, value in zip(examples, _lists(values), strict=True):
            if value is not None:
                getattr(example.features.feature[key], part).value.extend(value)
    found[:] = [example.SerializeToString() for example in examples]
    return found


def _lists(values: Any) -> list[Any]:
    """The values of each example as a list, or None."""
    if isinstance(values, list):
        return [None if each is None else np.ravel(each).tolist() for each in values]
    flat: list[Any] = values.reshape(len(values), -1).tolist()
    return flat


__all__ = ["ExampleFeature", "features_of", "serialized"]
