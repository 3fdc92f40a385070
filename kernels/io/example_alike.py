"""Examples that are all like the first: the same features, in its order, lists of the same kind.

What is written by one program is of this form, only that values differ, and with them the sizes of lists. The
first example then says of every byte between the values what it must be:

    0A L+v  0A 02 "I7"  12 L'+v  1A L"+v  0A v  ...        v: bytes of the values

So the places of all entries follow from one byte of each, and all that lies between the values is compared
eight bytes at a time. Entries that follow each other and are of equal sizes in all examples are looked at as
one: a *block*, so many bytes of each example, with headers and values at the same places in all.

Where an entry takes 128 bytes or more its sizes are written otherwise: that, and whatever is not as in the
first example, is Irregular, and `example_scan` has its turn.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.kernels.io.byte_runs import columns_between, runs_of
from flowengine.kernels.io.example_lists import (
    FIRST,
    LIST_TAGS,
    SECOND,
    STEPS_MAX,
    Column,
    ExampleLists,
    Irregular,
    require,
)

_WORD: Final = 8
#: A size of one byte is smaller.
_MORE: Final = 0x80
#: Examples that are parsed one by one to find the entries of equal sizes in all.
_LOOKED_AT: Final = 4
#: Entries of which a block is worth more than looking at each.
_BLOCK_MIN: Final = 2


@dataclass(frozen=True, slots=True)
class _Entry:
    """The form of one entry, as the first example has it.

    kind     the tag of its list
    header   all that is before its values
    sizes    the places in that where the size of something stands that holds the values
    length   bytes of the values
    """

    key: bytes
    kind: int
    header: bytes
    sizes: tuple[int, ...]
    length: int


def _tables(entries: Sequence[_Entry], size: int) -> tuple[Array, Array, Array]:
    """Of headers of up to so many bytes: which bits count, what they are, what one byte more adds.

    uint64 (words, entries, 1) each
    """
    lengths = np.array([len(each.header) for each in entries])
    masks = np.where(np.arange(size) < lengths[:, np.newaxis], np.uint8(0xFF), np.uint8(0))
    wanted = np.frombuffer(b"".join([each.header.ljust(size, b"\0") for each in entries]), np.uint8)
    steps = np.zeros((len(entries), size), np.uint8)
    for number, each in enumerate(entries):
        steps[number, each.sizes] = 1
    first, second, third = (
        table.reshape(len(entries), size).view("<u8").T[..., np.newaxis] for table in (masks, wanted, steps)
    )
    return first, second, third


@functools.lru_cache(maxsize=64)
def _block_tables(headers: tuple[bytes, ...], lengths: tuple[int, ...]) -> tuple[list[int], Array, Array]:
    """Of entries that follow each other: where values begin, which bits of words count, what those are.

    headers   of all entries; the arrays are uint64 (words,), whole words whose last may reach beyond
    lengths   bytes of the values of each
    """
    offsets, masks, wanted = [], bytearray(), bytearray()
    for header, length in zip(headers, lengths, strict=True):
        offsets.append(len(masks) + len(header))
        masks += b"\xff" * len(header) + bytes(length)
        wanted += header + bytes(length)
    more = bytes(-len(masks) % _WORD)
    return offsets, np.frombuffer(masks + more, "<u8"), np.frombuffer(wanted + more, "<u8")


class _EntryBlock:
    """Entries of equal sizes that follow each other, in all examples.

    Raises Irregular where the bytes between the values are not those of the first example.
    """

    __slots__ = ("_octets", "_offsets", "first", "stop")

    def __init__(self, data: bytes, begins: Array, entries: Sequence[_Entry], first: int, stop: int) -> None:
        """`begins`: where the first of the entries first to stop - 1 begins in each example."""
        self.first, self.stop = first, stop
        made_of = entries[first:stop]
        offsets, masks, wanted = _block_tables(
            tuple([each.header for each in made_of]), tuple([each.length for each in made_of])
        )
        # A word of 8 bytes may reach beyond the last entry, so there is padding behind the last example.
        rows = runs_of(data, masks.nbytes)[begins]
        words = rows.view("<u8").reshape(len(begins), len(masks))
        require(((words & masks) == wanted).reshape(-1))
        #: Where in a row of octets the values of each entry begin.
        self._offsets = offsets
        self._octets = words.view(np.uint8)

    def strings(self, number: int, length: int) -> Array:
        """The values of an entry, strings of so many bytes: object (examples,)."""
        count, stride = self._octets.shape
        if not length:
            return np.full(count, b"", object)
        kind = np.dtype((np.void, length))
        offset = self._offsets[number - self.first]
        return np.ndarray((count,), kind, self._octets.data, offset, (stride,)).astype(object)


def _sizes_of(data: bytes, at: int, count: int) -> list[int]:
    """How many bytes so many entries take, the first of which begins here. Raises Irregular."""
    found = []
    try:
        for _ in range(count):
            size = data[at + 1] + 2
            found.append(size)
            at += size
    except IndexError:
        raise Irregular from None
    return found


def _entries(data: bytes) -> list[_Entry]:
    """The entries of one example. Raises Irregular for what is not of the form."""
    try:
        begin = 2 if data[1] < _MORE else 3
        found = []
        at = begin
        while at < len(data):
            entry = _entry(data, at)
            found.append(entry)
            at += len(entry.header) + entry.length
    except IndexError:
        raise Irregular from None
    if at != len(data) or not 0 < len(found) <= STEPS_MAX or len({each.key for each in found}) < len(found):
        raise Irregular
    return found


def _entry(data: bytes, at: int) -> _Entry:
    stop = at + 2 + data[at + 1]
    value = at + 4 + data[at + 3]
    if data[at] != FIRST or data[at + 1] >= _MORE or data[at + 2] != FIRST or data[value] != SECOND:
        raise Irregular
    kind = data[value + 2]
    begin = value + 4
    if value + 2 + data[value + 1] != stop or begin + data[value + 3] != stop:
        raise Irregular
    sizes: tuple[int, ...] = (1, value + 1 - at, value + 3 - at)
    if begin + 1 < stop and data[begin] == FIRST and begin + 2 + data[begin + 1] == stop:
        # One string, or numbers one after the other.
        sizes = (*sizes, begin + 1 - at)
        begin += 2
    elif kind != LIST_TAGS[dtypes.string]:
        raise Irregular
    return _Entry(data[at + 4 : value], kind, data[at:begin], sizes, stop - begin)


class AlikeExamples:
    """The features of examples that are all like the first of them. Raises Irregular."""

    def __init__(self, lists: ExampleLists, texts: Sequence[bytes]) -> None:
        """`texts`: what the lists are of."""
        self._lists = lists
        self._entries = entries = _entries(texts[0])
        self._numbers = {each.key: number for number, each in enumerate(entries)}
        self._headers = np.array([len(each.header) for each in entries])[:, np.newaxis]
        self._begin = self._begins()
        #: The block that an entry is in.
        self._blocks: dict[int, _EntryBlock] = {}
        #: Where the values of each entry of each example begin and end: (entries, examples).
        self._at, self._stop = self._found(self._equal_sizes(texts))

    def _begins(self) -> Array:
        """Return the start of the first entry of each example."""
        lists = self._lists
        starts = np.empty(lists.count, np.int64)
        starts[0], starts[1:] = 0, lists.ends[:-1]
        require(starts < lists.ends)
        length, begin = lists.sized(starts, FIRST)
        require(begin + length == lists.ends)
        return begin

    def _equal_sizes(self, texts: Sequence[bytes]) -> list[int]:
        """Of each entry its size if it has that in a few of the examples, and so perhaps in all; else 0.

        Integers are written in more bytes where they are larger: now and then one is.
        """
        count = len(self._entries)
        integers = LIST_TAGS[dtypes.int64]
        found = [0 if each.kind == integers else len(each.header) + each.length for each in self._entries]
        for text in texts[:: -(-len(texts) // _LOOKED_AT)]:
            sizes = _sizes_of(text, 2 if text[1] < _MORE else 3, count)
            found = [size if size == other else 0 for size, other in zip(sizes, found, strict=True)]
        return found

    def _found(self, equal: list[int]) -> tuple[Array, Array]:
        """Find the starts and ends of values; entries of equal sizes are first taken as such, then not."""
        try:
            at, ends = self._places(equal)
            self._blocks = self._blocks_of(at, equal)
            self._check(at, ends)
        except Irregular:
            if not any(equal):
                raise
            self._blocks = {}
            at, ends = self._places([0] * len(equal))
            self._check(at, ends)
        return at + self._headers, ends

    def _places(self, equal: Sequence[int]) -> tuple[Array, Array]:
        """Find the starts and ends of the entries of each example, if all sizes are of one byte.

        equal   the size that an entry has in every example, 0 where they differ
        """
        lists = self._lists
        places = np.empty((len(equal) + 1, lists.count), np.int64)
        places[0] = self._begin
        octets = lists.octets[1:]
        number = 0
        try:
            for is_equal, group in groupby(equal, bool):
                sizes = list(group)
                following = number + len(sizes)
                if is_equal:
                    np.add(
                        places[number],
                        np.cumsum(sizes)[:, np.newaxis],
                        out=places[number + 1 : following + 1],
                    )
                else:
                    for each in range(number, following):
                        np.add(places[each], octets.take(places[each]), out=places[each + 1])
                        places[each + 1] += 2
                number = following
        except IndexError:
            raise Irregular from None
        require(places[-1] == lists.ends)
        return places[:-1], places[1:]

    def _blocks_of(self, at: Array, equal: Sequence[int]) -> dict[int, _EntryBlock]:
        """The block of each entry that is in one. Irregular where what is between the values differs."""
        found: dict[int, _EntryBlock] = {}
        first = 0
        for is_equal, group in groupby(equal, bool):
            stop = first + len(list(group))
            if is_equal and stop - first >= _BLOCK_MIN:
                block = _EntryBlock(self._lists.data, at[first], self._entries, first, stop)
                found.update(dict.fromkeys(range(first, stop), block))
            first = stop
        return found

    def _check(self, at: Array, ends: Array) -> None:
        """Irregular unless the headers of all entries that are in no block are those of the first example.

        The sizes in them are those that the entries have here.
        """
        others = [number for number in range(len(self._entries)) if number not in self._blocks]
        if not others:
            return
        entries = self._entries
        headers = self._headers
        if len(others) < len(entries):
            entries = [entries[number] for number in others]
            at, ends, headers = at[others], ends[others], headers[others]
        sizes = ends - at
        if int(sizes.max()) >= _MORE + 2:
            raise Irregular
        lengths = np.array([each.length for each in entries])
        more = sizes - (lengths[:, np.newaxis] + headers)
        # No size of a part may be less than nothing.
        require(more.min(axis=1) >= -lengths)
        longer = more.view(np.uint64)
        words = -(-headers[:, 0] // _WORD)
        for count in sorted(set(words.tolist())):
            chosen = np.flatnonzero(words == count)
            masks, wanted, steps = _tables([entries[number] for number in chosen], count * _WORD)
            some: Any = slice(None) if len(chosen) == len(entries) else chosen
            places, by = at[some], longer[some]
            found = runs_of(self._lists.data, count * _WORD)[places].view("<u8").reshape(*places.shape, count)
            for word in range(count):
                expected = by * steps[word]
                expected += wanted[word]
                require(((found[..., word] & masks[word]) == expected).reshape(-1))

    def columns(self, wanted: Sequence[tuple[bytes, DType]]) -> list[Column]:
        """The values of each (key, type) in all examples. Irregular where a feature has another type."""
        count = self._lists.count
        ones = np.ones(count, np.int64)
        found: dict[int, Column] = {}
        together: dict[DType, list[int]] = {}
        for index, (key, dtype) in enumerate(wanted):
            number = self._numbers.get(key)
            if number is None:
                found[index] = _absent(count, dtype)
            elif self._entries[number].kind != LIST_TAGS[dtype]:
                raise Irregular
            elif number in self._blocks and self._is_one_string(number):
                strings = self._blocks[number].strings(number, self._entries[number].length)
                found[index] = (strings, ones, None)
            elif len(self._entries[number].sizes) == 4:
                together.setdefault(dtype, []).append(index)
            else:
                at, stop = self._at[number], self._stop[number]
                found[index] = (*self._lists.values(at, stop, dtype), None)
        for dtype, indices in together.items():
            rows = [self._numbers[wanted[index][0]] for index in indices]
            found.update(zip(indices, self._of_one_run(rows, dtype, ones), strict=True))
        return [found[index] for index in range(len(wanted))]

    def _is_one_string(self, number: int) -> bool:
        entry = self._entries[number]
        return entry.kind == LIST_TAGS[dtypes.string] and len(entry.sizes) == 4

    def _of_one_run(self, rows: Sequence[int], dtype: DType, ones: Array) -> list[Column]:
        """The columns of these entries, whose lists are one string each, or packed numbers.

        ones   int64 (examples,), for how many values each has
        """
        lists = self._lists
        at, stop = self._at[rows], self._stop[rows]
        lengths = stop - at
        if dtype is dtypes.string:
            return [(column, ones, None) for column in columns_between(lists.data, at, lengths)]
        values = None
        if dtype is dtypes.int64 and int(lengths.min()) > 0 and int(lengths.max()) <= _WORD:
            values = lists.short_numbers(at.reshape(-1), lengths.reshape(-1))
        if values is not None:
            return [(column.copy(), ones, None) for column in values.reshape(at.shape)]
        read = lists.floats if dtype is dtypes.float32 else lists.numbers
        return [(*read(*each), None) for each in zip(at, stop, strict=True)]


def _absent(count: int, dtype: DType) -> Column:
    """The column of a feature that no example has."""
    return np.zeros(0, dtype.as_numpy_dtype), np.zeros(count, np.int64), np.zeros(count, np.bool_)


__all__ = ["AlikeExamples"]
