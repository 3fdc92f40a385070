"""Where an iterator stands, as one encoded variant: what a checkpoint keeps of it.

The metadata of the variant is JSON, in which a tensor is named by its number among the variant's tensors, and
bytes are written in base64.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import scalar_element, to_array
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.ir.proto import VariantTensorDataProto
from flowengine.ir.tensorproto import VariantData, decode_tensor, encode_tensor, tensor_attr
from flowengine.resources.elements import HeldTensor

#: What tells such a variant from others.
TYPE_NAME: Final = "FlowEngineIteratorState"


def encode_state(state: Any) -> VariantData:
    """A variant of what an iterator says of itself.

    Raises UnimplementedError where an element is under way that is no tensor, such as a window.
    """
    proto = VariantTensorDataProto(type_name=TYPE_NAME)
    proto.metadata = json.dumps(_written(state, proto), separators=(",", ":")).encode()
    tensors = tuple(tensor_attr(each) for each in proto.tensors)
    return VariantData(TYPE_NAME, proto.metadata, tensors, proto)


def _written(value: Any, proto: VariantTensorDataProto) -> Any:
    if value is None or isinstance(value, bool | str) or type(value) in (int, float):
        return value
    if isinstance(value, bytes):
        return {"b": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [_written(each, proto) for each in value]
    if isinstance(value, tuple):
        return {"t": [_written(each, proto) for each in value]}
    if isinstance(value, dict):
        return {"d": {name: _written(each, proto) for name, each in value.items()}}
    if isinstance(value, HeldTensor):
        return {"h": _written(value.value, proto)}
    if isinstance(value, np.ndarray | np.generic):
        array = to_array(value)
        if array.dtype.hasobject and not all(isinstance(each, bytes) for each in array.ravel().tolist()):
            return {"o": [list(array.shape), [_written(each, proto) for each in array.ravel().tolist()]]}
        dtype = dtypes.string if array.dtype.hasobject else dtypes.as_dtype(array.dtype)
        proto.tensors.append(encode_tensor(array, dtype))
        return {"a": len(proto.tensors) - 1}
    raise UnimplementedError(
        f"an iterator cannot be saved while it holds a {type(value).__name__}, which is no tensor"
    )


def decode_state(value: Any) -> Any:
    """What `encode_state` was given; InvalidArgumentError for any other variant."""
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.hasobject:
        value = value.reshape(-1)[0]
    if not isinstance(value, VariantData) or value.type_name != TYPE_NAME:
        kind = value.type_name if isinstance(value, VariantData) else type(value).__name__
        raise InvalidArgumentError(
            f"a {kind!r:.80} does not say where an iterator stood: TensorFlow's own states cannot be read. "
            "Restore the variables alone, with a Saver of the session's graph, and begin the iterator anew"
        )
    tensors = [decode_tensor(each) for each in value.proto.tensors]
    return _read(json.loads(value.metadata), tensors)


def _read(value: Any, tensors: list[Any]) -> Any:
    if isinstance(value, list):
        return [_read(each, tensors) for each in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "b":
        return base64.b64decode(content)
    if kind == "t":
        return tuple([_read(each, tensors) for each in content])
    if kind == "d":
        return {name: _read(each, tensors) for name, each in content.items()}
    if kind == "h":
        return HeldTensor(to_array(_read(content, tensors)))
    if kind == "o":
        array = np.empty(content[0], dtype=object)
        array.reshape(-1)[:] = [_read(each, tensors) for each in content[1]]
        return array
    return scalar_element(tensors[content])
