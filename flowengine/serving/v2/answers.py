"""The answer to an inference: JSON, and behind it the outputs that are binary data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces
from flowengine.serving.text.values import array_of
from flowengine.serving.text.writing import written
from flowengine.serving.v2.binary import bytes_of, write_binary
from flowengine.serving.v2.datatypes import BINARY_ONLY, datatype_of
from flowengine.serving.v2.inference import InferRequest, not_in_json

#: Strings that are written at a time.
_STRINGS: Final = 1000


class InferAnswer(NamedTuple):
    """The answer to a request.

    pieces          of its body
    header_length   the bytes of JSON, if binary data follows them; None if none does
    """

    pieces: list[bytes]
    header_length: int | None


def write_infer(
    model: str, version: int, request: InferRequest, outputs: Mapping[str, Any]
) -> Pieces[InferAnswer]:
    """Write the outputs that a request asks for, in its order.

    outputs   {output: array}

    Raises InvalidArgumentError for an output that JSON cannot carry, and was asked for as JSON.
    """
    head: dict[str, Any] = {"model_name": model, "model_version": str(version)}
    if request.id is not None:
        head["id"] = request.id
    texts = [_json(head)[:-1] + b', "outputs": [']
    binary: list[bytes] = []
    before = b""
    for name, is_binary in request.outputs.items():
        array = array_of(outputs[name])
        described = _json({"name": name, "datatype": _datatype(array), "shape": list(array.shape)})[:-1]
        texts.append(before + described)
        before = b", "
        if is_binary:
            pieces = yield from write_binary(array)
            binary += pieces
            texts.append(b', "parameters": {"binary_data_size": %d}}' % sum(map(len, pieces)))
        else:
            texts.append(b', "data": ')
            texts += yield from _data(name, array)
            texts.append(b"}")
    texts.append(b"]}")
    return InferAnswer(texts + binary, sum(map(len, texts)) if binary else None)


def _datatype(array: Array) -> str:
    is_text = array.dtype == object or array.dtype.kind in "SU"
    return "BYTES" if is_text else datatype_of(dtypes.as_dtype(array.dtype))


def _data(name: str, array: Array) -> Pieces[list[bytes]]:
    """The elements of an output as one list of JSON."""
    datatype = _datatype(array)
    if datatype in BINARY_ONLY:
        raise not_in_json(datatype)
    if datatype != "BYTES":
        return (yield from written(array.reshape(-1)))
    flat, texts = array.reshape(-1), []
    for begin in range(0, flat.size, _STRINGS):
        try:
            strings = [bytes_of(each).decode() for each in flat[begin : begin + _STRINGS].tolist()]
        except UnicodeDecodeError:
            raise InvalidArgumentError(
                f"output '{name}' has bytes that are no UTF-8: ask for it as binary data"
            ) from None
        texts.append((b"," if begin else b"[") + _json(strings)[1:-1])
        yield
    return [*(texts or [b"["]), b"]"]


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape")


__all__ = ["InferAnswer", "write_infer"]
