"""The entries of a sparse tensor: what its three parts must be, the order of entries, runs of equal rows.

A sparse tensor of E entries and R dimensions is `indices` (E, R) int64, `values` (E,) and `shape` (R,) int64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, in_host_memory, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.indices import check_indices

#: A product of dimensions must be below this.
INT64_END = 2**63
#: From here on entries are sorted with their places packed into the keys, which needs no stable sort.
_PACKED_ENTRIES = 512


def checked_parts(
    indices: Value, values: Value, shape: Value, prefix: str = ""
) -> tuple[Array, Array, list[int]]:
    """The three parts as arrays and a list of dimensions; InvalidArgumentError where they do not fit.

    prefix  what stands before `indices`, `values` and `shape` in the op's names of its inputs
    """
    places, elements = to_array(indices), to_array(values)
    check_rank(places, 2, f"{prefix}indices", "a matrix")
    check_rank(elements, 1, f"{prefix}values", "a vector")
    dims = checked_shape(shape, f"{prefix}shape")
    check_columns(places, len(dims), f"{prefix}indices", f"{prefix}shape")
    check_lengths(places, elements, prefix)
    return places, elements, dims


def check_lengths(indices: Array, values: Array, prefix: str = "") -> None:
    """InvalidArgumentError where there are more indices than values, or fewer."""
    if len(indices) != len(values):
        raise InvalidArgumentError(
            f"{prefix}indices has {len(indices)} rows, but {prefix}values has {len(values)} elements"
        )


def check_rank(array: Array, rank: int, what: str, noun: str) -> None:
    """InvalidArgumentError for an array of another rank."""
    if array.ndim != rank:
        raise InvalidArgumentError(f"{what} should be {noun}, but has shape {brackets(array.shape)}")


def checked_shape(shape: Value, what: str) -> list[int]:
    """A dense shape as a list; InvalidArgumentError for another rank or a negative dimension."""
    array = to_array(shape)
    check_rank(array, 1, what, "a vector")
    dims: list[int] = array.tolist()
    if dims and min(dims) < 0:
        raise InvalidArgumentError(f"{what} must not have negative dimensions, but is {brackets(dims)}")
    return dims


def check_columns(indices: Array, rank: int, what: str, other: str) -> None:
    """InvalidArgumentError where the indices are of another rank than the dense shape."""
    if indices.shape[1] != rank:
        raise InvalidArgumentError(f"{what} has {indices.shape[1]} columns, but {other} has {rank} elements")


def check_inside(indices: Array, dims: Sequence[int], what: str = "indices") -> None:
    """InvalidArgumentError naming the first entry outside the dense shape."""
    # Rows are short: a column at a time is far quicker than a row at a time.
    for column, size in enumerate(dims):
        check_indices(indices[:, column], size, error=lambda: _leaving(indices, dims, what))


def _leaving(indices: Array, dims: Sequence[int], what: str) -> InvalidArgumentError:
    """The error that names the first entry outside the dense shape; it waits for the indices."""
    numbers: list[list[int]] = indices.tolist()
    outside = [any(not 0 <= i < size for i, size in zip(row, dims, strict=True)) for row in numbers]
    row = outside.index(True)
    return InvalidArgumentError(
        f"{what}[{row}] = {brackets(numbers[row])} is out of bounds: need 0 <= index < {brackets(dims)}"
    )


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


def ranks_of_rows(xp: Any, every: Array) -> Array:
    """Where each row would stand among all distinct rows: what fits into 64 bits whatever the dimensions."""
    order = order_of_rows(xp, every)
    ordered = every.take(order, 0)
    ranks: Array = xp.empty(len(every), np.int64)
    differs = (ordered[1:] != ordered[:-1]).any(1)
    ranks[order] = xp.cumsum(xp.concatenate([xp.zeros(min(len(every), 1), np.bool_), differs]))
    return ranks


def order_of_rows(xp: Any, every: Array) -> Array:
    """What puts rows of indices into order, equal ones as they come. Nobody looks at one."""
    order: Array = (
        xp.lexsort(xp.ascontiguousarray(every.T[::-1])) if every.shape[1] else xp.arange(len(every))
    )
    return order


def in_order(xp: Any, places: Array, elements: Array) -> tuple[Array, Array]:
    """Entries in the order of their indices, equal ones as they come; the same arrays where they are."""
    order = order_of(row_keys(places)[0]) if in_host_memory(places) else order_of_rows(xp, places)
    if order is None:
        return places, elements
    return places.take(order, 0), elements.take(order)


def order_of(keys: Array) -> Array | None:
    """What puts keys into order, equal ones as they come; None where they are in order."""
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
    """Where each run of equal neighbours begins; empty for no keys."""
    if not len(keys):
        return np.zeros(0, np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.flatnonzero(keys[1:] != keys[:-1]) + 1])


def product_of(dims: Sequence[int], what: str) -> int:
    """The number of elements; InvalidArgumentError where it is no int64."""
    total = 1
    for size in dims:
        total *= size
    if total >= INT64_END:
        raise InvalidArgumentError(f"{what} {brackets(dims)} has more elements than an int64 can count")
    return total


def unraveled(flat: Array, dims: Sequence[int]) -> Array:
    """(E,) places in a dense tensor of this shape as (E, R) indices."""
    result = np.empty((len(flat), len(dims)), np.int64)
    rest = flat
    for column in range(len(dims) - 1, 0, -1):
        rest, result[:, column] = np.divmod(rest, max(dims[column], 1))
    if dims:
        result[:, 0] = rest
    return result


def vector_of(dims: Sequence[int]) -> Array:
    """A dense shape as it is handed on: int64 (R,)."""
    return np.array(dims, np.int64)


def as_list(value: Value, what: str) -> list[Any]:
    """The elements of a vector; InvalidArgumentError for another rank."""
    array = to_array(value)
    check_rank(array, 1, what, "a vector")
    elements: list[Any] = array.tolist()
    return elements


__all__ = [
    "INT64_END",
    "as_list",
    "check_columns",
    "check_inside",
    "check_lengths",
    "check_rank",
    "checked_parts",
    "checked_shape",
    "distinct",
    "in_order",
    "keys_of_rows",
    "order_of",
    "order_of_rows",
    "product_of",
    "ranks_of_rows",
    "row_keys",
    "run_starts",
    "unraveled",
    "vector_of",
]
