"""One serialised example walked through by hand: where the list of each feature lies, and what is in it.

For a single small example this takes less than a third of the time that a parser of protocol buffers and its
objects take. As in `example_scan`, an example of another form is Irregular, and the general parser reads it.
A number of one byte, as nearly all are, is read on the spot: a call each would take as long as all the rest.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.ir.wire import read_varint
from flowengine.kernels.io.example_lists import Irregular

#: For each key: the tag of its list (0: none), where the list begins, where it ends.
Places: TypeAlias = dict[bytes, tuple[int, int, int]]

_TAGS: Final = {dtypes.string: 0x0A, dtypes.float32: 0x12, dtypes.int64: 0x1A}
_FLOAT: Final = struct.Struct("<f")


def places(data: bytes) -> Places:
    """Find the lists of an example's features in its bytes. Raises Irregular."""
    try:
        return _places(data)
    except (IndexError, ValueError):
        raise Irregular from None


def _places(data: bytes) -> Places:
    found: Places = {}
    end = len(data)
    if not end:
        return found
    size, at = (data[1], 2) if data[1] < 0x80 else read_varint(data, 1)
    if data[0] != 0x0A or at + size != end:
        raise Irregular
    while at < end:
        tag = data[at]
        size, begin = (data[at + 1], at + 2) if data[at + 1] < 0x80 else read_varint(data, at + 1)
        stop = begin + size
        if tag != 0x0A or stop > end or data[begin] != 0x0A:
            raise Irregular
        size, at = (data[begin + 1], begin + 2) if data[begin + 1] < 0x80 else read_varint(data, begin + 1)
        value = at + size
        if value >= stop or data[value] != 0x12:
            raise Irregular
        key = data[at:value]
        size, at = (data[value + 1], value + 2) if data[value + 1] < 0x80 else read_varint(data, value + 1)
        if at + size != stop or key in found:
            raise Irregular
        if not size:
            found[key] = (0, stop, stop)
        else:
            tag = data[at]
            size, begin = (data[at + 1], at + 2) if data[at + 1] < 0x80 else read_varint(data, at + 1)
            if begin + size != stop or tag not in (0x0A, 0x12, 0x1A):
                raise Irregular
            found[key] = (tag, begin, stop)
        at = stop
    return found


def values(data: bytes, place: tuple[int, int, int], dtype: DType) -> Any | None:
    """Read a list: bytes or numbers in a list, floats as an array; None if there is no list.

    Raises Irregular, also for a list of another type.
    """
    tag, at, stop = place
    if not tag:
        return None
    if tag != _TAGS[dtype]:
        raise Irregular
    try:
        return _strings(data, at, stop) if tag == 0x0A else _numbers(data, at, stop, tag)
    except (IndexError, ValueError):
        raise Irregular from None


def _strings(data: bytes, at: int, stop: int) -> list[bytes]:
    out = []
    while at < stop:
        size, begin = (data[at + 1], at + 2) if data[at + 1] < 0x80 else read_varint(data, at + 1)
        if data[at] != 0x0A or begin + size > stop:
            raise Irregular
        at = begin + size
        out.append(data[begin:at])
    return out


def _numbers(data: bytes, at: int, stop: int, tag: int) -> Any:
    if at == stop:
        return []
    size, begin = (data[at + 1], at + 2) if data[at + 1] < 0x80 else read_varint(data, at + 1)
    if data[at] != 0x0A or begin + size != stop:
        raise Irregular
    if tag == 0x12:
        if size % 4:
            raise Irregular
        return _FLOAT.unpack_from(data, begin) if size == 4 else np.frombuffer(data, "<f4", size // 4, begin)
    out = []
    at = begin
    while at < stop:
        value, at = (data[at], at + 1) if data[at] < 0x80 else read_varint(data, at)
        out.append(value - 2**64 if value >= 2**63 else value)
    if at != stop:
        raise Irregular
    return out


def array(found: Any, dtype: DType) -> Array:
    """Values as an array of rank 1 with memory of its own."""
    if dtype is dtypes.string:
        out = np.empty(len(found), object)
        out[:] = found
        return out
    return np.array(found, dtype.as_numpy_dtype)
