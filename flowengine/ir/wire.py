"""Protocol buffer messages as bytes, field by field: for messages that are small, or whose bytes are given.

    bytes_field(1, b"name") + field(2, 300)          # a message of two fields
    for number, kind, value in fields(data): ...     # and read again

Everything that reads or writes a varint does it here, but for the scans of many serialised examples
(`kernels/io/example_lists.py`): these look at the bytes of all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

_U64: Final = 0xFFFFFFFFFFFFFFFF


def varint(value: int) -> bytes:
    """An integer in groups of seven bits, lowest first; a negative one as its 64-bit complement."""
    value &= _U64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """The unsigned integer at a position, and the position after it; ValueError where it does not end."""
    size = len(data)
    if position < size and (byte := data[position]) < 0x80:  # most are lengths and tags of one byte
        return byte, position + 1
    value = shift = 0
    while shift < 70 and position < size:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _U64, position
        shift += 7
    raise ValueError("an integer does not end")


def signed(value: int) -> int:
    """The 64-bit integer that an unsigned one stands for."""
    return value - (1 << 64) if value >> 63 else value


def field(number: int, value: int) -> bytes:
    """An integer field."""
    return varint(number << 3 | VARINT) + varint(value)


def fixed32_field(number: int, value: int) -> bytes:
    return varint(number << 3 | FIXED32) + value.to_bytes(4, "little")


def bytes_field(number: int, value: bytes) -> bytes:
    """A field that holds bytes, text, a message or packed numbers."""
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def fields(data: bytes | memoryview) -> Iterator[tuple[int, int, Any]]:
    """(number, wire type, value) of each field: an int, or a memoryview for bytes.

    Raises ValueError where the bytes are no message.
    """
    view = memoryview(data)
    position = 0
    while position < len(view):
        tag, position = read_varint(view, position)
        kind = tag & 7
        if kind == VARINT:
            value, position = read_varint(view, position)
            yield tag >> 3, kind, value
            continue
        if kind == BYTES:
            size, position = read_varint(view, position)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise ValueError(f"wire type {kind} is not known")
        if size > len(view) - position:
            raise ValueError("a field is longer than its message")
        content = view[position : position + size]
        position += size
        yield tag >> 3, kind, content if kind == BYTES else int.from_bytes(content, "little")


def encode_varints(values: Array) -> bytes:
    """Many integers, one after the other; `values`: uint64 [n]."""
    lengths = np.ones(len(values), np.intp)
    for bits in range(7, 64, 7):
        lengths += values >= np.uint64(1 << bits)
    ends = np.cumsum(lengths)
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    starts = ends - lengths
    for place in range(int(lengths.max(initial=0))):
        chosen = np.flatnonzero(lengths > place)
        group = (values[chosen] >> np.uint64(7 * place)) & np.uint64(0x7F)
        more = np.where(lengths[chosen] > place + 1, np.uint64(0x80), np.uint64(0))
        out[starts[chosen] + place] = group | more
    return out.tobytes()


def decode_varints(data: Any, count: int | None = None) -> tuple[Array, int]:
    """Many integers as uint64 [n], and how many bytes they take; all of `data` where no count is given.

    Raises ValueError where there are fewer, or one does not end.
    """
    octets = np.frombuffer(data, np.uint8)
    if count is not None:
        octets = octets[: 10 * count]
    ends = np.flatnonzero(octets < 0x80) + 1
    if count is not None:
        ends = ends[:count]
    used = int(ends[-1]) if len(ends) else 0
    if (count is None and used != len(octets)) or (count is not None and len(ends) != count):
        raise ValueError("an integer does not end")
    starts = np.concatenate([np.zeros(1, ends.dtype), ends[:-1]])[: len(ends)]
    lengths = ends - starts
    if lengths.max(initial=0) > 10:
        raise ValueError("an integer does not end")
    values = np.zeros(len(ends), np.uint64)
    for place in range(int(lengths.max(initial=0))):
        chosen = np.flatnonzero(lengths > place)
        group = octets[starts[chosen] + place].astype(np.uint64) & np.uint64(0x7F)
        values[chosen] |= group << np.uint64(7 * place)
    return values, used
