"""Examples that are all like the first: the same features, in its order, lists of the same kind.

What is written by one program is of this form, only that values differ, and with them the sizes of lists. The
first example then says of every byte between the values what it must be:

    0A L+v  0A 02 "I7"  12 L'+v  1A L"+v  0A v  ...        v: bytes of the values

So the places of all entries follow from one byte of each, and all that lies between the values is compared
eight bytes at a time. Where an entry takes 128 bytes or more its sizes are written otherwise: that, and
whatever is not as in the first example, is Irregular, and `example_scan` has its turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.kernels.io.byte_runs import runs_of, strings_between
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


@dataclass(frozen=True, slots=True)
class _Entry:
    """What the first example says of one entry.

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

    @property
    def words(self) -> int:
        """How many words its header begins or fills."""
        return -(-len(self.header) // _WORD)

    def expected(self) -> tuple[list[int], list[int], list[int]]:
        """For each word of the header: which bits count, what they are, and what one byte more adds."""
        size = self.words * _WORD
        steps = bytearray(size)
        for place in self.sizes:
            steps[place] = 1
        mask = b"\xff" * len(self.header)
        return _as_words(mask, size), _as_words(self.header, size), _as_words(bytes(steps), size)


def _as_words(data: bytes, size: int) -> list[int]:
    padded = data.ljust(size, b"\0")
    return [int.from_bytes(padded[at : at + _WORD], "little") for at in range(0, size, _WORD)]


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

    def __init__(self, lists: ExampleLists, first: bytes) -> None:
        self._lists = lists
        entries = _entries(first)
        at, ends = self._places(len(entries))
        headers = np.array([len(each.header) for each in entries])[:, np.newaxis]
        #: Where the values of each entry of each example begin and end: (entries, examples).
        self._at, self._stop = at + headers, ends
        self._check(entries, at, ends)
        self._numbers = {each.key: number for number, each in enumerate(entries)}
        self._entries = entries

    def _places(self, count: int) -> tuple[Array, Array]:
        """Where so many entries of each example begin and end, if all sizes are of one byte."""
        lists = self._lists
        starts = np.empty(lists.count, np.int64)
        starts[0], starts[1:] = 0, lists.ends[:-1]
        require(starts < lists.ends)
        length, begin = lists.sized(starts, FIRST)
        require(begin + length == lists.ends)
        places = np.empty((count + 1, lists.count), np.int64)
        places[0] = begin
        octets = lists.octets
        try:
            for number in range(count):
                # Two bytes an entry are counted by looking so much further on.
                size = octets[2 * number + 1 :].take(places[number])
                np.add(places[number], size, out=places[number + 1])
        except IndexError:
            raise Irregular from None
        places += 2 * np.arange(count + 1)[:, np.newaxis]
        require(places[-1] == lists.ends)
        return places[:-1], places[1:]

    def _check(self, entries: Sequence[_Entry], at: Array, ends: Array) -> None:
        """Irregular unless all headers are those of the first example, with the sizes that they have here."""
        sizes = ends - at
        if int(sizes.max()) >= _MORE + 2:
            raise Irregular
        base = np.array([len(each.header) + each.length for each in entries])
        more = sizes - base[:, np.newaxis]
        # No size of a part may be less than nothing.
        require(more.min(axis=1) >= -np.array([each.length for each in entries]))
        for words in sorted({each.words for each in entries}):
            chosen = [number for number, each in enumerate(entries) if each.words == words]
            some = slice(None) if len(chosen) == len(entries) else chosen
            told = [entries[number].expected() for number in chosen]
            masks, wanted, steps = (np.array(each, np.uint64) for each in zip(*told, strict=True))
            places = at[some]
            longer = more[some].view(np.uint64)
            found = runs_of(self._lists.data, words * _WORD)[places].view("<u8").reshape(*places.shape, words)
            for word in range(words):
                given = found[..., word] & masks[:, word, np.newaxis]
                same = given == longer * steps[:, word, np.newaxis] + wanted[:, word, np.newaxis]
                require(same.reshape(-1))

    def columns(self, wanted: Sequence[tuple[bytes, DType]]) -> list[Column]:
        """The values of each (key, type) in all examples. Irregular where a feature has another type."""
        count = self._lists.count
        found: dict[int, Column] = {}
        together: dict[DType, list[int]] = {}
        for index, (key, dtype) in enumerate(wanted):
            number = self._numbers.get(key)
            if number is None:
                found[index] = _absent(count, dtype)
            elif self._entries[number].kind != LIST_TAGS[dtype]:
                raise Irregular
            elif len(self._entries[number].sizes) == 4:
                together.setdefault(dtype, []).append(index)
            else:
                at, stop = self._at[number], self._stop[number]
                found[index] = (*self._lists.values(at, stop, dtype), None)
        for dtype, indices in together.items():
            rows = [self._numbers[wanted[index][0]] for index in indices]
            found.update(zip(indices, self._of_one_run(rows, dtype), strict=True))
        return [found[index] for index in range(len(wanted))]

    def _of_one_run(self, rows: Sequence[int], dtype: DType) -> list[Column]:
        """The columns of these entries, whose lists are one string each, or packed numbers."""
        lists = self._lists
        at, stop = self._at[rows], self._stop[rows]
        ones = np.ones(lists.count, np.int64)
        if dtype is dtypes.string:
            return [(strings_between(lists.data, *each), ones, None) for each in zip(at, stop, strict=True)]
        lengths = stop - at
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
