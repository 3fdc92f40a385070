"""Many serialised examples looked at together, with a few array operations instead of Python for each value.

Examples of one file are alike: each is one message of features, each feature an entry of key and list, each
list of numbers packed. `Scan` follows this form through all examples at once: the n-th entries of all, then
all keys, all lists. What is not quite of this form (fields in pieces, numbers not packed, keys that come
twice, damage) makes it give up, and a parser that knows everything has its turn; it never guesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.kernels.io.example_lists import (
    FIRST,
    LIST_TAGS,
    SECOND,
    STEPS_MAX,
    Column,
    ExampleLists,
    Irregular,
    all_of,
    byte_masks,
    require,
)


class Scan:
    """The features of examples. Raises Irregular."""

    def __init__(self, lists: ExampleLists) -> None:
        self._lists = lists
        self.count = lists.count
        octets = lists.octets
        self._rows, at, stop = self._entries(lists.ends)
        key_length, self._key_at = self._lists.sized(at, FIRST)
        self._key_length = key_length
        #: The first eight bytes of each key, zeros after its end.
        self._heads = self._lists.words[self._key_at] & byte_masks()[0].take(np.minimum(key_length, 8))
        value_at = self._key_at + key_length
        require(value_at < stop)
        length, at = self._lists.sized(value_at, SECOND)
        require(at + length == stop)
        self._kind = np.where(length != 0, octets[at], 0)
        empty = self._kind == 0
        if empty.any():
            require((length == 0) | ~empty)
            at = np.where(empty, 0, at)
            length, begin = self._lists.varint(at + 1)
            require((begin + length == stop) | empty)
            self._at = np.where(empty, stop, begin)
        else:
            length, self._at = self._lists.varint(at + 1)
            require(self._at + length == stop)
        self._stop = stop

    def column(self, key: bytes, dtype: DType) -> Column:
        """The values of one feature. Irregular also where it has another type in some example."""
        chosen: Any = self._find(key)
        if self._even and self._is_column(chosen):
            chosen = slice(int(chosen[0]), int(chosen[0]) + self.count)
        kinds = self._kind[chosen]
        if not all_of(kinds == LIST_TAGS[dtype]):
            if isinstance(chosen, slice):
                chosen = np.arange(chosen.start, chosen.stop)
            chosen = chosen[kinds != 0]
            require(self._kind[chosen] == LIST_TAGS[dtype])
        rows = self._rows[chosen]
        if not isinstance(chosen, slice) and len(rows) > 1 and (rows[1:] <= rows[:-1]).any():
            order = rows.argsort()
            chosen, rows = chosen[order], rows[order]
            require(rows[1:] != rows[:-1])
        at, stop = self._at[chosen], self._stop[chosen]
        values, sizes = self._lists.values(at, stop, dtype)
        if len(rows) == self.count:
            return values, sizes, None
        counts, present = np.zeros(self.count, np.int64), np.zeros(self.count, np.bool_)
        counts[rows] = sizes
        present[rows] = True
        return values, counts, present

    def columns(self, wanted: Sequence[tuple[bytes, DType]]) -> list[Column]:
        """Read `column` for each (key, type); lists at the same places in all examples are read together."""
        places = self._common_places()
        found: dict[int, Column] = {}
        for dtype in LIST_TAGS if places else ():
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
        keys = [
            self._lists.data[at : at + size] for at, size in zip(starts[:, 0], lengths[:, 0], strict=True)
        ]
        for key, at in zip(keys, starts, strict=True):
            if len(key) > 8 and not all_of(self._continues(at, key)):
                return {}
        return dict(zip(keys, range(len(keys)), strict=True)) if len(set(keys)) == len(keys) else {}

    def _continues(self, at: Array, key: bytes) -> Array:
        """Whether a key goes on behind its first eight bytes as this one does."""
        same = np.ones(len(at), np.bool_)
        for begin in range(8, len(key), 8):
            part = key[begin : begin + 8]
            mask = np.uint64((1 << 8 * len(part)) - 1)
            same &= (self._lists.words[at + begin] & mask) == np.uint64(int.from_bytes(part, "little"))
        return same

    def _single_values(self, places: Sequence[int], dtype: DType) -> list[Column]:
        """The columns of entries that have one value in each example; none at all where some has not."""
        count = self.count
        rows = (np.array(places)[:, np.newaxis] * count + np.arange(count)).reshape(-1)
        if not all_of(self._kind[rows] == LIST_TAGS[dtype]):
            return []
        values = self._lists.single_values(self._at[rows], self._stop[rows], dtype)
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
        length, at = self._lists.sized(starts[rows], FIRST)
        require(at + length == ends)
        found = []
        for _ in range(STEPS_MAX):
            going = at < ends
            if not all_of(going):
                rows, at, ends = rows[going], at[going], ends[going]
            if not len(rows):
                break
            length, begin = self._lists.varint(at + 1)
            stop = begin + length
            require(stop <= ends)
            found.append((rows, at, begin, stop))
            at = stop
        else:
            raise Irregular
        if not found:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing
        columns = zip(*found, strict=True)
        all_rows, tags, begins, stops = (np.concatenate(column) for column in columns)
        require(self._lists.octets.take(tags) == FIRST)
        #: Whether entry n of example i is at n * count + i: all have as many.
        self._even = len(all_rows) == len(found) * self.count
        return all_rows, begins, stops

    def _find(self, key: bytes) -> Array:
        """The entries that have this key."""
        head = np.uint64(int.from_bytes(key[:8], "little"))
        found = np.flatnonzero(self._heads == head)
        same = self._key_length[found] == len(key)
        if not all_of(same):
            found = found[same]
        if len(key) > 8:
            same = self._continues(self._key_at[found], key)
            if not all_of(same):
                found = found[same]
        return found
