"""Signatures of a SavedModel as a box tells them, and as its host believes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Value, to_array
from flowengine.core.dtypes import as_dtype
from flowengine.core.errors import OpError
from flowengine.core.shapes import TensorShape
from flowengine.core.text import printable
from flowengine.saved_model.signatures import SignatureFacts, SignatureTensor
from flowengine.transport.calls.service import Reply
from flowengine.transport.errors import RemoteProtocolError

_NAME_MAX: Final = 1024


def encoded(signatures: Mapping[str, SignatureFacts]) -> Reply:
    """Encode the box's signatures: a table, and beside it the values of inputs that may be left out."""
    defaults: list[Value] = []

    def side(tensors: Mapping[str, SignatureTensor]) -> dict[str, Any]:
        return {name: _entry(each, defaults) for name, each in tensors.items()}

    table = {
        name: {"inputs": side(each.inputs), "outputs": side(each.outputs), "method": each.method}
        for name, each in signatures.items()
    }
    return Reply(table, defaults)


def _entry(tensor: SignatureTensor, defaults: list[Value]) -> dict[str, Any]:
    dims = tensor.shape.dims
    entry = {
        "tensors": list(tensor.tensors),
        "dtype": tensor.dtype.name,
        "dims": None if dims is None else list(dims),
        "sparse": tensor.is_sparse,
        "composite": tensor.is_composite,
        "default": -1,
    }
    if tensor.default is not None:
        entry["default"] = len(defaults)
        default = tensor.default
        defaults.append(default if isinstance(default, np.ndarray) else to_array(default))
    return entry


def believed(reply: Reply) -> dict[str, SignatureFacts]:
    """Decode signatures from the box's reply. Raises RemoteProtocolError for an invalid table."""
    try:
        return {
            _name(name): SignatureFacts(
                _name(name),
                _side(each["inputs"], reply.tensors),
                _side(each["outputs"], reply.tensors),
                _name(each["method"]),
            )
            for name, each in reply.result.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, OpError):
        raise RemoteProtocolError("the sandbox speaks of signatures that make no sense") from None


def _name(text: Any) -> str:
    if not isinstance(text, str) or len(text) > _NAME_MAX:
        raise TypeError
    return printable(text)


def _side(table: Any, defaults: Any) -> dict[str, SignatureTensor]:
    return {_name(name): _tensor(entry, defaults) for name, entry in table.items()}


def _tensor(entry: Any, defaults: Any) -> SignatureTensor:
    dims, index = entry["dims"], entry["default"]
    if not (isinstance(entry["tensors"], list) and type(index) is int and -1 <= index < len(defaults)):
        raise TypeError
    return SignatureTensor(
        tuple(map(_name, entry["tensors"])),
        as_dtype(_name(entry["dtype"])),
        TensorShape(None if dims is None else [None if each is None else int(each) for each in dims]),
        bool(entry["sparse"]),
        bool(entry["composite"]),
        None if index < 0 else defaults[index],
    )


__all__ = ["believed", "encoded"]
