"""Reductions of sparse tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InternalError, InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.numpy.order.row_keys import (
    order_of,
    row_keys,
    run_starts,
)
from flowengine.kernels.registry import kernel
from flowengine.kernels.sparse.entries import (
    checked_parts,
    product_of,
    vector_of,
)


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
