"""The entries of a sparse tensor: what its three parts must be, the order of entries, runs of equal rows.

A sparse tensor of E entries and R dimensions is `indices` (E, R) int64, `values` (E,) and `shape` (R,) int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, in_host_memory, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.host_vectors import vector
from flowengine.kernels.common.indices import check_indices
from flowengine.kernels.common.row_order import INT64_END, order_of_rows
from flowengine.kernels.numpy.order.row_keys import order_of, row_keys


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


def in_order(xp: Any, places: Array, elements: Array) -> tuple[Array, Array]:
    """Entries in the order of their indices, equal ones as they come; the same arrays where they are."""
    order = order_of(row_keys(places)[0]) if in_host_memory(places) else order_of_rows(xp, places)
    if order is None:
        return places, elements
    return places.take(order, 0), elements.take(order)


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
    return vector(dims, np.int64)


def as_list(value: Value, what: str) -> list[Any]:
    """The elements of a vector; InvalidArgumentError for another rank."""
    array = to_array(value)
    check_rank(array, 1, what, "a vector")
    elements: list[Any] = array.tolist()
    return elements


__all__ = [
    "as_list",
    "check_columns",
    "check_inside",
    "check_lengths",
    "check_rank",
    "checked_parts",
    "checked_shape",
    "in_order",
    "product_of",
    "unraveled",
    "vector_of",
]
