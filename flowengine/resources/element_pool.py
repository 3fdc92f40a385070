"""Elements in no particular order, of fixed shapes, held as one array a component.

Many are added or taken with a few array operations; one that is taken leaves its place to the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.resources.elements import Element

#: Elements for which there is room at first.
_ROOM = 16


class ElementPool:
    """Elements by their place: 0 up to the count. Everything taken out is the taker's own."""

    __slots__ = ("_columns", "_count", "_room", "_shapes", "_types")

    def __init__(self, types: Sequence[DType], shapes: Sequence[tuple[int, ...]]) -> None:
        self._types = [dtype.as_numpy_dtype for dtype in types]
        self._shapes = tuple(shapes)
        self.clear()

    def clear(self) -> None:
        """Drop all elements and their memory."""
        self._count = 0
        self._room = 0
        self._columns: list[Array] = [
            np.empty((0, *shape), dtype) for dtype, shape in zip(self._types, self._shapes, strict=True)
        ]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Element]:
        return zip(*(column[: self._count] for column in self._columns), strict=True)

    def add(self, element: Element) -> None:
        """Add a copy of one element."""
        place = self._count
        if place == self._room:
            self._grow(place + 1)
        for column, value in zip(self._columns, element, strict=True):
            column[place] = value
        self._count = place + 1

    def add_rows(self, batch: Element, start: int, stop: int) -> None:
        """Add copies of some rows of a batch."""
        place, end = self._count, self._count + stop - start
        if end > self._room:
            self._grow(end)
        for column, values in zip(self._columns, batch, strict=True):
            column[place:end] = values[start:stop]
        self._count = end

    def take(self, place: int) -> Element:
        """Remove one element."""
        self._count = last = self._count - 1
        taken = []
        for column, shape in zip(self._columns, self._shapes, strict=True):
            taken.append(column[place].copy() if shape else column[place])
            if place != last:
                column[place] = column[last]
            if column.dtype.hasobject:
                column[last] = None
        return tuple(taken)

    def take_many(self, places: Array) -> Element:
        """Remove elements (int64 [n], no place twice): each component stacked in this order."""
        taken = tuple(column.take(places, axis=0) for column in self._columns)
        left = self._count - len(places)
        stays = np.ones(len(places), np.bool_)
        beyond = places >= left
        stays[places[beyond] - left] = False
        holes, last = places[~beyond], np.flatnonzero(stays) + left
        for column in self._columns:
            column[holes] = column[last]
            if column.dtype.hasobject:
                column[left : self._count] = None
        self._count = left
        return taken

    def _grow(self, least: int) -> None:
        self._room = room = max(least, 2 * self._room, _ROOM)
        for index, column in enumerate(self._columns):
            larger = np.empty((room, *column.shape[1:]), column.dtype)
            larger[: self._count] = column[: self._count]
            self._columns[index] = larger


class ElementList:
    """The same for elements whose shapes differ, one by one."""

    __slots__ = ("_elements",)

    def __init__(self) -> None:
        self._elements: list[Element] = []

    def clear(self) -> None:
        self._elements.clear()

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[Element]:
        return iter(self._elements)

    def add(self, element: Element) -> None:
        """Add one element, which becomes the list's own."""
        self._elements.append(element)

    def take(self, place: int) -> Element:
        """Remove one element; the last one takes its place."""
        held = self._elements
        held[place], held[-1] = held[-1], held[place]
        return held.pop()
