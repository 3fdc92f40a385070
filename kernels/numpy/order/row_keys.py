"""Rows of indices as one number each, numbers put into order, and runs of equal ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.common.row_order import INT64_END, ranks_of_rows

#: From here on entries are sorted with their places packed into the keys, which needs no stable sort.
_PACKED_ENTRIES: Final = 512


def row_keys(*matrices: Array) -> list[Array]:
    """For each matrix of indices one int64 a row, in the rows' order and equal where rows are equal.

    Matrices have the same number of columns; their keys may be compared with each other.
    """
    if matrices[0].shape[1] == 1:
        return [matrix[:, 0] for matrix in matrices]
    if len(matrices) == 1:
        return [keys_of_rows(matrices[0])]
    keys = keys_of_rows(np.concatenate(matrices))
    parts, start = [], 0
    for matrix in matrices:
        parts.append(keys[start : start + len(matrix)])
        start += len(matrix)
    return parts


def keys_of_rows(every: Array) -> Array:
    """`row_keys` of one matrix (N, R)."""
    columns = every.shape[1]
    if not every.size:
        return np.zeros(len(every), np.int64)
    if columns == 1:
        return every[:, 0]
    # Indices begin at 0, or nearly so: only where they do not, or reach far, is it worth finding where.
    low = [0] * columns
    high = [int(np.maximum.reduce(every[:, column])) for column in range(columns)]
    if np.minimum.reduce(every, axis=None) < 0 or _extents(low, high)[1] >= INT64_END:
        low = [int(np.minimum.reduce(every[:, column])) for column in range(columns)]
    extents, total = _extents(low, high)
    if total >= INT64_END:
        return ranks_of_rows(np, every)
    key: Array = every[:, 0] - low[0] if low[0] else every[:, 0]
    for column in range(1, columns):
        key = key * extents[column]
        key += every[:, column]
        if low[column]:
            key -= low[column]
    return key


def _extents(low: Sequence[int], high: Sequence[int]) -> tuple[list[int], int]:
    """How many numbers each column may have, and their product."""
    extents = [end - start + 1 for start, end in zip(low, high, strict=True)]
    return extents, math.prod(extents)


def order_of(keys: Array) -> Array | None:
    """Return the order that sorts keys, equal ones as they come; None if they are in order."""
    size = len(keys)
    if size < 2 or bool((keys[1:] >= keys[:-1]).all()):
        return None
    if size >= _PACKED_ENTRIES:
        low = int(keys.min())
        if (int(keys.max()) - low + 1) * size < INT64_END:
            packed = (keys - low) * size + np.arange(size)
            packed.sort()
            return packed % size
    return keys.argsort(kind="stable")


def distinct(*vectors: Array) -> Array:
    """The distinct numbers of vectors, in order. A stable sort takes what is in order in one pass."""
    every = np.concatenate(vectors)
    every.sort(kind="stable")
    kept = np.ones(len(every), bool)
    np.not_equal(every[1:], every[:-1], out=kept[1:])
    return every[kept]


def run_starts(keys: Array) -> Array:
    """Return the start of each run of equal neighbours; empty for no keys."""
    if not len(keys):
        return np.zeros(0, np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.flatnonzero(keys[1:] != keys[:-1]) + 1])


__all__ = ["distinct", "keys_of_rows", "order_of", "row_keys", "run_starts"]
