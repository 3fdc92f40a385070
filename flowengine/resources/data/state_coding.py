"""The state of an iterator as one encoded variant, which a checkpoint keeps.

The metadata of the variant is JSON, in which a tensor is named by its number among the variant's tensors, and
bytes are written in base64. A dataset that is under way, such as a window, is written as its graph.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, describe, scalar_element, to_array
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.ir.proto import VariantTensorDataProto
from flowengine.ir.tensorproto import VariantData, decode_tensor, encode_tensor, tensor_attr
from flowengine.resources.data.dataset import DatasetValue
from flowengine.resources.elements import HeldTensor

#: What tells such a variant from others.
TYPE_NAME: Final = "FlowEngineIteratorState"


def encode_state(state: Any, graph_of: Callable[[DatasetValue], bytes]) -> VariantData:
    """A variant of what an iterator says of itself.

    graph_of   gives the graph that makes a dataset, serialised

    Raises UnimplementedError where an element is under way that is neither tensor nor dataset, and what
    `graph_of` raises for a dataset that has no graph.
    """
    proto = VariantTensorDataProto(type_name=TYPE_NAME)
    written = _StateWriter(proto, graph_of).written(state)
    proto.metadata = json.dumps(written, separators=(",", ":")).encode()
    tensors = tuple(tensor_attr(each) for each in proto.tensors)
    return VariantData(TYPE_NAME, proto.metadata, tensors, proto)


class _StateWriter:
    """Writes values as JSON, and adds their tensors to a variant."""

    __slots__ = ("_graph_of", "_proto")

    def __init__(self, proto: VariantTensorDataProto, graph_of: Callable[[DatasetValue], bytes]) -> None:
        self._proto = proto
        self._graph_of = graph_of

    def written(self, value: Any) -> Any:
        """The JSON of a value."""
        if value is None or isinstance(value, bool | str) or type(value) in (int, float):
            return value
        if isinstance(value, bytes):
            return {"b": base64.b64encode(value).decode()}
        if isinstance(value, list):
            return list(map(self.written, value))
        if isinstance(value, tuple):
            return {"t": list(map(self.written, value))}
        if isinstance(value, dict):
            return {"d": {name: self.written(each) for name, each in value.items()}}
        if isinstance(value, HeldTensor):
            return {"h": self.written(value.value)}
        if isinstance(value, DatasetValue):
            return {"g": base64.b64encode(self._graph_of(value)).decode()}
        if isinstance(value, np.ndarray | np.generic):
            return self._array(to_array(value))
        raise UnimplementedError(
            f"an iterator cannot be saved while it holds a {type(value).__name__}, which is not a tensor"
        )

    def _array(self, array: Array) -> Any:
        if array.dtype.hasobject and not all(isinstance(each, bytes) for each in array.ravel().tolist()):
            return {"o": [list(array.shape), list(map(self.written, array.ravel().tolist()))]}
        dtype = dtypes.string if array.dtype.hasobject else dtypes.as_dtype(array.dtype)
        self._proto.tensors.append(encode_tensor(array, dtype))
        return {"a": len(self._proto.tensors) - 1}


def decode_state(value: Any, dataset_of: Callable[[bytes], DatasetValue]) -> Any:
    """Decode the state given to `encode_state`; InvalidArgumentError for any other variant.

    dataset_of   gives the dataset that a graph makes
    """
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.hasobject:
        value = value.reshape(-1)[0]
    if not isinstance(value, VariantData) or value.type_name != TYPE_NAME:
        kind = f"variant {value.type_name!r:.80}" if isinstance(value, VariantData) else describe(value)
        raise InvalidArgumentError(
            f"a value of {kind} is not the state of an iterator, and states that TensorFlow saved cannot be "
            "read: restore only the variables, with a Saver of the session's graph, and start the iterator "
            "again"
        )
    tensors = [decode_tensor(each) for each in value.proto.tensors]
    return _read(json.loads(value.metadata), tensors, dataset_of)


def _read(value: Any, tensors: list[Any], dataset_of: Callable[[bytes], DatasetValue]) -> Any:
    if isinstance(value, list):
        return [_read(each, tensors, dataset_of) for each in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "b":
        return base64.b64decode(content)
    if kind == "t":
        return tuple([_read(each, tensors, dataset_of) for each in content])
    if kind == "d":
        return {name: _read(each, tensors, dataset_of) for name, each in content.items()}
    if kind == "g":
        return dataset_of(base64.b64decode(content))
    if kind == "h":
        return HeldTensor(to_array(_read(content, tensors, dataset_of)))
    if kind == "o":
        array = np.empty(content[0], dtype=object)
        array.reshape(-1)[:] = [_read(each, tensors, dataset_of) for each in content[1]]
        return array
    return scalar_element(tensors[content])
