"""Fields of the protocol buffers that summaries are, in the order in which TensorFlow writes them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError


def varint(number: int) -> bytes:
    result = bytearray()
    while number > 0x7F:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    result.append(number)
    return bytes(result)


def bytes_field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def double_field(number: int, value: float) -> bytes:
    """A double of proto3: left out where it is 0 (but not where it is -0)."""
    packed = struct.pack("<d", value)
    return b"" if packed == bytes(8) else varint(number << 3 | 1) + packed


def value_entry(tag: bytes, content: bytes) -> bytes:
    """One entry of a Summary: field 1 of the message, with the tag as its field 1."""
    return bytes_field(1, (bytes_field(1, tag) if tag else b"") + content)


def number_field(number: int, value: int) -> bytes:
    """A whole number of proto3: left out where it is 0."""
    return varint(number << 3) + varint(value) if value else b""


def _readvarint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise InvalidArgumentError("Could not parse one of the summary inputs")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, position


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, payload) of each field; InvalidArgumentError where the bytes are no message."""
    position = 0
    while position < len(data):
        key, position = _readvarint(data, position)
        kind = key & 7
        if kind == 0:
            start = position
            _, position = _readvarint(data, position)
            yield key >> 3, data[start:position]
            continue
        if kind == 2:
            size, position = _readvarint(data, position)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise InvalidArgumentError("Could not parse one of the summary inputs")
        if position + size > len(data):
            raise InvalidArgumentError("Could not parse one of the summary inputs")
        yield key >> 3, data[position : position + size]
        position += size


def tensor_fields(array: Array, dtype: DType | None = None) -> bytes:
    """A TensorProto with all bytes of the tensor as they lie, or its strings one by one."""
    kind = as_dtype("string" if array.dtype.kind == "O" else array.dtype) if dtype is None else dtype
    shape = b"".join(bytes_field(2, number_field(1, size)) for size in array.shape)
    head = number_field(1, kind.number) + bytes_field(2, shape)
    if array.dtype.kind == "O":
        return head + b"".join(bytes_field(8, text) for text in array.reshape(-1).tolist())
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return head + (bytes_field(4, np.ascontiguousarray(little).tobytes()) if array.size else b"")


def is_message(data: bytes) -> bool:
    """Whether the bytes are fields one behind the other."""
    try:
        for _ in fields(data):
            pass
    except InvalidArgumentError:
        return False
    return True
