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
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.proto.example_pb2 import Example

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

    Of functions that the graph calls nothing is known.
    """
    port = OutputPort(*parse_tensor_name(tensor))
    found: dict[str, ExampleFeature] = {}
    for node in graph:
        if node.op in _PARSERS and node.inputs[0] == port:
            found |= _parsed(graph, node)
    return found


def _parsed(graph: Graph, node: Node) -> dict[str, ExampleFeature]:
    types: Sequence[DType] = node.attrs["Tdense"]
    sparse_types: Sequence[DType] = node.attrs["sparse_types"]
    shapes: Sequence[TensorShape] = node.attrs["dense_shapes"]
    ragged_types: Sequence[DType] = node.attrs.get("ragged_value_types", [])
    if node.op == _PARSERS[0]:
        ends = (2, 2 + len(sparse_types), 2 + len(sparse_types) + len(types))
        sparse, dense = (_values(graph, node.inputs[a:b]) for a, b in itertools.pairwise(ends))
        ragged: list[Any] = []
    else:
        sparse, dense, ragged = (_values(graph, node.inputs[at : at + 1]) for at in (2, 3, 4))
    defaults = node.inputs[len(node.inputs) - len(types) :]
    found = {
        key: ExampleFeature(dtype, None, required=False)
        for keys, kinds in ((sparse, sparse_types), (ragged, ragged_types))
        for key, dtype in zip(keys, kinds, strict=False)
    }
    for key, dtype, shape, default in zip(dense, types, shapes, defaults, strict=False):
        value = graph.constant_value(graph.tensor(str(default)))
        varies = shape.dims is None or None in shape.dims
        required = value is not None and not to_array(value).size and not varies
        found[key] = ExampleFeature(dtype, None if varies else shape, required)
    return found


def _values(graph: Graph, ports: Iterable[OutputPort]) -> list[str]:
    """The texts of constants, one after another; none of what is no constant."""
    found: list[str] = []
    for port in ports:
        value = graph.constant_value(graph.tensor(str(port)))
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
