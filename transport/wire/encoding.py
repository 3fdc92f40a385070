"""Tensor values to and from the wire: a short description in the header, the bytes as they lie in memory.

    description     [dtype number, [dimensions]], for strings [7, [dimensions], bytes]
    bytes           C order, little-endian; strings: one 64-bit length for each element, then the elements

A contiguous array is sent from its own memory and received into its final memory: no copy is made here. Other
arrays (strided or big-endian sources) are copied once, and counted.

    >>> described, buffers, size, copied = encode(np.arange(3, dtype=np.int16))
    >>> described, size, copied
    ([5, [3]], 6, 0)
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, Value, describe
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, ResourceExhaustedError
from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.wire.memory import ReceivedMemory

_NUMBER_TYPES: Final = (np.generic, int, float, complex)
_STRING: Final = dtypes.string.number
_LENGTH: Final = np.dtype("<u8")

#: NumPy dtype -> number on the wire. Quantised types are held and sent as plain integers.
_NUMBERS: Final[dict[Any, int]] = {
    each.as_numpy_dtype: each.number
    for each in reversed(dtypes.ALL)
    if not each.is_quantized and not each.as_numpy_dtype.hasobject
}
#: Number on the wire -> (the dtype on the wire, the type).
_BY_NUMBER: Final[dict[int, tuple[np.dtype[Any], DType]]] = {
    each.number: (each.as_numpy_dtype.newbyteorder("<"), each)
    for each in dtypes.ALL
    if not each.as_numpy_dtype.hasobject
}
_BOOL: Final = dtypes.bool_.number

#: Those of them that a scalar is read and written as directly: numbers in this machine's byte order.
_SCALARS: Final[dict[int, np.dtype[Any]]] = {
    number: wire for number, (wire, _) in _BY_NUMBER.items() if wire.isnative and number != _BOOL
}
#: NumPy's own bound.
RANK_MAX: Final = 64

#: The memory of an element of a string tensor beside its bytes: its object and a pointer to it.
STRING_ELEMENT_BYTES: Final = 48


class EncodedTensor(NamedTuple):
    """A tensor ready to be sent."""

    description: list[Any]
    buffers: list[memoryview]
    size: int
    #: Bytes that had to be copied to be sent.
    copied: int


def encode(value: Value) -> EncodedTensor:
    """Encode a tensor value; its buffers stay views of the value, which must not change meanwhile.

    Raises InvalidArgumentError for a value that is not a tensor (a resource, objects that are not bytes).
    """
    if isinstance(value, bytes):
        return _encode_strings([value], [])
    if not isinstance(value, np.ndarray):
        if not isinstance(value, _NUMBER_TYPES):
            raise InvalidArgumentError(
                f"a {describe(value)} cannot travel to another task: only tensors can; "
                "keep the op that makes it and the ops that use it on one task"
            )
        value = np.asarray(value)
    number = _NUMBERS.get(value.dtype)
    if number is None:
        return _encode_other(value)
    wire = _BY_NUMBER[number][0]
    size = value.nbytes
    if not size:
        return EncodedTensor([number, list(value.shape)], [], 0, 0)
    if value.flags.c_contiguous and value.dtype == wire:
        flat = value.reshape(-1)
        copied = 0
    else:
        flat = np.ascontiguousarray(value, dtype=wire).reshape(-1)
        copied = size
    return EncodedTensor([number, list(value.shape)], [flat.view(np.uint8).data], size, copied)


def _encode_other(value: Array) -> EncodedTensor:
    kind = value.dtype.kind
    if kind == "O":
        return _encode_strings(value.reshape(-1).tolist(), list(value.shape))
    if kind == "S":
        return _encode_strings(value.reshape(-1).tolist(), list(value.shape))
    if kind == "U":
        return _encode_strings([text.encode() for text in value.reshape(-1).tolist()], list(value.shape))
    native = value.dtype.newbyteorder("=")
    if native not in _NUMBERS:
        raise InvalidArgumentError(f"no tensor of FlowEngine holds elements of NumPy dtype {value.dtype}")
    size = value.nbytes
    encoded = encode(value.astype(native))
    return encoded._replace(copied=size)


def _encode_strings(elements: list[Any], shape: list[int]) -> EncodedTensor:
    for position, element in enumerate(elements):
        if type(element) is not bytes:
            raise InvalidArgumentError(
                f"element {position} of a string tensor is a {type(element).__name__}: "
                "only bytes can travel to another task"
            )
    if not elements:
        return EncodedTensor([_STRING, shape, 0], [], 0, 0)
    lengths = np.fromiter(map(len, elements), _LENGTH, len(elements))
    size = lengths.nbytes + int(lengths.sum())
    buffers = [lengths.view(np.uint8).data]
    # Short elements are joined: a system call that gathers a million pieces costs more than the copy.
    copied = 0
    if size - lengths.nbytes >= len(elements) * 4096:
        buffers.extend(memoryview(element) for element in elements if element)
    else:
        joined = b"".join(elements)
        if joined:
            buffers.append(memoryview(joined))
            copied = len(joined) if len(elements) > 1 else 0
    return EncodedTensor([_STRING, shape, size], buffers, size, copied)


class IncomingTensor:
    """Memory for one arriving tensor. `size` is known at once, `allocate` allocates the memory."""

    __slots__ = ("_array", "_dtype", "_number", "_shape", "description", "memory", "size")

    def __init__(self, description: Any) -> None:
        """Read a description; RemoteProtocolError if it describes no tensor. Allocates nothing."""
        if not isinstance(description, list) or not 2 <= len(description) <= 3:
            raise RemoteProtocolError(f"not the description of a tensor: {_short(description)}")
        number, shape = description[0], description[1]
        if not isinstance(shape, list) or len(shape) > RANK_MAX:
            raise RemoteProtocolError(f"not the shape of a tensor: {_short(shape)}")
        for dimension in shape:
            if type(dimension) is not int or not 0 <= dimension < 1 << 62:
                raise RemoteProtocolError(f"a tensor has no dimension {_short(dimension)}")
        count = math.prod(shape)
        if type(number) is int and number == _STRING and len(description) == 3:
            size = description[2]
            if type(size) is not int or size < count * _LENGTH.itemsize or (not count and size):
                raise RemoteProtocolError(f"{_short(size)} bytes cannot hold {count} strings")
            self._dtype = None
            memory = size + count * STRING_ELEMENT_BYTES
        elif type(number) is int and number in _BY_NUMBER and len(description) == 2:
            self._dtype = _BY_NUMBER[number][0]
            memory = size = count * self._dtype.itemsize
        else:
            raise RemoteProtocolError(f"no tensor travels as {_short(description)}")
        self.description = description
        self._number = number
        self._shape = shape
        self._array: Array | None = None
        #: Bytes on the wire.
        self.size: int = size
        #: Bytes of memory that it will take.
        self.memory: int = memory

    def allocate(self, memory: ReceivedMemory | None = None, now: float = 0.0) -> memoryview | None:
        """Allocate the memory and return it as bytes, or None if nothing will arrive.

        memory   the memory that the connection keeps for tensors of steps; None to allocate new memory
        """
        try:
            if self._dtype is None:
                self._array = np.empty(self.size, np.uint8)
            elif memory is not None:
                self._array = memory.allocate(self._shape, self._dtype, self.size, now)
            else:
                self._array = np.empty(self._shape, self._dtype)
        except (ValueError, OverflowError):
            raise RemoteProtocolError(f"no tensor has the shape {_short(self._shape)}") from None
        except MemoryError:
            raise ResourceExhaustedError(
                f"no memory for a tensor of {self.size} bytes, shape {_short(self._shape)}"
            ) from None
        return self._array.reshape(-1).view(np.uint8).data if self.size else None

    def adopt(self, buffer: bytearray, offset: int) -> int:
        """Use memory that holds the bytes already; return the place where the next tensor's bytes begin."""
        if self._dtype is None:
            self._array = np.frombuffer(buffer, np.uint8, self.size, offset)
            return offset + self.size
        try:
            if self.size:
                count = self.size // self._dtype.itemsize
                array = np.frombuffer(buffer, self._dtype, count, offset).reshape(self._shape)
                # Behind a tensor of odd length; the copy is of at most an inline payload.
                self._array = array if array.flags.aligned else array.copy()
            else:
                self._array = np.empty(self._shape, self._dtype)
        except (ValueError, OverflowError):
            raise RemoteProtocolError(f"no tensor has the shape {_short(self._shape)}") from None
        return offset + self.size

    def value(self) -> Value:
        """Return the tensor, once its memory is filled.

        RemoteProtocolError if the bytes make no such tensor.
        """
        array = self._array
        assert array is not None, "the tensor was never allocated"
        if self._dtype is None:
            return self._strings(array)
        if self._number == _BOOL and array.size and int(array.view(np.uint8).max()) > 1:
            raise RemoteProtocolError("a bool tensor has elements that are neither 0 nor 1")
        if not self._dtype.isnative:
            array = array.astype(self._dtype.newbyteorder("="))
        return array if array.ndim else array[()]

    def _strings(self, raw: Array) -> Value:
        count = math.prod(self._shape)
        lengths = raw[: count * _LENGTH.itemsize].view(_LENGTH).tolist()
        start = count * _LENGTH.itemsize
        if start + sum(lengths) != self.size:
            raise RemoteProtocolError("the lengths of a string tensor do not add up to its size")
        view = raw.data
        if not self._shape:
            return bytes(view[start:])
        try:
            strings = np.empty(count, dtype=object)
            for position, length in enumerate(lengths):
                strings[position] = bytes(view[start : start + length])
                start += length
            return strings.reshape(self._shape)
        except ValueError:
            raise RemoteProtocolError(f"no tensor has the shape {_short(self._shape)}") from None


def read_scalar(descriptions: list[Any], inline: bytearray) -> Value | None:
    """Return the one number that a payload is; None for anything else, right or wrong."""
    if len(descriptions) != 1:
        return None
    description = descriptions[0]
    if type(description) is not list or len(description) != 2 or description[1] != []:
        return None
    number = description[0]
    wire = _SCALARS.get(number) if type(number) is int else None
    if wire is None or len(inline) != wire.itemsize:
        return None
    return np.frombuffer(inline, wire)[0]


def read_small(payload: memoryview, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Value:
    """Return a number, or an array in memory of its own, from exactly the bytes of this type and shape."""
    if not shape:
        return np.frombuffer(payload, dtype)[0]
    array: Array = np.frombuffer(bytearray(payload), dtype)
    return array.reshape(shape)


def number_of(dtype: np.dtype[Any]) -> int | None:
    """Return the number under which a type's elements are sent unchanged; None if they are not."""
    number = _NUMBERS.get(dtype)
    return number if number is not None and dtype == _BY_NUMBER[number][0] else None


def type_of(number: int) -> np.dtype[Any] | None:
    """Return the type of elements that are sent unchanged, whatever their bytes; None for others."""
    return _SCALARS.get(number)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


__all__ = ["EncodedTensor", "IncomingTensor", "encode", "number_of", "read_scalar", "read_small", "type_of"]
