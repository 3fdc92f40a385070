"""Sets and counts of the values in rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value, in_host_memory, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, scalar
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.segment_sums import add_rows, count_rows
from flowengine.kernels.numpy.counting import binned
from flowengine.kernels.numpy.order.row_keys import distinct, row_keys
from flowengine.kernels.registry import kernel
from flowengine.kernels.sparse.entries import check_inside, checked_parts, product_of, unraveled, vector_of

# Sets and sequences that the rows of sparse tensors hold.
#
# A set is the values of all entries that differ in their last index only, its group. Values become
# numbers in
# their order, so that a group and a value are one integer, whatever the type.

#: What a node's `set_operation` may be, of two vectors of distinct keys in order.
_OPERATIONS: Final[dict[bytes, Callable[[Array, Array], Array]]] = {
    b"a-b": lambda a, b: np.setdiff1d(a, b, assume_unique=True),
    b"b-a": lambda a, b: np.setdiff1d(b, a, assume_unique=True),
    b"intersection": lambda a, b: np.intersect1d(a, b, assume_unique=True),
    b"union": distinct,
}


def _of_sparse(
    indices: Value, values: Value, shape: Value, prefix: str, validate_indices: bool
) -> tuple[Array, Array, list[int]]:
    """(number of the group, value of each entry, shape of the groups)."""
    places, elements, dims = checked_parts(indices, values, shape, prefix)
    if len(dims) < 2:
        raise InvalidArgumentError(f"Invalid input {prefix}shape: rank {len(dims)} < 2")
    product_of(dims, f"{prefix}shape")
    check_inside(places, dims, f"{prefix}indices")
    if validate_indices:
        _check_order(places, f"{prefix}indices")
    return _flat(places[:, :-1], dims[:-1]), elements, dims[:-1]


def _check_order(places: Array, what: str) -> None:
    keys = row_keys(places)[0]
    wrong = keys[1:] <= keys[:-1]
    if wrong.any():
        at = int(wrong.argmax()) + 1
        how = "repeated" if keys[at] == keys[at - 1] else "out of order"
        raise InvalidArgumentError(f"{what}[{at}] = {brackets(places[at].tolist())} is {how}")


def _flat(places: Array, dims: list[int]) -> Array:
    flat = np.zeros(len(places), np.int64)
    for column, extent in enumerate(dims):
        flat = flat * extent + places[:, column]
    return flat


def _of_dense(tensor: Value, what: str) -> tuple[Array, Array, list[int]]:
    array = to_array(tensor)
    if array.ndim < 2:
        raise InvalidArgumentError(f"Invalid input {what}: rank {array.ndim} < 2")
    groups = np.repeat(np.arange(array.size // array.shape[-1] if array.size else 0), array.shape[-1])
    return groups, array.reshape(-1), list(array.shape[:-1])


def _operate(
    first: tuple[Array, Array, list[int]], second: tuple[Array, Array, list[int]], set_operation: bytes
) -> Any:
    """The sets of both that belong together, combined: a sparse tensor with each set in order."""
    operate = _OPERATIONS.get(set_operation.lower())
    if operate is None:
        raise InvalidArgumentError(f"Invalid set_operation {set_operation.decode(errors='replace')}.")
    dims = first[2]
    if dims != second[2]:
        raise InvalidArgumentError(f"Mismatched group shapes {brackets(dims)} and {brackets(second[2])}")
    known, numbers = np.unique(np.concatenate([first[1], second[1]]), return_inverse=True)
    count = max(len(known), 1)
    middle = len(first[1])
    found = operate(
        distinct(first[0] * count + numbers[:middle]), distinct(second[0] * count + numbers[middle:])
    )
    groups, numbers = np.divmod(found, count)
    starts = np.searchsorted(groups, groups)
    at = np.arange(len(groups)) - starts
    indices = np.concatenate([unraveled(groups, dims), at[:, None]], 1)
    return indices, known[numbers], vector_of([*dims, int(at.max()) + 1 if len(at) else 0])


@kernel("SetSize", fresh=True)
def set_size(indices: Value, values: Value, shape: Value, *, validate_indices: bool) -> Any:
    """How many distinct values each set has (int32, the dense shape without its last dimension)."""
    groups, elements, dims = _of_sparse(indices, values, shape, "set_", validate_indices)
    known, numbers = np.unique(elements, return_inverse=True)
    count = max(len(known), 1)
    sizes = np.bincount(
        np.unique(groups * count + numbers) // count, minlength=product_of(dims, "the groups")
    )
    return sizes.astype(np.int32).reshape(dims)


@kernel("DenseToDenseSetOperation", fresh=True)
def dense_to_dense_set_operation(set1: Value, set2: Value, *, set_operation: bytes) -> Any:
    """Sets in the rows of two dense tensors, combined."""
    return _operate(_of_dense(set1, "set1"), _of_dense(set2, "set2"), set_operation)


@kernel("DenseToSparseSetOperation", fresh=True)
def dense_to_sparse_set_operation(
    set1: Value, indices: Value, values: Value, shape: Value, *, set_operation: bytes, validate_indices: bool
) -> Any:
    """Sets in the rows of a dense tensor and of a sparse one, combined."""
    second = _of_sparse(indices, values, shape, "set2_", validate_indices)
    return _operate(_of_dense(set1, "set1"), second, set_operation)


@kernel("SparseToSparseSetOperation", fresh=True)
def sparse_to_sparse_set_operation(
    indices1: Value,
    values1: Value,
    shape1: Value,
    indices2: Value,
    values2: Value,
    shape2: Value,
    *,
    set_operation: bytes,
    validate_indices: bool,
) -> Any:
    """Sets in the rows of two sparse tensors, combined."""
    first = _of_sparse(indices1, values1, shape1, "set1_", validate_indices)
    return _operate(first, _of_sparse(indices2, values2, shape2, "set2_", validate_indices), set_operation)


@kernel("EditDistance", fresh=True)
def edit_distance(
    hypothesis_indices: Value,
    hypothesis_values: Value,
    hypothesis_shape: Value,
    truth_indices: Value,
    truth_values: Value,
    truth_shape: Value,
    *,
    normalize: bool,
) -> Any:
    """Levenshtein's distance of each pair of sequences (float32), divided by the truth's length on demand."""
    left = checked_parts(hypothesis_indices, hypothesis_values, hypothesis_shape, "hypothesis_")
    right = checked_parts(truth_indices, truth_values, truth_shape, "truth_")
    if len(left[2]) != len(right[2]):
        raise InvalidArgumentError(f"hypothesis and truth differ in rank: {len(left[2])} and {len(right[2])}")
    if len(left[2]) < 2:
        raise InvalidArgumentError(
            f"Input SparseTensors must have rank at least 2, but truth_shape rank is: {len(left[2])}"
        )
    dims = [max(a, b) for a, b in zip(left[2][:-1], right[2][:-1], strict=True)]
    size = product_of(dims, "the groups")
    for places, what in ((left[0], "hypothesis_indices"), (right[0], "truth_indices")):
        check_inside(places[:, :-1], dims, what)
    groups = [_flat(places[:, :-1], dims) for places in (left[0], right[0])]
    present = np.union1d(*groups)
    rows = [np.searchsorted(present, group) for group in groups]
    lengths = [np.bincount(row, minlength=len(present)) for row in rows]
    distances = _distances(
        _padded(rows[0], left[1], lengths[0]), _padded(rows[1], right[1], lengths[1]), *lengths
    ).astype(np.float32)
    if normalize:
        distances = np.where(
            lengths[1] == 0, np.float32(np.inf), distances / np.maximum(lengths[1], 1).astype(np.float32)
        )
    out = np.zeros(size, np.float32)
    out[present] = distances
    return out.reshape(dims)


def _padded(rows: Array, values: Array, lengths: Array) -> Array:
    """(G, longest) the sequences, one a row, and whatever behind their ends."""
    order = rows.argsort(kind="stable")
    ordered = rows[order]
    starts = np.cumsum(lengths) - lengths
    out = np.zeros((len(lengths), int(lengths.max(initial=0))), values.dtype)
    out[ordered, np.arange(len(rows)) - starts[ordered]] = values[order]
    return out


def _distances(a: Array, b: Array, a_lengths: Array, b_lengths: Array) -> Array:
    """(G,) distances, all sequences at once: one row of the table of prefixes for each element of `a`."""
    steps = np.arange(b.shape[1] + 1)
    row = np.broadcast_to(steps, (len(a), len(steps))).copy()
    found = np.where(a_lengths == 0, b_lengths, 0)
    for number in range(a.shape[1]):
        changed = row[:, :-1] + (a[:, number, None] != b)
        row[:, 0] += 1
        row[:, 1:] = np.minimum(row[:, 1:] + 1, changed)
        # What an insertion saves reaches everything to its right.
        row = np.minimum.accumulate(row - steps, 1) + steps
        done = a_lengths == number + 1
        found[done] = row[done, b_lengths[done]]
    return found


# How often values occur in each row, as dense or sparse tensors.


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
