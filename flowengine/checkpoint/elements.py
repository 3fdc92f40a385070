"""The elements of a tensor as the bytes of a data file, in pieces, and back, with their checksum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.checksums.crc32c import crc32c, mask
from flowengine.ir.wire import decode_varints, encode_varints

#: Checksum and writing take turns on this much, so that what is written is still in the cache.
PIECE_BYTES: Final = 1 << 22

#: Called between pieces; raises where the work is to stop.
Check = Callable[[], None]


def never() -> None:
    """A check that lets the work go on."""


def octets(array: Array) -> Any:
    """The bytes of a C-contiguous array, without copying it."""
    return array.reshape(-1).view(np.uint8) if array.size else b""


def numeric_pieces(array: Array) -> Iterator[Any]:
    """The bytes of an array of numbers in row-major order; no more than a piece is copied, if at all."""
    if array.flags.c_contiguous:
        content = octets(array)
        for start in range(0, len(content), PIECE_BYTES):
            yield content[start : start + PIECE_BYTES]
    elif array.size:
        # As plain integers, because the iterator's buffers know no added types.
        plain = array.view(f"V{array.itemsize}") if array.dtype.kind == "V" else array
        size = max(1, PIECE_BYTES // array.itemsize)
        for piece in np.nditer(
            plain, flags=["external_loop", "buffered"], order="C", buffersize=size, casting="no"
        ):
            yield octets(np.ascontiguousarray(piece))


def string_pieces(elements: Iterable[bytes], size: int) -> Iterator[tuple[Any, Any]]:
    """(what is written, what is summed) for strings: their lengths, the sum over these, their bytes.

    The sum takes lengths as integers of 32 bits (64 for those that need it), not as they are written.
    """
    strings = list(elements)
    lengths = np.fromiter((len(s) for s in strings), np.uint64, size)
    if lengths.max(initial=0) < 1 << 32:
        summed = lengths.astype("<u4").tobytes()
    else:
        summed = b"".join(len(s).to_bytes(4 if len(s) < 1 << 32 else 8, "little") for s in strings)
    yield encode_varints(lengths), summed
    length_sum = mask(crc32c(summed)).to_bytes(4, "little")
    yield length_sum, length_sum
    batch: list[bytes] = []
    held = 0
    for string in strings:
        batch.append(string)
        held += len(string)
        if held >= PIECE_BYTES:
            joined = b"".join(batch)
            yield joined, joined
            batch, held = [], 0
    if batch:
        joined = b"".join(batch)
        yield joined, joined


def read_strings(stored: bytes, count: int) -> tuple[list[bytes], int]:
    """The strings in the bytes of a tensor, and their checksum; ValueError where they do not fit."""
    view = memoryview(stored)
    lengths, used = decode_varints(view, count)
    sizes = lengths.tolist()
    if any(size >= 1 << 32 for size in sizes):
        summed = b"".join(size.to_bytes(4 if size < 1 << 32 else 8, "little") for size in sizes)
    else:
        summed = lengths.astype("<u4").tobytes()
    length_crc = crc32c(summed)
    length_sum = view[used : used + 4]
    if bytes(length_sum) != mask(length_crc).to_bytes(4, "little"):
        raise ValueError("the checksum of the strings' lengths does not match")
    if used + 4 + sum(sizes) != len(view):
        raise ValueError("the strings' lengths do not add up to the stored size")
    crc = crc32c(view[used + 4 :], crc32c(length_sum, length_crc))
    strings = []
    position = used + 4
    for size in sizes:
        strings.append(stored[position : position + size])
        position += size
    return strings, crc


def variant_pieces(variants: Iterable[bytes]) -> Iterator[tuple[Any, Any]]:
    """(what is written, what is summed) for serialised variants: length, bytes and sum of each.

    A sum takes in everything before it, lengths as integers of 64 bits.
    """
    total = 0
    for variant in variants:
        length = len(variant).to_bytes(8, "little")
        yield encode_varints(np.array([len(variant)], np.uint64)), length
        yield variant, variant
        total = crc32c(variant, crc32c(length, total))
        partial_sum = mask(total).to_bytes(4, "little")
        yield partial_sum, partial_sum
        total = crc32c(partial_sum, total)


def read_variants(stored: bytes, count: int) -> tuple[list[bytes], int]:
    """The serialised variants in the bytes of a tensor, and their checksum; ValueError for unfit bytes."""
    view = memoryview(stored)
    variants: list[bytes] = []
    at = total = 0
    for _ in range(count):
        lengths, used = decode_varints(view[at:], 1)
        size = int(lengths[0])
        at += used
        if at + size + 4 > len(view):
            raise ValueError("a variant is longer than what is stored")
        variant, partial_sum = bytes(view[at : at + size]), bytes(view[at + size : at + size + 4])
        total = crc32c(variant, crc32c(size.to_bytes(8, "little"), total))
        if partial_sum != mask(total).to_bytes(4, "little"):
            raise ValueError("the checksum of a variant does not match")
        total = crc32c(partial_sum, total)
        variants.append(variant)
        at += size + 4
    if at != len(view):
        raise ValueError("the variants' lengths do not add up to the stored size")
    return variants, total
