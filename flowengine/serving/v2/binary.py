"""Triton's binary tensors: elements in little-endian order; strings behind their lengths of four bytes."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces

#: Bytes that are copied at a time.
_COPIED: Final = 1 << 19
#: Strings that are read or written at a time: about half a millisecond.
_STRINGS: Final = 1000
_LENGTH: Final = struct.Struct("<I")


def read_binary(
    name: str, dtype: DType, shape: tuple[int, ...], count: int, data: memoryview
) -> Pieces[Array]:
    """Read the elements of an input; strings as objects of bytes.

    count   the number of elements of the shape

    Raises InvalidArgumentError if the data has another size.
    """
    if dtype is dtypes.string:
        return (yield from _read_strings(name, count, data)).reshape(shape)
    wanted = count * dtype.as_numpy_dtype.itemsize
    if len(data) != wanted:
        raise _wrong_size(name, f"expecting {wanted} bytes for its shape, got {len(data)}")
    # A copy, since the data need not lie where an element may begin.
    array = np.empty(count, dtype.as_numpy_dtype)
    target, source = array.view(np.uint8), np.frombuffer(data, np.uint8)
    for begin in range(0, wanted, _COPIED):
        part = source[begin : begin + _COPIED]
        target[begin : begin + _COPIED] = part != 0 if dtype is dtypes.bool_ else part
        yield
    return array.reshape(shape)


def _read_strings(name: str, count: int, data: memoryview) -> Pieces[Array]:
    if count * _LENGTH.size > len(data):
        raise _wrong_size(name, f"{count} strings do not fit into {len(data)} bytes")
    array = np.empty(count, object)
    place = 0
    for number in range(count):
        if place + _LENGTH.size > len(data):
            raise _wrong_size(name, f"its data ends before string {number + 1} of {count}")
        (length,) = _LENGTH.unpack_from(data, place)
        place += _LENGTH.size
        if length > len(data) - place:
            raise _wrong_size(name, f"string {number + 1} of {count} goes beyond its data")
        array[number] = bytes(data[place : place + length])
        place += length
        if not (number + 1) % _STRINGS:
            yield
    if place != len(data):
        raise _wrong_size(name, f"{len(data) - place} bytes follow its {count} strings")
    return array


def _wrong_size(name: str, how: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"unexpected size for input '{name}', {how}")


def write_binary(array: Array) -> Pieces[list[bytes]]:
    """Write the elements of an output, in pieces."""
    flat = array.reshape(-1)
    texts: list[bytes] = []
    if flat.dtype == object or flat.dtype.kind in "SU":
        for begin in range(0, flat.size, _STRINGS):
            strings = [bytes_of(each) for each in flat[begin : begin + _STRINGS].tolist()]
            texts.append(b"".join(part for each in strings for part in (_LENGTH.pack(len(each)), each)))
            yield
        return texts
    at_once = max(1, _COPIED // flat.itemsize)
    for begin in range(0, flat.size, at_once):
        texts.append(flat[begin : begin + at_once].tobytes())
        yield
    return texts


def bytes_of(element: bytes | str) -> bytes:
    """Return an element of a string tensor as bytes."""
    return element if isinstance(element, bytes) else str(element).encode("utf-8", "surrogateescape")


__all__ = ["bytes_of", "read_binary", "write_binary"]
