"""How often values occur in each row, as dense or sparse tensors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, in_host_memory, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, scalar
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.segment_sums import add_rows, count_rows
from flowengine.kernels.numpy.counting import binned
from flowengine.kernels.registry import kernel
from flowengine.kernels.sparse.entries import checked_parts, product_of, vector_of


def _check_weights(values: Array, weights: Array) -> None:
    if weights.size and weights.shape != values.shape:
        raise InvalidArgumentError(
            f"Weights and values must have the same shape. Weight shape: {brackets(weights.shape)}; "
            f"values shape: {brackets(values.shape)}"
        )


def _check_positive(values: Array) -> None:
    if values.size and int(values.min()) < 0:
        raise _negative(values)


def _negative(values: Array) -> InvalidArgumentError:
    """The error of a negative value; it waits for the values."""
    return InvalidArgumentError(f"Input arr must be non-negative, but holds {int(values.min())}")


def _binned(rows: Array | None, count: int, values: Array, size: int, weights: Array, binary: bool) -> Array:
    """(size,) or (count, size) bins: how often, with what weights, or whether values occur in each row."""
    _check_positive(values)
    _check_weights(values, weights)
    product_of([count, size], "the bins")
    return binned(rows, count, values, size, weights, binary)


def _binned_on_device(
    xp: Any, rows: Array | None, count: int, values: Array, size: int, weights: Array, binary: bool
) -> Array:
    """`_binned` of arrays of a device, without a look at them: what is in no bin goes to one behind all."""
    _check_weights(values, weights)
    total = product_of([count, size], "the bins")
    if values.size:
        refuse((values < 0).any(), lambda: _negative(values))
    wide = values.astype(np.int64)
    at = xp.where(xp.logical_and(wide >= 0, wide < size), wide if rows is None else rows * size + wide, total)
    if binary or weights.size:
        out = xp.zeros(total + 1, weights.dtype)
        if binary:
            out[at] = 1
        else:
            add_rows(xp, out, at, weights)
    else:
        out = count_rows(xp, at, total + 1).astype(weights.dtype)
    bins: Array = out[:total]
    return bins if rows is None else bins.reshape(count, size)


def _size(size: Value) -> int:
    wanted = to_array(size)
    count = scalar(wanted, "size")
    if count < 0:
        raise InvalidArgumentError(f"size ({count}) must be non-negative")
    return count


@kernel("DenseBincount", fresh=True, host=("size",))
def dense_bincount(xp: Any, tensor: Value, size: Value, weights: Value, *, binary_output: bool) -> Any:
    """Counts of the values of a vector, or of each row of a matrix, below `size`."""
    array, given, bins = to_array(tensor), to_array(weights), _size(size)
    if array.ndim > 2:
        raise InvalidArgumentError(f"Shape must be at most rank 2 but is rank {array.ndim}")
    _check_weights(array, given)
    count = _binned if in_host_memory(array) else partial(_binned_on_device, xp)
    flat = array.reshape(-1)
    if array.ndim < 2:
        return count(None, 1, flat, bins, given.reshape(-1), binary_output)
    rows = xp.repeat(xp.arange(len(array)), array.shape[1])
    return count(rows, len(array), flat, bins, given.reshape(-1), binary_output)


@kernel("SparseBincount", fresh=True, device="CPU")
def sparse_bincount(
    indices: Value, values: Value, shape: Value, size: Value, weights: Value, *, binary_output: bool
) -> Any:
    """Counts of the values of a sparse vector, or of each row of a sparse matrix, below `size`."""
    places, elements, dims = checked_parts(indices, values, shape, "dense_")
    bins = _size(size)
    if not dims:
        raise InvalidArgumentError("Shape must be at least rank 1 but is rank 0")
    if len(dims) == 1:
        return _binned(None, 1, elements, bins, to_array(weights), binary_output)
    rows = places[:, 0]
    _check_rows(rows, dims[0])
    given = to_array(weights)
    _check_weights(elements, given)
    # Of a matrix negative values are passed over, of a vector they are refused.
    kept = elements >= 0
    if not kept.all():
        rows, elements = rows[kept], elements[kept]
        given = given[kept] if given.size else given
    return _binned(rows, dims[0], elements, bins, given, binary_output)


def _check_rows(rows: Array, count: int) -> None:
    if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < count:
        raise InvalidArgumentError(
            f"an index leaves the {count} rows: {int(rows.min())} to {int(rows.max())}"
        )


def _split_rows(splits: Value, total: int) -> tuple[Array, int]:
    """(row of each value, number of rows)"""
    ends = to_array(splits).reshape(-1)
    if not len(ends):
        raise InvalidArgumentError("Must provide at least 1 element for the splits argument")
    if ends[0] != 0:
        raise InvalidArgumentError(f"Splits must start with 0, not with {ends[0]}")
    if ends[-1] != total:
        raise InvalidArgumentError(
            f"Splits must end with the number of values, got {ends[-1]} instead of {total}"
        )
    # A row that begins before an earlier one ends has only what comes after that, and none has what is not.
    lengths = np.diff(np.minimum(np.maximum.accumulate(ends), total))
    return np.repeat(np.arange(len(ends) - 1), lengths), len(ends) - 1


@kernel("RaggedBincount", fresh=True, device="CPU")
def ragged_bincount(splits: Value, values: Value, size: Value, weights: Value, *, binary_output: bool) -> Any:
    """Counts of the values of each row of a ragged matrix, below `size`."""
    elements, bins = to_array(values).reshape(-1), _size(size)
    rows, count = _split_rows(splits, len(elements))
    return _binned(rows, count, elements, bins, to_array(weights), binary_output)


def _counted(
    rows: Array | None, count: int, values: Array, weights: Array, lengths: tuple[int, int], binary: bool
) -> tuple[Array, Array, Array]:
    """The counts of each row as a sparse tensor: one entry for each value that occurs in it."""
    low, high = lengths
    if values.size and int(values.min()) < 0:
        raise InvalidArgumentError(f"Input values must all be non-negative, but one is {int(values.min())}")
    width = max(int(values.max(initial=0)) + 1, low) if high < 0 else high
    inside = values < width
    columns = values[inside].astype(np.int64)
    owners = np.zeros(len(columns), np.int64) if rows is None else rows[inside]
    product_of([count, max(width, 1)], "the dense shape")
    keys, where = np.unique(owners * max(width, 1) + columns, return_inverse=True)
    if binary:
        found = np.ones(len(keys), weights.dtype)
    elif not weights.size:
        found = np.bincount(where, minlength=len(keys)).astype(weights.dtype)
    else:
        found = np.zeros(len(keys), weights.dtype)
        np.add.at(found, where, weights[inside])
    if rows is None:
        return keys[:, None], found, vector_of([width])
    return np.stack(np.divmod(keys, max(width, 1)), 1), found, vector_of([count, width])


@kernel("DenseCountSparseOutput", fresh=True, device="CPU")
def dense_count_sparse_output(
    values: Value, weights: Value, *, minlength: int, maxlength: int, binary_output: bool, output_type: DType
) -> Any:
    """Counts of the values of a vector, or of each row of a matrix, as a sparse tensor."""
    array, given = to_array(values), to_array(weights)
    if array.ndim not in (1, 2):
        raise InvalidArgumentError(f"Input must be a 1 or 2-dimensional tensor. Got: {array.ndim}")
    _check_weights(array, given)
    if array.ndim == 2 and not len(array):
        raise InvalidArgumentError("Shapes dimension cannot be 0: there are no rows")
    rows = None if array.ndim == 1 else np.repeat(np.arange(len(array)), array.shape[1])
    return _counted(
        rows, len(array), array.reshape(-1), given.reshape(-1), (minlength, maxlength), binary_output
    )


@kernel("SparseCountSparseOutput", fresh=True, device="CPU")
def sparse_count_sparse_output(
    indices: Value,
    values: Value,
    shape: Value,
    weights: Value,
    *,
    minlength: int,
    maxlength: int,
    binary_output: bool,
) -> Any:
    """Counts of the values of a sparse vector, or of each row of a sparse matrix, as a sparse tensor."""
    places, elements, dims = checked_parts(indices, values, shape, "dense_")
    given = to_array(weights)
    _check_weights(elements, given)
    if not dims:
        raise InvalidArgumentError("Input must be at least 1-dimensional. Got: 0")
    if len(dims) > 1:
        _check_rows(places[:, 0], dims[0])
    rows = None if len(dims) == 1 else places[:, 0]
    return _counted(rows, dims[0], elements, given, (minlength, maxlength), binary_output)


@kernel("RaggedCountSparseOutput", fresh=True, device="CPU")
def ragged_count_sparse_output(
    splits: Value, values: Value, weights: Value, *, minlength: int, maxlength: int, binary_output: bool
) -> Any:
    """Counts of the values of each row of a ragged matrix, as a sparse tensor."""
    elements, given = to_array(values), to_array(weights)
    _check_weights(elements, given)
    rows, count = _split_rows(splits, elements.size)
    return _counted(
        rows, count, elements.reshape(-1), given.reshape(-1), (minlength, maxlength), binary_output
    )
