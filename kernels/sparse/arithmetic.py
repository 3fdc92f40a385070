"""Arithmetic and reductions of sparse tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InternalError, InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.math.binary import truncate_div_integer
from flowengine.kernels.numpy.order.row_keys import order_of, row_keys, run_starts
from flowengine.kernels.registry import kernel
from flowengine.kernels.sparse.entries import check_inside, check_rank, checked_parts, product_of, vector_of

# Arithmetic of sparse tensors, with each other and with dense ones.


def _merged(first: Array, second: Array) -> tuple[Array, Array]:
    """Two lists of keys walked through together: (places in the first, in the second), -1 where it has none.

    Each list is in order and has no key twice; of others the walk takes the smaller of the two heads.
    """
    if not (_rises(first) and _rises(second)):
        places = np.array(_walk(first.tolist(), second.tolist()), np.int64).reshape(-1, 2)
        return places[:, 0], places[:, 1]
    if len(first) == len(second) and (first == second).all():
        left = np.arange(len(first))
        return left, left
    before = first.searchsorted(second)
    is_new = np.ones(len(second), bool)
    if len(first):
        is_new = first.take(before, mode="clip") != second
    # A key that only the second list has comes behind all smaller ones of the first, and of those.
    new = np.flatnonzero(is_new)
    places_new = before.take(new)
    places_new += np.arange(len(new))
    is_old = np.ones(len(first) + len(new), bool)
    is_old[places_new] = False
    left, right = (np.full(len(is_old), -1, np.int64) for _ in range(2))
    left[is_old] = np.arange(len(first))
    right[places_new] = new
    shared = np.flatnonzero(~is_new)
    right[np.flatnonzero(is_old).take(before.take(shared))] = shared
    return left, right


def _rises(keys: Array) -> bool:
    return bool((keys[1:] > keys[:-1]).all())


def _walk(first: list[int], second: list[int]) -> list[tuple[int, int]]:
    pairs, i, j = [], 0, 0
    while i < len(first) and j < len(second):
        a, b = first[i], second[j]
        pairs.append((i if a <= b else -1, j if b <= a else -1))
        i += a <= b
        j += b <= a
    pairs += [(k, -1) for k in range(i, len(first))]
    return pairs + [(-1, k) for k in range(j, len(second))]


def _two(
    a: tuple[Value, Value, Value], b: tuple[Value, Value, Value]
) -> tuple[tuple[Array, Array, list[int]], tuple[Array, Array, list[int]]]:
    """Both operands; InvalidArgumentError where their dense shapes differ."""
    left, right = checked_parts(*a, "a_"), checked_parts(*b, "b_")
    if len(left[2]) != len(right[2]):
        raise InvalidArgumentError(
            f"Operands do not have the same ranks; got shapes: {brackets(left[2])} and {brackets(right[2])}"
        )
    if left[2] != right[2]:
        raise InvalidArgumentError(
            f"Operands' shapes do not match: {brackets(left[2])} and {brackets(right[2])}"
        )
    product_of(left[2], "a_shape")
    return left, right


def _joined(left: Array, right: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """The values of both operands at the merged places, zero where one has none."""
    zero = np.zeros(1, a.dtype)
    return np.concatenate([a, zero])[left], np.concatenate([b, zero])[right]


def _indices_of(left: Array, right: Array, a: Array, b: Array) -> Array:
    if not len(left):
        return np.zeros((0, a.shape[1]), np.int64)
    return np.concatenate([a, b])[np.where(left >= 0, left, right + len(a))]


@kernel("SparseAdd", fresh=True)
def sparse_add(
    a_indices: Value,
    a_values: Value,
    a_shape: Value,
    b_indices: Value,
    b_values: Value,
    b_shape: Value,
    thresh: Value,
) -> Any:
    """The sum as a sparse tensor, without sums of two that are smaller than `thresh` in magnitude."""
    least = to_array(thresh)
    if least.ndim:
        raise InvalidArgumentError(
            f"The magnitude threshold must be a scalar: got shape {brackets(least.shape)}"
        )
    (a_places, a, dims), (b_places, b, _) = _two(
        (a_indices, a_values, a_shape), (b_indices, b_values, b_shape)
    )
    left, right = _merged(*row_keys(a_places, b_places))
    if left is right:
        total = a + b
        large = least <= np.abs(total)
        places = a_places.copy()
    else:
        from_a, from_b = _joined(left, right, a, b)
        # What only one has is handed on as it is, minus zero too.
        total = np.where(left < 0, from_b, np.where(right < 0, from_a, from_a + from_b))
        large = (left < 0) | (right < 0) | (least <= np.abs(total))
        places = _indices_of(left, right, a_places, b_places)
    if not large.all():
        places, total = places[large], total[large]
    return places, total, vector_of(dims)


@kernel("SparseAddGrad", fresh=True)
def sparse_add_grad(grad: Value, a_indices: Value, b_indices: Value, sum_indices: Value) -> Any:
    """The sum's gradient at each entry of either operand, zero where the sum dropped it."""
    rows = to_array(grad)
    places = [to_array(v) for v in (a_indices, b_indices, sum_indices)]
    for array, name in zip(places, ("a_indices", "b_indices", "sum_indices"), strict=True):
        check_rank(array, 2, name, "a matrix")
    check_rank(rows, 1, "backprop_val_grad", "a vector")
    if len({array.shape[1] for array in places}) > 1:
        raise InvalidArgumentError(
            "The densified operands should have the same ndims: indices are of "
            f"{', '.join(str(array.shape[1]) for array in places)} columns"
        )
    if len(rows) != len(places[2]):
        raise InvalidArgumentError(
            f"# elements of backprop_val_grad and # rows of sum_indices should match: {len(rows)} and "
            f"{len(places[2])}"
        )
    a, b, total = row_keys(*places)
    return _found(rows, a, total), _found(rows, b, total)


def _found(rows: Array, keys: Array, total: Array) -> Array:
    out = np.zeros(len(keys), rows.dtype)
    if len(total) and len(keys):
        if not _rises(total):
            order = total.argsort(kind="stable")
            rows, total = rows[order], total[order]
        at = np.minimum(np.searchsorted(total, keys), len(total) - 1)
        hit = total[at] == keys
        out[hit] = rows[at[hit]]
    return out


def _extreme(ufunc: Any, a: tuple[Value, Value, Value], b: tuple[Value, Value, Value]) -> tuple[Array, Array]:
    (a_places, a_values, dims), (b_places, b_values, _) = _two(a, b)
    check_inside(a_places, dims, "a_indices")
    check_inside(b_places, dims, "b_indices")
    left, right = _merged(*row_keys(a_places, b_places))
    return _indices_of(left, right, a_places, b_places), ufunc(*_joined(left, right, a_values, b_values))


@kernel("SparseSparseMaximum", fresh=True)
def sparse_sparse_maximum(
    a_indices: Value, a_values: Value, a_shape: Value, b_indices: Value, b_values: Value, b_shape: Value
) -> Any:
    """The larger of two sparse tensors, element by element; zero where one has no entry."""
    return _extreme(np.maximum, (a_indices, a_values, a_shape), (b_indices, b_values, b_shape))


@kernel("SparseSparseMinimum", fresh=True)
def sparse_sparse_minimum(
    a_indices: Value, a_values: Value, a_shape: Value, b_indices: Value, b_values: Value, b_shape: Value
) -> Any:
    """The smaller of two sparse tensors, element by element; zero where one has no entry."""
    return _extreme(np.minimum, (a_indices, a_values, a_shape), (b_indices, b_values, b_shape))


def _dense_elements(indices: Value, values: Value, shape: Value, dense: Value) -> tuple[Array, Array]:
    """(values, the elements of the broadcast dense tensor at their indices)."""
    places, elements, dims = checked_parts(indices, values, shape, "sp_")
    product_of(dims, "sp_shape")
    array = to_array(dense)
    padded = (1,) * (len(dims) - array.ndim) + array.shape
    own = zip(array.shape, dims[len(dims) - array.ndim :], strict=False)
    if array.ndim > len(dims) or any(d not in (1, size) or d > size for d, size in own):
        raise InvalidArgumentError(
            "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: "
            f"{brackets(dims)} vs. {brackets(array.shape)}"
        )
    if not array.size and len(elements):
        raise InvalidArgumentError(f"dense is empty, but there are {len(elements)} entries")
    check_inside(places, dims, "sp_indices")
    at = tuple(places[:, i] if size != 1 else 0 for i, size in enumerate(padded))
    taken = np.broadcast_to(array.reshape(padded)[at], elements.shape)
    return elements, taken


@kernel("SparseDenseCwiseAdd", fresh=True)
def sparse_dense_cwise_add(indices: Value, values: Value, shape: Value, dense: Value) -> Any:
    """The values plus the dense tensor's elements at their indices."""
    elements, taken = _dense_elements(indices, values, shape, dense)
    return elements + taken


@kernel("SparseDenseCwiseMul", fresh=True)
def sparse_dense_cwise_mul(indices: Value, values: Value, shape: Value, dense: Value) -> Any:
    """The values times the dense tensor's elements at their indices."""
    elements, taken = _dense_elements(indices, values, shape, dense)
    return elements * taken


@kernel("SparseDenseCwiseDiv", fresh=True)
def sparse_dense_cwise_div(indices: Value, values: Value, shape: Value, dense: Value) -> Any:
    """The values divided by the dense tensor's elements at their indices; integers towards zero."""
    elements, taken = _dense_elements(indices, values, shape, dense)
    return elements / taken if elements.dtype.kind not in "iu" else truncate_div_integer(np, elements, taken)


@kernel("SparseSoftmax", fresh=True)
def sparse_softmax(indices: Value, values: Value, shape: Value) -> Any:
    """Softmax over the entries of each run that differs in its last index only, in order."""
    places, elements, dims = checked_parts(indices, values, shape, "sp_")
    if len(dims) < 2:
        raise InvalidArgumentError(f"Input should have rank >= 2, but has rank {len(dims)}")
    product_of(dims, "sp_shape")
    order = order_of(row_keys(places)[0])
    if order is not None:
        places, elements = places.take(order, 0), elements.take(order)
    starts = run_starts(row_keys(places[:, :-1])[0])
    if not len(starts):
        return elements.copy()
    lengths = np.diff(starts, append=len(elements))
    powers = np.exp(elements - np.repeat(np.maximum.reduceat(elements, starts), lengths))
    return powers / np.repeat(np.add.reduceat(powers, starts), lengths)


# Reductions of sparse tensors.


def _axes(axes: Value, rank: int) -> list[int]:
    """The axes that are reduced, in order."""
    array = to_array(axes)
    if array.ndim > 1:
        raise InvalidArgumentError(
            f"reduction_axes should be a vector, but has shape {brackets(array.shape)}"
        )
    named = array.reshape(-1).tolist()
    for axis in named:
        if not -rank <= axis < rank:
            raise InvalidArgumentError(
                f"Invalid reduction dimension {axis}, for input with {rank} dimensions."
            )
    return sorted({axis % rank for axis in named})


def _reduced(
    ufunc: Any, parts: tuple[Value, Value, Value], axes: Value
) -> tuple[Array, Array, list[int], list[int]]:
    """(indices of the groups in what is left, their values, the dense shape, reduced axes)."""
    places, elements, dims = checked_parts(*parts, "input_")
    product_of(dims, "input_shape")
    gone = _axes(axes, len(dims))
    left = [axis for axis in range(len(dims)) if axis not in gone]
    groups = places[:, left]
    keys = row_keys(groups)[0]
    order = order_of(keys)
    if order is not None:
        keys, groups, elements = keys.take(order), groups.take(order, 0), elements.take(order)
    starts = run_starts(keys)
    if not len(starts):
        return groups[:0], elements[:0], dims, gone
    narrow = elements.dtype.itemsize == 2 and elements.dtype.kind in "fV"
    wide = elements.astype(np.float32) if narrow else elements
    return groups.take(starts, 0), ufunc.reduceat(wide, starts).astype(elements.dtype), dims, gone


def _dense(ufunc: Any, parts: tuple[Value, Value, Value], axes: Value, keep_dims: bool) -> Any:
    groups, values, dims, gone = _reduced(ufunc, parts, axes)
    left = [d for i, d in enumerate(dims) if i not in gone]
    outside = (groups < 0) | (groups >= np.array(left, np.int64))
    if outside.any():
        first = groups[outside.any(1).argmax()].tolist()
        raise InternalError(
            f"Obtained a write index of {brackets(first)} which is outside of bounds of {brackets(left)}"
        )
    out = np.zeros(left, values.dtype)
    out[tuple(groups.T)] = values if groups.shape[1] else values.sum(dtype=values.dtype)
    return out.reshape([1 if i in gone else d for i, d in enumerate(dims)]) if keep_dims else out


def _sparse(ufunc: Any, parts: tuple[Value, Value, Value], axes: Value, keep_dims: bool) -> Any:
    groups, values, dims, gone = _reduced(ufunc, parts, axes)
    if not keep_dims:
        return groups, values, vector_of([d for i, d in enumerate(dims) if i not in gone])
    wide = np.zeros((len(groups), len(dims)), np.int64)
    wide[:, [i for i in range(len(dims)) if i not in gone]] = groups
    return wide, values, vector_of([1 if i in gone else d for i, d in enumerate(dims)])


@kernel("SparseReduceSum", fresh=True)
def sparse_reduce_sum(indices: Value, values: Value, shape: Value, axes: Value, *, keep_dims: bool) -> Any:
    """Sums over axes, as a dense tensor."""
    return _dense(np.add, (indices, values, shape), axes, keep_dims)


@kernel("SparseReduceMax", fresh=True)
def sparse_reduce_max(indices: Value, values: Value, shape: Value, axes: Value, *, keep_dims: bool) -> Any:
    """The largest of the entries over axes, as a dense tensor; zero where there is no entry."""
    return _dense(np.maximum, (indices, values, shape), axes, keep_dims)


@kernel("SparseReduceSumSparse", fresh=True)
def sparse_reduce_sum_sparse(
    indices: Value, values: Value, shape: Value, axes: Value, *, keep_dims: bool
) -> Any:
    """Sums over axes, as a sparse tensor in order."""
    return _sparse(np.add, (indices, values, shape), axes, keep_dims)


@kernel("SparseReduceMaxSparse", fresh=True)
def sparse_reduce_max_sparse(
    indices: Value, values: Value, shape: Value, axes: Value, *, keep_dims: bool
) -> Any:
    """The largest of the entries over axes, as a sparse tensor in order."""
    return _sparse(np.maximum, (indices, values, shape), axes, keep_dims)
