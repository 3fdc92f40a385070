"""Fields of the protocol buffers that summaries are, in the order in which TensorFlow writes them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir import wire
from flowengine.ir.wire import FIXED64, bytes_field, field, varint


def double_field(number: int, value: float) -> bytes:
    """A double of proto3: left out where it is 0 (but not where it is -0)."""
    packed = struct.pack("<d", value)
    return b"" if packed == bytes(8) else varint(number << 3 | FIXED64) + packed


def value_entry(tag: bytes, content: bytes) -> bytes:
    """One entry of a Summary: field 1 of the message, with the tag as its field 1."""
    return bytes_field(1, (bytes_field(1, tag) if tag else b"") + content)


def number_field(number: int, value: int) -> bytes:
    """A whole number of proto3: left out where it is 0."""
    return field(number, value) if value else b""


def fields(data: bytes | memoryview) -> Iterator[tuple[int, int, Any]]:
    """(number, wire type, value) of each field; InvalidArgumentError where the bytes are no message."""
    try:
        yield from wire.fields(data)
    except ValueError as error:
        raise InvalidArgumentError(f"Could not parse one of the summary inputs: {error}") from None


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
