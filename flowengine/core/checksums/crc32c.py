"""CRC-32C of bytes at memory speed with NumPy: the checksum of records and checkpoints.

The checksum is the remainder of the message, read as a polynomial over two elements, by a polynomial of
degree 32. Three facts make it a matter of a few large array operations:

* where x^a + x^b + x^c + 1 is a multiple of the divisor, so is the same with all exponents times 64. A
  word that is `a` words from the end may then be replaced by three XORs into words further on; whole runs
  of them go at once, and tens of kilobytes remain of any length;
* the remainder of 64 bytes is the XOR of 64 entries of a table;
* that of two halves follows from theirs, through the linear map "so many zero bytes more".
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

#: The divisor without its highest term, lowest power in the highest bit.
_DIVISOR: Final = 0x82F63B78

#: x^5685 + x^1362 + x^426 + 1 is a multiple of the divisor. Of the short ones with four terms it has the
#: widest gap below its highest term, which is the length of the runs.
_DEGREE: Final = 5685
_STEPS: Final = (_DEGREE - 1362, _DEGREE - 426, _DEGREE)
_RUN: Final = _STEPS[0]
_CHUNK_WORDS: Final = 15 * _RUN

#: The square of a multiple is one, too, with as many terms: steps may be two, four, eight times as wide.
#: Each operation lets go of Python's lock and has to come by it again, so that few are better than many.
_WIDER: Final = 4

_BLOCK: Final = 64
_BLOCK_WORDS: Final = _BLOCK // 8
_SMALL: Final = 96
_ONES: Final = 0xFFFFFFFF

_MASK_DELTA: Final = 0xA282EAD8


def crc32c(data: Any, crc: int = 0) -> int:
    """The CRC-32C of anything with a contiguous buffer; `crc` is that of the bytes before it.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    >>> crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")
    True
    """
    view = memoryview(data).cast("B")
    register = crc ^ _ONES
    if len(view) < _SMALL:
        table = _byte_table_list()
        for byte in view:
            register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
        return register ^ _ONES
    octets = np.frombuffer(view, np.uint8)
    if len(octets) > 16 * (_DEGREE + _RUN):
        return _remainder(_fold(octets, register)) ^ _ONES
    padded = np.zeros(-(-len(octets) // _BLOCK) * _BLOCK, np.uint8)
    start = len(padded) - len(octets)
    padded[start:] = octets
    _enter(padded, start, register)
    return _remainder(padded) ^ _ONES


def is_multiple(words: Array) -> bool:
    """Whether a message, as a polynomial, is a multiple of the checksum's divisor.

    words   uint64 [n] in little-endian order: zeros, then the message; they are changed

    A message whose first four bytes are inverted, followed by its inverted checksum, is one, and so is any
    chain of such: many checksums are compared at once. One that does not fit is always noticed; several
    in one chain would have to cancel each other out.
    """
    first = _folded_in_place(words, 0, _WIDER)
    first = _folded_in_place(words, first, 1)
    count = len(words) - first
    padded = np.zeros(-(-count // _BLOCK_WORDS) * _BLOCK_WORDS, np.uint64)
    padded[len(padded) - count :] = words[first:]
    return count == 0 or _remainder(padded.view(np.uint8)) == 0


def _folded_in_place(words: Array, first: int, times: int) -> int:
    """The place from which on these words have the remainder that they have from `first` on.

    times   a power of two: steps are so much wider, and fewer. What remains is that much longer, too.
    """
    end = len(words) - times * _DEGREE
    while first < end:
        stop = min(first + times * _RUN, end)
        run = words[first:stop]
        for step in _STEPS:
            target = words[first + times * step : stop + times * step]
            np.bitwise_xor(target, run, out=target)
        first = stop
    return first


def mask(crc: int) -> int:
    """The form in which checksums are stored beside the data that they cover."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & _ONES


def unmask(masked: int) -> int:
    """The checksum of its stored form."""
    rotated = (masked - _MASK_DELTA) & _ONES
    return ((rotated >> 17) | (rotated << 15)) & _ONES


def _enter(octets: Array, start: int, register: int) -> None:
    """XOR the register into the first four bytes: this has the effect of all bytes before them."""
    octets[start : start + 4] ^= np.frombuffer(register.to_bytes(4, "little"), np.uint8)


def _fold(octets: Array, register: int) -> Array:
    """A short message with the same remainder, after leading zeros, which change nothing."""
    work = np.zeros(_DEGREE + _CHUNK_WORDS, np.uint64)
    work_octets = work.view(np.uint8)
    chunk = _CHUNK_WORDS * 8
    first = len(octets) % chunk or chunk
    work_octets[len(work_octets) - first :] = octets[:first]
    _enter(work_octets, len(work_octets) - first, register)
    # Runs of zeros before the message need no folding.
    _fold_words(work, (len(work_octets) - first) // (_RUN * 8) * _RUN)
    for position in range(first, len(octets), chunk):
        work[:_DEGREE] = work[_CHUNK_WORDS:]
        work_octets[_DEGREE * 8 :] = octets[position : position + chunk]
        _fold_words(work)
    rest = work_octets[chunk:]
    padded = np.zeros(-(-len(rest) // _BLOCK) * _BLOCK, np.uint8)
    padded[len(padded) - len(rest) :] = rest
    return padded


def _fold_words(work: Array, first: int = 0) -> None:
    for start in range(first, _CHUNK_WORDS, _RUN):
        run = work[start : start + _RUN]
        for step in _STEPS:
            target = work[start + step : start + step + _RUN]
            np.bitwise_xor(target, run, out=target)


def _remainder(octets: Array) -> int:
    """The register after a whole number of blocks, from zero."""
    blocks = octets.reshape(-1, _BLOCK)
    values = _block_table().take(blocks + _block_offsets())
    registers = np.bitwise_xor.reduce(values, axis=1)
    level = 0
    while len(registers) > 1:
        if len(registers) % 2:
            registers = np.concatenate([np.zeros(1, np.uint32), registers])
        registers = _apply(_zeros_tables(level), registers[0::2]) ^ registers[1::2]
        level += 1
    return int(registers[0])


def _apply(tables: Array, registers: Array) -> Array:
    result: Array = tables[0].take(registers & 0xFF)
    for lane in range(1, 4):
        result ^= tables[lane].take((registers >> np.uint32(8 * lane)) & 0xFF)
    return result


@functools.cache
def _byte_table() -> Array:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ np.where(table & 1, np.uint32(_DIVISOR), np.uint32(0))
    return table


@functools.cache
def _byte_table_list() -> list[int]:
    return [int(entry) for entry in _byte_table()]


@functools.cache
def _block_table() -> Array:
    """Build the table of a byte's contribution at each place of a block: uint32 [64 * 256]."""
    single = _byte_table()
    rows = [single]
    for _ in range(_BLOCK - 1):
        rows.append(single[rows[-1] & 0xFF] ^ (rows[-1] >> np.uint32(8)))
    return np.concatenate(rows[::-1])


@functools.cache
def _block_offsets() -> Array:
    return np.arange(_BLOCK, dtype=np.intp) * 256


@functools.cache
def _zeros_tables(level: int) -> Array:
    """A register after 64 * 2**level zero bytes more, by each of its bytes: uint32 [4, 256]."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    if level:
        half = _zeros_tables(level - 1)
        columns = _apply(half, _apply(half, bits))
    else:
        columns = bits
        single = _byte_table()
        for _ in range(_BLOCK):
            columns = single[columns & 0xFF] ^ (columns >> np.uint32(8))
    tables = np.zeros((4, 256), np.uint32)
    numbers = np.arange(256)
    for bit in range(32):
        tables[bit // 8] ^= np.where(numbers >> (bit % 8) & 1, columns[bit], np.uint32(0))
    return tables
