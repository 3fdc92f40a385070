"""The lists in serialised examples, of many examples at a time: where they lie, and what they hold.

All texts are one text here, and a place is one in that. What is not quite of the usual form raises Irregular.
"""

from __future__ import annotations

import functools
from typing import Final, TypeAlias

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.kernels.io.byte_runs import runs_of, strings_between

#: The tag of the list of each type in a feature.
LIST_TAGS: Final = {dtypes.string: 0x0A, dtypes.float32: 0x12, dtypes.int64: 0x1A}
FIRST: Final = 0x0A  # field 1, of known length
SECOND: Final = 0x12

#: Strings of one list up to which looking at all lists in step is quick.
STEPS_MAX: Final = 256
#: Bytes that may be read beyond the last one.
_SLACK: Final = 16


#: The values of a feature in all examples, one after another; how many each example has; which have it,
#: None for all.
Column: TypeAlias = tuple[Array, Array, Array | None]


class Irregular(Exception):
    """The examples are not of the usual form."""


class ExampleLists:
    """Serialised examples as one text.

    count    how many there are
    data     all of them, and some zeros
    octets   the same, uint8
    words    the eight bytes from any place on, whatever its alignment
    ends     where each of them ends
    """

    def __init__(self, texts: list[bytes]) -> None:
        self.count = len(texts)
        self.data = b"".join([*texts, bytes(_SLACK)])
        self.octets = np.frombuffer(self.data, np.uint8)
        self.words = np.ndarray((len(self.octets) - 7,), "<u8", self.data, strides=(1,))
        self._pairs = np.ndarray((len(self.octets) - 1,), "<u2", self.data, strides=(1,))
        self.ends = np.fromiter(map(len, texts), np.int64, self.count).cumsum()

    def sized(self, at: Array, tag: int) -> tuple[Array, Array]:
        """The length of a field with this tag, and where its contents begin."""
        require(self.octets.take(at) == tag)
        return self.varint(at + 1)

    def varint(self, at: Array) -> tuple[Array, Array]:
        """Numbers of up to five bytes, and what follows each. What is damaged shows where they are used.

        `ir.wire` reads numbers that lie one after the other; these lie anywhere, one in each example.
        """
        pairs = self._pairs[at]
        values, sizes = _short_numbers()
        value = values.take(pairs)
        after = at + sizes.take(pairs)
        return (value, after) if not len(at) or int(value.min()) >= 0 else self._long_varint(at)

    def _long_varint(self, at: Array) -> tuple[Array, Array]:
        value = self.octets[at].astype(np.int64)
        at = at + 1
        more = value >= 0x80
        shift = 7
        while more.any():
            if shift > 28:
                raise Irregular
            byte = self.octets[np.where(more, at, 0)].astype(np.int64)
            # The bit that says "more" is taken away where the next byte is added.
            value = np.where(more, value + ((byte - 1) << shift), value)
            at = at + more
            more = more & (byte >= 0x80)
            shift += 7
        return value, at

    def packed(self, at: Array, stop: Array) -> Array:
        """Return the start of each list's packed numbers; a list without any ends where it begins."""
        empty = at == stop
        if not empty.any():
            length, at = self.sized(at, FIRST)
            require(at + length == stop)
            return at
        some = ~empty
        begin = at.copy()
        begin[some] = self.packed(at[some], stop[some])
        return begin

    def single_values(self, at: Array, stop: Array, dtype: DType) -> Array | None:
        """The value of each list, where all have exactly one; else None."""
        if not all_of(at < stop):
            return None
        length, begin = self.sized(at, FIRST)
        if not all_of(begin + length == stop):
            return None
        if dtype is dtypes.string:
            return strings_between(self.data, begin, stop)
        if dtype is dtypes.float32:
            return self.floats(begin, stop)[0] if all_of(length == 4) else None
        short = int(length.max()) <= 8 and int(length.min()) > 0
        return self.short_numbers(begin, length) if short else None

    def values(self, at: Array, stop: Array, dtype: DType) -> tuple[Array, Array]:
        """The values of lists of this type, one list after the other, and how many each has."""
        if dtype is dtypes.string:
            return self.strings(at, stop)
        at = self.packed(at, stop)
        return self.floats(at, stop) if dtype is dtypes.float32 else self.numbers(at, stop)

    def strings(self, at: Array, stop: Array) -> tuple[Array, Array]:
        """The strings of lists, and how many each has."""
        if len(at) and all_of(at < stop):
            length, begin = self.sized(at, FIRST)
            if all_of(begin + length == stop):
                return strings_between(self.data, begin, stop), np.ones(len(at), np.int64)
        sizes = np.zeros(len(at), np.int64)
        found = []
        rows = np.arange(len(at))
        for _ in range(STEPS_MAX):
            going = at < stop
            if not all_of(going):
                rows, at, stop = rows[going], at[going], stop[going]
            if not len(rows):
                break
            length, at = self.sized(at, FIRST)
            following = at + length
            require(following <= stop)
            sizes[rows] += 1
            found.append((rows, at, following))
            at = following
        else:
            raise Irregular
        if found:
            joined = [np.concatenate(column) for column in zip(*found, strict=True)]
            order = joined[0].argsort(kind="stable")
            begins, ends = joined[1][order], joined[2][order]
        else:
            begins = ends = np.zeros(0, np.int64)
        return strings_between(self.data, begins, ends), sizes

    def floats(self, at: Array, stop: Array) -> tuple[Array, Array]:
        """The numbers between, four bytes each, and how many there are in each list."""
        bytes_each = stop - at
        sizes = bytes_each >> 2
        require(bytes_each == sizes << 2)
        if not len(at):
            return np.zeros(0, np.float32), sizes
        length = int(bytes_each[0])
        if length and (bytes_each == length).all():
            return runs_of(self.data, length)[at].view("<f4").astype(np.float32, copy=False), sizes
        every = np.ndarray((len(self.octets) - 3,), "<f4", self.data, strides=(1,))
        return every[_ranges(at, sizes, 4)].astype(np.float32, copy=False), sizes

    def short_numbers(self, at: Array, lengths: Array) -> Array | None:
        """The numbers of lists of one number of up to eight bytes, None where some list has several."""
        masks, tops = byte_masks()
        words = self.words[at] & masks.take(lengths)
        if not all_of((~words & np.uint64(0x8080808080808080) & masks.take(lengths)) == tops.take(lengths)):
            return None
        value = words & np.uint64(0x7F)
        for place in range(1, int(lengths.max())):
            value |= ((words >> np.uint64(8 * place)) & np.uint64(0x7F)) << np.uint64(7 * place)
        return value.view(np.int64)

    def numbers(self, at: Array, stop: Array) -> tuple[Array, Array]:
        """The integers between, and how many there are in each list."""
        lengths = stop - at
        if len(at) and int(lengths.max()) <= 8 and int(lengths.min()) > 0:
            single = self.short_numbers(at, lengths)
            if single is not None:
                return single, np.ones(len(at), np.int64)
        octets = self.octets[_ranges(at, lengths, 1)]
        last = octets < 0x80
        if last.all():
            return octets.astype(np.int64), lengths
        ends = lengths.cumsum()
        some = lengths > 0
        require(last[ends[some] - 1])
        finished = np.concatenate((np.zeros(1, np.int64), last.cumsum()))
        sizes = finished[ends] - finished[ends - lengths]
        stops = np.flatnonzero(last) + 1
        starts = np.concatenate((np.zeros(1, np.int64), stops[:-1]))
        widths = stops - starts
        if int(widths.max()) > 10:
            raise Irregular
        place = np.arange(len(octets)) - starts.repeat(widths)
        parts = (octets & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
        return np.add.reduceat(parts, starts).view(np.int64), sizes


@functools.cache
def _short_numbers() -> tuple[Array, Array]:
    """For each pair of bytes the number that it begins with, -1 where it goes on, and its size."""
    pairs = np.arange(1 << 16)
    low, high = pairs & 0xFF, pairs >> 8
    values = np.where(low < 0x80, low, np.where(high < 0x80, (low & 0x7F) | high << 7, -1))
    return values.astype(np.int32), np.where(low < 0x80, 1, 2).astype(np.int32)


@functools.cache
def byte_masks() -> tuple[Array, Array]:
    """For 0 to 8 bytes of a word: the mask of them, and the highest bit of the last (uint64 [9])."""
    masks = [(1 << 8 * count) - 1 for count in range(9)]
    tops = [0, *(0x80 << 8 * (count - 1) for count in range(1, 9))]
    return np.array(masks, np.uint64), np.array(tops, np.uint64)


def all_of(condition: Array) -> bool:
    """As `condition.all()`, in a third of the time for what is small."""
    return bool(np.count_nonzero(condition) == len(condition))


def require(condition: Array) -> None:
    """Irregular unless all of it is true."""
    if np.count_nonzero(condition) != len(condition):
        raise Irregular


def _ranges(starts: Array, counts: Array, step: int) -> Array:
    """`counts` places from each start on, `step` apart, one after another."""
    before = counts.cumsum() - counts
    places: Array = np.arange(int(counts.sum())) * step + (starts - before * step).repeat(counts)
    return places
