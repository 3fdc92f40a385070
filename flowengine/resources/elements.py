"""Elements of queues, stages and barriers: tuples of values that belong to the resource alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from flowengine.core.arrays import Array, Value, scalar_element, to_array
from flowengine.core.buffers import empty
from flowengine.core.dtypes import DType

#: One value a component.
Element: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class HeldTensor:
    """A tensor that flows along an edge as one variant."""

    value: Array


class ElementRun:
    """Elements that follow each other, as a list of values for each component.

    Python's collector counts containers, and after so many goes through all that the program holds: of many
    small elements that are there for a while, it is not to see a tuple each.

    columns   none as long as there is no element
    """

    __slots__ = ("columns",)

    def __init__(self, columns: Sequence[list[Value]] = ()) -> None:
        self.columns = columns

    @classmethod
    def of(cls, elements: Iterable[Element]) -> ElementRun:
        """A run of elements that are there one by one."""
        return cls([list(column) for column in zip(*elements, strict=True)])

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def __iter__(self) -> Iterator[Element]:
        return iter(zip(*self.columns, strict=True))

    def __getitem__(self, place: int) -> Element:
        return tuple([column[place] for column in self.columns])

    def __add__(self, other: ElementRun) -> ElementRun:
        if not self.columns:
            return other
        pairs = zip(self.columns, other.columns, strict=True)
        return ElementRun([first + second for first, second in pairs]) if other.columns else self

    def __iadd__(self, other: ElementRun) -> ElementRun:
        """More at the end, in place: a batch of many short runs is not copied for each of them."""
        if not self.columns:
            self.columns = [list(column) for column in other.columns]
        elif other.columns:
            for column, more in zip(self.columns, other.columns, strict=True):
                column += more
        return self

    def part(self, start: int, stop: int | None = None) -> ElementRun:
        """Those from one place to before another one, or to the end."""
        return ElementRun([column[start:stop] for column in self.columns])

    def append(self, element: Element) -> None:
        """One more at the end."""
        if not self.columns:
            self.columns = [[value] for value in element]
            return
        for column, value in zip(self.columns, element, strict=True):
            column.append(value)


def own(element: Element) -> Element:
    """The element with arrays of its own: what comes in may be a feed or a constant."""
    return tuple(
        [
            (value.copy() if value.ndim else value[()]) if isinstance(value, np.ndarray) else value
            for value in element
        ]
    )


def rows_of(batch: Element) -> list[Element]:
    """The rows of a batch as elements, each with memory of its own.

    A view of the batch would keep all of it alive until its last row has been taken.
    """
    columns = [list(value) if value.ndim == 1 else [row.copy() for row in value] for value in batch]
    return list(zip(*columns, strict=True))


def stack(values: list[Value], dtype: DType, shape: tuple[int, ...]) -> Array:
    """Values of one shape along a new first axis: (len(values), *shape)."""
    numpy_dtype = dtype.as_numpy_dtype
    if not shape and not numpy_dtype.hasobject:
        return np.array(values, dtype=numpy_dtype)
    if shape and values:
        arrays = [to_array(value) for value in values]
        if numpy_dtype.hasobject or {each.dtype for each in arrays} != {numpy_dtype}:
            return np.concatenate(arrays).reshape((len(values), *shape))
        # The memory of a batch is used again by one of the next.
        result = empty((len(values), *shape), numpy_dtype)
        np.concatenate(arrays, out=result.reshape(len(values) * shape[0], *shape[1:]))
        return result
    result = np.empty((len(values), *shape), dtype=numpy_dtype)
    if not shape and set(map(type, values)) <= {bytes}:
        result[:] = values
        return result
    for index, value in enumerate(values):
        result[index] = scalar_element(value)
    return result
