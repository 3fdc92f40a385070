"""The entries of an index: BundleHeaderProto for the whole, BundleEntryProto for each tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowengine.checkpoint.slices import (
    Shape,
    Slice,
    decode_shape,
    decode_slice,
    encode_shape,
    encode_slice,
)
from flowengine.ir.wire import bytes_field, field, fields, fixed32_field, signed

#: The version of the format that is written, and the newest that is read.
VERSION: Final = 1

#: The key of the header; no tensor's.
HEADER_KEY: Final = b""


@dataclass(frozen=True, slots=True)
class BundleHeader:
    """num_shards: data files; big_endian: byte order of the values; min_consumer: version a reader needs."""

    num_shards: int
    big_endian: bool = False
    min_consumer: int = 0

    def encode(self) -> bytes:
        return field(1, self.num_shards) + bytes_field(3, field(1, VERSION))

    @classmethod
    def decode(cls, data: bytes) -> BundleHeader:
        """ValueError where the bytes are no header."""
        shards = endianness = min_consumer = 0
        for number, _, value in fields(data):
            if number == 1:
                shards = value
            elif number == 2:
                endianness = value
            elif number == 3:
                min_consumer = {n: v for n, _, v in fields(value)}.get(2, 0)
        return cls(shards, endianness == 1, min_consumer)


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """One tensor: where its bytes are, or of which slices it is made up.

    dtype   number of the element type; crc   masked, of all bytes
    """

    dtype: int
    shape: Shape
    shard: int = 0
    offset: int = 0
    size: int = 0
    crc: int = 0
    slices: tuple[Slice, ...] = ()

    def encode(self) -> bytes:
        out = [field(1, self.dtype), bytes_field(2, encode_shape(self.shape))]
        out += [field(n, v) for n, v in ((3, self.shard), (4, self.offset), (5, self.size)) if v]
        if self.crc:
            out.append(fixed32_field(6, self.crc))
        out += [bytes_field(7, encode_slice(part)) for part in self.slices]
        return b"".join(out)

    @classmethod
    def decode(cls, data: bytes) -> BundleEntry:
        """ValueError where the bytes are no entry."""
        numbers = {1: 0, 3: 0, 4: 0, 5: 0, 6: 0}
        shape: Shape = ()
        slices: list[Slice] = []
        for number, _, value in fields(data):
            if number == 2:
                shape = decode_shape(value)
            elif number == 7:
                slices.append(decode_slice(value))
            elif number in numbers:
                numbers[number] = signed(value)
        if min(numbers.values()) < 0:
            raise ValueError("a number is negative")
        return cls(numbers[1], shape, numbers[3], numbers[4], numbers[5], numbers[6], tuple(slices))
