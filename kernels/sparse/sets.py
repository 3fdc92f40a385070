"""Sets and sequences that the rows of sparse tensors hold.

A set is the values of all entries that differ in their last index only, its group. Values become numbers in
their order, so that a group and a value are one integer, whatever the type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.numpy.order.row_keys import (
    distinct,
    row_keys,
)
from flowengine.kernels.registry import kernel
from flowengine.kernels.sparse.entries import (
    check_inside,
    checked_parts,
    product_of,
    unraveled,
    vector_of,
)

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
