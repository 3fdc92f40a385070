"""Rows that indices name more than once: whether there are any, which they are, and which is the last."""

from __future__ import annotations

import numpy as np

from flowengine.core.arrays import Array

#: A place for every row of the target that can be changed pays up to so many for one that is.
_MARKED_MAX = 64
#: So few rows are compared by Python.
_FEW = 64


def different(rows: Array, limit: int) -> tuple[Array, Array]:
    """The different rows, ascending, and which of them each row is."""
    if limit > 4 * rows.size:
        unique, places = np.unique(rows, return_inverse=True)
        return unique, places
    numbers = np.zeros(limit, np.int64)
    numbers[rows] = 1
    unique = np.flatnonzero(numbers)
    numbers[unique] = np.arange(unique.size)
    return unique, numbers[rows]


def all_different(rows: Array, limit: int) -> bool:
    if rows.size > limit:
        return False
    if rows.size < _FEW:
        values = rows.tolist()
        return len(set(values)) == len(values)
    if limit <= _MARKED_MAX * rows.size:
        # Of two places for one row one is overwritten, whichever it is.
        numbers, places = np.empty(limit, np.intp), np.arange(rows.size)
        numbers[rows] = places
        return bool((numbers[rows] == places).all())
    in_order = np.sort(rows)
    return not bool(np.any(in_order[1:] == in_order[:-1]))


def rounds(rows: Array) -> list[Array]:
    """Positions grouped so that no group holds a row twice and each row's occurrences keep their order."""
    order = np.argsort(rows, kind="stable")
    in_order = rows[order]
    starts = np.concatenate(([True], in_order[1:] != in_order[:-1]))
    first = np.maximum.accumulate(np.where(starts, np.arange(rows.size), 0))
    occurrence = np.arange(rows.size) - first
    return [order[occurrence == k] for k in range(int(occurrence.max()) + 1)]


def last_of_each(rows: Array, limit: int) -> Array | None:
    """The position of the last occurrence of each row, in any order; None where no row comes twice."""
    if rows.size < _FEW:
        last = {row: place for place, row in enumerate(rows.tolist())}
        return None if len(last) == rows.size else np.array(list(last.values()))
    if limit > _MARKED_MAX * rows.size:
        if all_different(rows, limit):
            return None
        _, from_behind = np.unique(rows[::-1], return_index=True)
        return rows.size - 1 - from_behind
    numbers, places = np.empty(limit, np.intp), np.arange(rows.size)
    later, found = rows, places
    # Which of several places for one row stays NumPy leaves open: those behind it are written once more.
    while later.size:
        numbers[later] = found
        is_behind = found > numbers[later]
        later, found = later[is_behind], found[is_behind]
    is_last = numbers[rows] == places
    return None if is_last.all() else np.flatnonzero(is_last)


__all__ = ["all_different", "different", "last_of_each", "rounds"]
