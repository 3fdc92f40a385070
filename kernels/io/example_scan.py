"""Many serialised examples looked at together, with a few array operations instead of Python for each value.

Examples of one file are alike: each is one message of features, each feature an entry of key and list, each
list of numbers packed. `Scan` follows this form through all examples at once: the n-th entries of all, then
all keys, all lists. What is not quite of this form (fields in pieces, numbers not packed, keys that come
twice, damage) makes it give up, and a parser that knows everything has its turn; it never guesses.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType

#: The tag of the list of each type in a feature, and in the table of entries.
_TAGS: Final = {dtypes.string: 0x0A, dtypes.float32: 0x12, dtypes.int64: 0x1A}
_FIRST: Final = 0x0A  # field 1, of known length
_SECOND: Final = 0x12

#: Entries of one example, or strings of one list, up to which looking at all examples in step is quick.
STEPS_MAX: Final = 256
#: Strings shorter than this are grouped by length where a length has so many of them: a third of the time.
_SHORT: Final = 256
_ALIKE: Final = 32
#: Bytes that may be read beyond the last one.
_SLACK: Final = 16

#: The values of a feature in all examples, one after another; how many each example has; which have it,
#: None for all.
Column: TypeAlias = tuple[Array, Array, Array | None]


class Irregular(Exception):
    """The examples are not of the usual form."""


class Scan:
    """The features of examples, given as a list of bytes. Raises Irregular."""

    def __init__(self, texts: list[bytes]) -> None:
        self.count = len(texts)
        self._data = b"".join([*texts, bytes(_SLACK)])
        octets = np.frombuffer(self._data, np.uint8)
        self._octets = octets
        #: The eight bytes from any place on, whatever its alignment.
        self._words = np.ndarray((len(octets) - 7,), "<u8", self._data, strides=(1,))
        self._pairs = np.ndarray((len(octets) - 1,), "<u2", self._data, strides=(1,))
        ends = np.fromiter(map(len, texts), np.int64, self.count).cumsum()
        self._rows, at, stop = self._entries(ends)
        key_length, self._key_at = self._sized(at, _FIRST)
        self._key_length = key_length
        #: The first eight bytes of each key, zeros after its end.
        self._heads = self._words[self._key_at] & _byte_masks()[0].take(np.minimum(key_length, 8))
        value_at = self._key_at + key_length
        _require(value_at < stop)
        length, at = self._sized(value_at, _SECOND)
        _require(at + length == stop)
        self._kind = np.where(length != 0, octets[at], 0)
        empty = self._kind == 0
        if empty.any():
            _require((length == 0) | ~empty)
            at = np.where(empty, 0, at)
            length, begin = self._varint(at + 1)
            _require((begin + length == stop) | empty)
            self._at = np.where(empty, stop, begin)
        else:
            length, self._at = self._varint(at + 1)
            _require(self._at + length == stop)
        self._stop = stop

    def column(self, key: bytes, dtype: DType) -> Column:
        """The values of one feature. Irregular also where it has another type in some example."""
        chosen: Any = self._find(key)
        if self._even and self._is_column(chosen):
            chosen = slice(int(chosen[0]), int(chosen[0]) + self.count)
        kinds = self._kind[chosen]
        if not _all(kinds == _TAGS[dtype]):
            if isinstance(chosen, slice):
                chosen = np.arange(chosen.start, chosen.stop)
            chosen = chosen[kinds != 0]
            _require(self._kind[chosen] == _TAGS[dtype])
        rows = self._rows[chosen]
        if not isinstance(chosen, slice) and len(rows) > 1 and (rows[1:] <= rows[:-1]).any():
            order = rows.argsort()
            chosen, rows = chosen[order], rows[order]
            _require(rows[1:] != rows[:-1])
        at, stop = self._at[chosen], self._stop[chosen]
        if dtype is dtypes.string:
            values, sizes = self._strings(at, stop)
        else:
            at = self._packed(at, stop)
            values, sizes = self._floats(at, stop) if dtype is dtypes.float32 else self._numbers(at, stop)
        if len(rows) == self.count:
            return values, sizes, None
        counts, present = np.zeros(self.count, np.int64), np.zeros(self.count, np.bool_)
        counts[rows] = sizes
        present[rows] = True
        return values, counts, present

    def columns(self, wanted: Sequence[tuple[bytes, DType]]) -> list[Column]:
        """What `column` gives of each (key, type); those that lie alike in all examples are read together."""
        places = self._common_places()
        found: dict[int, Column] = {}
        for dtype in _TAGS if places else ():
            numbers = [n for n, (key, kind) in enumerate(wanted) if kind is dtype and key in places]
            if len(numbers) > 1:
                columns = self._single_values([places[wanted[n][0]] for n in numbers], dtype)
                found.update(zip(numbers, columns, strict=False))
        return [found.get(n) or self.column(key, dtype) for n, (key, dtype) in enumerate(wanted)]

    def _common_places(self) -> dict[bytes, int]:
        """{key: n} where it is that of the n-th entry in all examples; empty where they are not so alike."""
        count = self.count
        if not self._even or not count:
            return {}
        heads, lengths = self._heads.reshape(-1, count), self._key_length.reshape(-1, count)
        starts = self._key_at.reshape(-1, count)
        if not ((heads == heads[:, :1]) & (lengths == lengths[:, :1])).all():
            return {}
        keys = [self._data[at : at + size] for at, size in zip(starts[:, 0], lengths[:, 0], strict=True)]
        for key, at in zip(keys, starts, strict=True):
            if len(key) > 8 and not _all(self._continues(at, key)):
                return {}
        return dict(zip(keys, range(len(keys)), strict=True)) if len(set(keys)) == len(keys) else {}

    def _continues(self, at: Array, key: bytes) -> Array:
        """Whether a key goes on behind its first eight bytes as this one does."""
        same = np.ones(len(at), np.bool_)
        for begin in range(8, len(key), 8):
            part = key[begin : begin + 8]
            mask = np.uint64((1 << 8 * len(part)) - 1)
            same &= (self._words[at + begin] & mask) == np.uint64(int.from_bytes(part, "little"))
        return same

    def _single_values(self, places: Sequence[int], dtype: DType) -> list[Column]:
        """The columns of entries that have one value in each example; none at all where some has not."""
        count = self.count
        rows = (np.array(places)[:, np.newaxis] * count + np.arange(count)).reshape(-1)
        at, stop = self._at[rows], self._stop[rows]
        if not (_all(self._kind[rows] == _TAGS[dtype]) and _all(at < stop)):
            return []
        length, begin = self._sized(at, _FIRST)
        if not _all(begin + length == stop):
            return []
        if dtype is dtypes.string:
            values: Any = self._slices(begin, stop)
        elif dtype is dtypes.float32:
            values = self._floats(begin, stop)[0] if _all(length == 4) else None
        else:
            short = int(length.max()) <= 8 and int(length.min()) > 0
            values = self._short_numbers(begin, length) if short else None
        if values is None:
            return []
        ones = np.ones(count, np.int64)
        return [(column.copy(), ones, None) for column in values.reshape(-1, count)]

    def _is_column(self, chosen: Array) -> bool:
        """Whether these are the n-th entries of all examples, for some n."""
        count = self.count
        return len(chosen) == count and int(chosen[-1] - chosen[0]) == count - 1 and not chosen[0] % count

    # -- structure -----------------------------------------------------------------------------------

    def _entries(self, ends: Array) -> tuple[Array, Array, Array]:
        """Example, first byte and end of each entry of each example."""
        self._even = False
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1])) if len(ends) else ends
        rows = np.flatnonzero(starts < ends)
        ends = ends[rows]
        length, at = self._sized(starts[rows], _FIRST)
        _require(at + length == ends)
        found = []
        for _ in range(STEPS_MAX):
            going = at < ends
            if not _all(going):
                rows, at, ends = rows[going], at[going], ends[going]
            if not len(rows):
                break
            length, begin = self._varint(at + 1)
            stop = begin + length
            _require(stop <= ends)
            found.append((rows, at, begin, stop))
            at = stop
        else:
            raise Irregular
        if not found:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing
        columns = zip(*found, strict=True)
        all_rows, tags, begins, stops = (np.concatenate(column) for column in columns)
        _require(self._octets.take(tags) == _FIRST)
        #: Whether entry n of example i is at n * count + i: all have as many.
        self._even = len(all_rows) == len(found) * self.count
        return all_rows, begins, stops

    def _sized(self, at: Array, tag: int) -> tuple[Array, Array]:
        """The length of a field with this tag, and where its contents begin."""
        _require(self._octets.take(at) == tag)
        return self._varint(at + 1)

    def _varint(self, at: Array) -> tuple[Array, Array]:
        """Numbers of up to five bytes, and what follows each. What is damaged shows where they are used.

        `ir.wire` reads numbers that lie one after the other; these lie anywhere, one in each example.
        """
        pairs = self._pairs[at]
        values, sizes = _short_numbers()
        value = values.take(pairs)
        after = at + sizes.take(pairs)
        return (value, after) if not len(at) or int(value.min()) >= 0 else self._long_varint(at)

    def _long_varint(self, at: Array) -> tuple[Array, Array]:
        value = self._octets[at].astype(np.int64)
        at = at + 1
        more = value >= 0x80
        shift = 7
        while more.any():
            if shift > 28:
                raise Irregular
            byte = self._octets[np.where(more, at, 0)].astype(np.int64)
            # The bit that says "more" is taken away where the next byte is added.
            value = np.where(more, value + ((byte - 1) << shift), value)
            at = at + more
            more = more & (byte >= 0x80)
            shift += 7
        return value, at

    def _find(self, key: bytes) -> Array:
        """The entries that have this key."""
        head = np.uint64(int.from_bytes(key[:8], "little"))
        found = np.flatnonzero(self._heads == head)
        same = self._key_length[found] == len(key)
        if not _all(same):
            found = found[same]
        if len(key) > 8:
            same = self._continues(self._key_at[found], key)
            if not _all(same):
                found = found[same]
        return found

    # -- lists ---------------------------------------------------------------------------------------

    def _packed(self, at: Array, stop: Array) -> Array:
        """Where packed numbers begin; lists without any end where they begin."""
        empty = at == stop
        if not empty.any():
            length, at = self._sized(at, _FIRST)
            _require(at + length == stop)
            return at
        some = ~empty
        begin = at.copy()
        begin[some] = self._packed(at[some], stop[some])
        return begin

    def _strings(self, at: Array, stop: Array) -> tuple[Array, Array]:
        if len(at) and _all(at < stop):
            length, begin = self._sized(at, _FIRST)
            if _all(begin + length == stop):
                return self._slices(begin, stop), np.ones(len(at), np.int64)
        sizes = np.zeros(len(at), np.int64)
        found = []
        rows = np.arange(len(at))
        for _ in range(STEPS_MAX):
            going = at < stop
            if not _all(going):
                rows, at, stop = rows[going], at[going], stop[going]
            if not len(rows):
                break
            length, at = self._sized(at, _FIRST)
            following = at + length
            _require(following <= stop)
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
        return self._slices(begins, ends), sizes

    def _slices(self, begins: Array, ends: Array) -> Array:
        """The bytes between, as objects; those of one length are made by one operation."""
        values = np.empty(len(begins), object)
        lengths = ends - begins
        few = len(lengths) > 0 and int(lengths.max()) < _SHORT
        common: list[int] = np.flatnonzero(np.bincount(lengths)).tolist() if few else []
        if not common or len(common) * _ALIKE > len(lengths):
            data = self._data
            values[:] = [data[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True)]
            return values
        for length in common:
            same = slice(None) if len(common) == 1 else np.flatnonzero(lengths == length)
            values[same] = self._items(length)[begins[same]].astype(object) if length else b""
        return values

    def _items(self, length: int) -> Array:
        """The so many bytes from any place on, as one item."""
        return np.ndarray(
            (len(self._octets) - length + 1,), np.dtype((np.void, length)), self._data, strides=(1,)
        )

    def _floats(self, at: Array, stop: Array) -> tuple[Array, Array]:
        bytes_each = stop - at
        sizes = bytes_each >> 2
        _require(bytes_each == sizes << 2)
        if not len(at):
            return np.zeros(0, np.float32), sizes
        length = int(bytes_each[0])
        if length and (bytes_each == length).all():
            return self._items(length)[at].view("<f4").astype(np.float32, copy=False), sizes
        every = np.ndarray((len(self._octets) - 3,), "<f4", self._data, strides=(1,))
        return every[_ranges(at, sizes, 4)].astype(np.float32, copy=False), sizes

    def _short_numbers(self, at: Array, lengths: Array) -> Array | None:
        """The numbers of lists of one number of up to eight bytes, None where some list has several."""
        masks, tops = _byte_masks()
        words = self._words[at] & masks.take(lengths)
        if not _all((~words & np.uint64(0x8080808080808080) & masks.take(lengths)) == tops.take(lengths)):
            return None
        value = words & np.uint64(0x7F)
        for place in range(1, int(lengths.max())):
            value |= ((words >> np.uint64(8 * place)) & np.uint64(0x7F)) << np.uint64(7 * place)
        return value.view(np.int64)

    def _numbers(self, at: Array, stop: Array) -> tuple[Array, Array]:
        lengths = stop - at
        if len(at) and int(lengths.max()) <= 8 and int(lengths.min()) > 0:
            single = self._short_numbers(at, lengths)
            if single is not None:
                return single, np.ones(len(at), np.int64)
        octets = self._octets[_ranges(at, lengths, 1)]
        last = octets < 0x80
        if last.all():
            return octets.astype(np.int64), lengths
        ends = lengths.cumsum()
        some = lengths > 0
        _require(last[ends[some] - 1])
        finished = np.concatenate((np.zeros(1, np.int64), last.cumsum()))
        sizes = finished[ends] - finished[ends - lengths]
        stops = np.flatnonzero(last) + 1
        self._even = False
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
def _byte_masks() -> tuple[Array, Array]:
    """For 0 to 8 bytes of a word: the mask of them, and the highest bit of the last (uint64 [9])."""
    masks = [(1 << 8 * count) - 1 for count in range(9)]
    tops = [0, *(0x80 << 8 * (count - 1) for count in range(1, 9))]
    return np.array(masks, np.uint64), np.array(tops, np.uint64)


def _all(condition: Array) -> bool:
    """As `condition.all()`, in a third of the time for what is small."""
    return bool(np.count_nonzero(condition) == len(condition))


def _require(condition: Array) -> None:
    if np.count_nonzero(condition) != len(condition):
        raise Irregular


def _ranges(starts: Array, counts: Array, step: int) -> Array:
    """`counts` places from each start on, `step` apart, one after another."""
    before = counts.cumsum() - counts
    places: Array = np.arange(int(counts.sum())) * step + (starts - before * step).repeat(counts)
    return places
