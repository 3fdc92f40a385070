"""First appearances of distinct values, and each element's number: by a dict, a table or a sort."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

#: Up to this many elements a dict is faster than sorting (and strings are always put into one).
DICT_ELEMENTS: Final = 64


def first_appearances(x: Array) -> tuple[Array, Array]:
    """(positions of first appearances, number of the distinct value of each element) of a vector.

    NaNs are all different, as they are unequal; both zeros are one value.
    """
    size = x.size
    if size <= DICT_ELEMENTS or x.dtype.hasobject:
        return _by_dict(x)
    if x.dtype.kind in "iu":
        low, high = int(np.minimum.reduce(x)), int(np.maximum.reduce(x))
        if high - low < 4 * size:
            return _by_table(x, low, high)
    if x.dtype.kind == "V" or (x.dtype.itemsize == 2 and x.dtype.kind == "f"):
        x = x.astype(np.float32)
    _, first, inverse = np.unique(x, return_index=True, return_inverse=True, equal_nan=False)
    order = np.argsort(first)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return first[order], number[inverse]


def first_appearances_of_rows(rows: Array) -> tuple[Array, Array]:
    """`first_appearances` of the rows (N, ...)."""
    return _by_dict(_row_objects(rows))


def _by_dict(x: Array) -> tuple[Array, Array]:
    seen: dict[Any, int] = {}
    first: list[int] = []
    numbers: list[int] = []
    for position, value in enumerate(x.tolist()):
        number = seen.setdefault(value, len(seen))
        if number == len(first):
            first.append(position)
        numbers.append(number)
    return np.array(first, np.int64), np.array(numbers, np.int64)


def _by_table(x: Array, low: int, high: int) -> tuple[Array, Array]:
    """Integers of a small range (ids of a vocabulary): one table instead of a sort."""
    offset = x.astype(np.int64) - low
    position = np.arange(x.size)
    table = np.empty(high - low + 1, np.int64)
    # Of several writes to one place the last stays: written backwards, the first appearance.
    table[offset[::-1]] = position[::-1]
    first_of = table[offset]
    is_first = first_of == position
    number = np.cumsum(is_first) - 1
    return np.flatnonzero(is_first), number[first_of]


def _row_objects(rows: Array) -> Array:
    """One hashable object a row, equal where the rows are: NaNs are unequal to themselves."""
    keys = np.empty(len(rows), object)
    flat = np.ascontiguousarray(rows).reshape(len(rows), math.prod(rows.shape[1:]))
    if flat.dtype.kind in "iub":
        keys[:] = [row.tobytes() for row in flat]
    else:
        keys[:] = [tuple(row) for row in flat.tolist()] if flat.size else [()] * len(rows)
    return keys


__all__ = ["DICT_ELEMENTS", "first_appearances", "first_appearances_of_rows"]
