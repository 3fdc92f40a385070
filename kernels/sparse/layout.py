"""Sparse tensors joined, split, sliced, reordered and filled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, in_host_memory, to_array
from flowengine.core.errors import InternalError, InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, scalar
from flowengine.kernels.common.host_vectors import vector
from flowengine.kernels.common.indices import check_indices, in_range
from flowengine.kernels.common.row_order import (
    INT64_END,
    ranks_of_rows,
)
from flowengine.kernels.common.segment_sums import count_rows, taken_and_rest
from flowengine.kernels.numpy.order.row_keys import (
    order_of,
    row_keys,
)
from flowengine.kernels.registry import kernel
from flowengine.kernels.sparse.entries import (
    as_list,
    check_columns,
    check_inside,
    check_lengths,
    check_rank,
    checked_parts,
    checked_shape,
    in_order,
    product_of,
    vector_of,
)


@kernel("SparseReorder", host=("input_shape",))
def sparse_reorder(xp: Any, indices: Value, values: Value, shape: Value) -> Any:
    """The entries in the order of their indices, equal ones as they come."""
    places, elements = to_array(indices), to_array(values)
    check_rank(places, 2, "input_indices", "a matrix")
    check_rank(elements, 1, "input_values", "a vector")
    check_columns(places, len(as_list(shape, "input_shape")), "input_indices", "input_shape")
    check_lengths(places, elements)
    return in_order(xp, places, elements)


@kernel("SparseConcat", fresh=True, host=("shapes", "output_shape"))
def sparse_concat(
    xp: Any,
    indices: tuple[Value, ...],
    values: tuple[Value, ...],
    shapes: tuple[Value, ...],
    *,
    concat_dim: int,
) -> Any:
    """Sparse tensors after one another along a dimension, the entries in order."""
    parts = [
        checked_parts(*three, f"input {i}: ")
        for i, three in enumerate(zip(indices, values, shapes, strict=True))
    ]
    dims = list(parts[0][2])
    axis = concat_dim + len(dims) if concat_dim < 0 else concat_dim
    if not 0 <= axis < len(dims):
        raise InvalidArgumentError(
            f"Concat dimension must be in range [{-len(dims)}, {len(dims)}), got {concat_dim}"
        )
    moved, total = [], 0
    for number, (places, _, own) in enumerate(parts):
        if len(own) != len(dims):
            raise InvalidArgumentError(
                f"Ranks of all input tensors must match: expected {len(dims)} but got {len(own)} at "
                f"position {number}"
            )
        for at, (size, first) in enumerate(zip(own, dims, strict=True)):
            if at != axis and size != first:
                raise InvalidArgumentError(
                    f"Input shapes must match in all dimensions but {axis}: expected {first} but got {size} "
                    f"in dimension {at} at position {number}"
                )
        copy = places.copy()
        copy[:, axis] += total
        moved.append(copy)
        total += own[axis]
    dims[axis] = total
    if math.prod(dims) >= INT64_END:
        raise InternalError(f"Encountered overflow from large input shape: {brackets(dims)}")
    joined, elements = xp.concatenate(moved), xp.concatenate([part[1] for part in parts])
    return (*in_order(xp, joined, elements), vector_of(dims))


@kernel("SparseSplit", host=("split_dim", "shape", "output_shape"), looks=True)
def sparse_split(
    xp: Any, split_dim: Value, indices: Value, values: Value, shape: Value, *, num_split: int
) -> Any:
    """Parts of nearly equal size along a dimension, the first larger by one; entries keep their order."""
    axis = scalar(split_dim, "split_dim")
    places, elements, dims = checked_parts(indices, values, shape)
    rank = len(dims)
    if not -rank <= axis < rank:
        raise InvalidArgumentError(f"Input split_dim should be between [-{rank}, {rank}), got {axis}")
    axis %= rank
    size = dims[axis]
    if num_split < 1 or num_split > size:
        raise InvalidArgumentError(
            f"Input num_split should be between 1 and the splitting dimension size ({size}), got {num_split}"
        )
    check_inside(places, dims)
    product_of(dims, "shape")
    small, larger = divmod(size, num_split)
    column = places[:, axis]
    border = larger * (small + 1)
    part = xp.where(column < border, column // (small + 1), larger + (column - border) // small)
    order = order_of(part) if in_host_memory(part) else part.argsort(kind="stable")
    if order is not None:
        places, elements, part = places.take(order, 0), elements.take(order), part.take(order)
    ends = xp.searchsorted(part, xp.arange(num_split + 1)).tolist()
    found, taken, shapes = [], [], []
    start = 0
    for number in range(num_split):
        here = slice(ends[number], ends[number + 1])
        own = places[here].copy()
        own[:, axis] -= start
        width = small + (number < larger)
        start += width
        found.append(own)
        taken.append(elements[here])
        shapes.append(vector_of([*dims[:axis], width, *dims[axis + 1 :]]))
    return (*found, *taken, *shapes)


@kernel("SparseSlice", fresh=True, host=("shape", "start", "size", "output_shape"), looks=True)
def sparse_slice(xp: Any, indices: Value, values: Value, shape: Value, start: Value, size: Value) -> Any:
    """The entries within a box, counted from its corner; what lies outside of the dense shape is cut off."""
    places, elements, dims = checked_parts(indices, values, shape)
    product_of(dims, "shape")
    corner, sizes = as_list(start, "start"), as_list(size, "size")
    if not len(corner) == len(sizes) == len(dims):
        raise InvalidArgumentError(
            f"start {brackets(corner)} and size {brackets(sizes)} should have one element for each of the "
            f"{len(dims)} dimensions"
        )
    if min(sizes, default=0) < 0:
        raise InvalidArgumentError(f"size must not be negative, but is {brackets(sizes)}")
    ends = [min(first + length, dim) for first, length, dim in zip(corner, sizes, dims, strict=True)]
    cut = [max(end - first, 0) for first, end in zip(corner, ends, strict=True)]
    if not dims:
        return places.copy(), elements.copy(), vector_of(cut)
    # Rows are short: a column at a time is far quicker than a row at a time.
    inside = xp.ones(len(places), np.bool_)
    for column, (first, end) in enumerate(zip(corner, ends, strict=True)):
        numbers = places[:, column]
        inside &= numbers >= first
        inside &= numbers < end
    kept = xp.flatnonzero(inside)
    found = places.take(kept, 0)
    for column, first in enumerate(corner):
        found[:, column] -= first
    return found, elements.take(kept), vector_of(cut)


@kernel("SparseSliceGrad", fresh=True, host=("input_start",), looks=True)
def sparse_slice_grad(
    xp: Any, grad: Value, input_indices: Value, input_start: Value, output_indices: Value
) -> Any:
    """(E,): the gradient of each entry that is in the slice, zero for the others."""
    rows = to_array(grad)
    before, after = to_array(input_indices), to_array(output_indices)
    check_rank(before, 2, "input_indices", "a matrix")
    check_rank(after, 2, "output_indices", "a matrix")
    check_rank(rows, 1, "backprop_val_grad", "a vector")
    corner = to_array(input_start)
    check_rank(corner, 1, "input_start", "a vector")
    if before.shape[1] != after.shape[1] or before.shape[1] != len(corner):
        raise InvalidArgumentError(
            f"The input and output should have the same ndims: got {before.shape[1]}, {after.shape[1]} "
            f"and a start of {len(corner)}"
        )
    if len(after) > len(before):
        raise InvalidArgumentError(
            f"# rows of output_indices should be not greater than of input_indices: {len(after)} and "
            f"{len(before)}"
        )
    if len(rows) != len(after):
        raise InvalidArgumentError(
            f"backprop_val_grad has {len(rows)} elements, but output_indices has {len(after)} rows"
        )
    if in_host_memory(before):
        wanted, there = row_keys(after + corner, before)
    else:
        keys = ranks_of_rows(xp, xp.concatenate([after + xp.asarray(corner), before]))
        wanted, there = keys[: len(after)], keys[len(after) :]
    out = xp.zeros(len(before), rows.dtype)
    taken = _taken_in_order(xp, wanted, there)
    if len(taken) < len(wanted):
        raise InternalError(
            f"Elements of output_indices were not found among input_indices: {len(taken)} of {len(wanted)}"
        )
    out[taken] = rows
    return out


def _taken_in_order(xp: Any, wanted: Array, there: Array) -> Any:
    """The places in `there` at which `wanted` stands, one after another, as a walk through both tells."""
    matching = xp.flatnonzero(xp.isin(there, wanted))
    if len(matching) == len(wanted) and bool((there[matching] == wanted).all()):
        return matching
    found, at = [], 0
    keys = wanted.tolist()
    for place, key in enumerate(there.tolist()):
        if at < len(keys) and key == keys[at]:
            found.append(place)
            at += 1
    return xp.asarray(vector(found, np.int64))


@kernel("SparseReshape", fresh=True, host=("input_shape", "new_shape", "output_shape"))
def sparse_reshape(xp: Any, indices: Value, shape: Value, new_shape: Value) -> Any:
    """The indices of the same elements in a tensor of another shape, of which one dimension may be -1."""
    places = to_array(indices)
    check_rank(places, 2, "input_indices", "a matrix")
    dims = checked_shape(shape, "input_shape")
    wanted = as_list(new_shape, "new_shape")
    check_columns(places, len(dims), "input_indices", "input_shape")
    size = product_of(dims, "input_shape")
    target = _resolved(wanted, size, dims)
    if target == dims:
        return places.copy(), vector_of(target)
    if not size and len(places):
        raise InvalidArgumentError(
            f"input_shape {brackets(dims)} has no elements, but there are {len(places)} entries"
        )
    flat = xp.zeros(len(places), np.int64)
    for column, extent in enumerate(dims):
        flat *= extent
        flat += places[:, column]
    result = xp.empty((len(places), len(target)), np.int64)
    for column in range(len(target) - 1, 0, -1):
        flat, result[:, column] = xp.divmod(flat, max(target[column], 1))
    if target:
        result[:, 0] = flat
    return result, vector_of(target)


def _resolved(wanted: list[int], size: int, dims: list[int]) -> list[int]:
    """The new shape with its -1 filled in."""
    if wanted.count(-1) > 1:
        first = wanted.index(-1)
        raise InvalidArgumentError(
            f"only one output dimension may be -1, not both {first} and {wanted.index(-1, first + 1)}"
        )
    known = [d for d in wanted if d != -1]
    if known and min(known) < 0:
        raise InvalidArgumentError(f"size of a dimension must be non-negative, not {min(known)}")
    total = product_of(known, "new_shape")
    if -1 not in wanted:
        if total != size:
            raise InvalidArgumentError(
                f"Input to reshape is a tensor with {size} dense values, but the requested shape "
                f"{brackets(wanted)} has "
                f"{total}. input_shape={brackets(dims)}"
            )
        return wanted
    if not total:
        raise InvalidArgumentError(
            "reshape cannot infer the missing input size for an empty tensor unless all specified input "
            "sizes are non-zero"
        )
    missing, rest = divmod(size, total)
    if rest:
        raise InvalidArgumentError(
            f"Input to reshape is a SparseTensor with {size} dense values, but the requested shape requires "
            "a multiple "
            f"of {total}. input_shape={brackets(dims)} output_shape={brackets(wanted)}"
        )
    return [missing if d == -1 else d for d in wanted]


@kernel("SparseFillEmptyRows", host=("dense_shape",), looks=True)
def sparse_fill_empty_rows(
    xp: Any, indices: Value, values: Value, dense_shape: Value, default_value: Value
) -> Any:
    """Entries by row, with the default in the first column of each row that has none.

    returns     indices, values, (rows,) bool which rows were empty, (E,) where each entry went
    """
    places, elements, dims = checked_parts(indices, values, dense_shape, "dense_")
    default = to_array(default_value)
    if default.ndim:
        raise InvalidArgumentError(
            f"default_value should be a scalar, but has shape {brackets(default.shape)}"
        )
    if not dims:
        raise InvalidArgumentError("Dense shape cannot be empty")
    rows = dims[0]
    if not rows and len(places):
        raise InvalidArgumentError(
            f"Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = {len(places)}"
        )
    column = places[:, 0]
    if not in_range(column, rows):
        at = int(((column < 0) | (column >= rows)).argmax())
        raise InvalidArgumentError(f"indices({at}, 0) is invalid: {int(column[at])} is not in [0, {rows})")
    counts = count_rows(xp, column, rows)
    empty = counts == 0
    order = order_of(column) if in_host_memory(column) else column.argsort(kind="stable")
    if order is None and not empty.any():
        return places, elements, empty, xp.arange(len(places))
    # An entry moves up by one for each empty row before its own.
    shift = empty.cumsum()
    total = len(places) + int(shift[-1]) if rows else 0
    where = xp.arange(len(places))
    if order is not None:
        moved, where = where, xp.empty_like(where)
        where[order] = moved
    where += shift[column]
    found = xp.zeros((total, len(dims)), np.int64)
    found[where] = places
    filled = xp.flatnonzero(empty)
    gaps = counts.cumsum()[filled] + xp.arange(len(filled))
    found[gaps, 0] = filled
    taken = xp.empty(total, elements.dtype)
    taken[where] = elements
    taken[gaps] = default[()]
    return found, taken, empty, where


@kernel("SparseFillEmptyRowsGrad", fresh=True)
def sparse_fill_empty_rows_grad(xp: Any, reverse_index_map: Value, grad_values: Value) -> Any:
    """The gradient of each entry, and the sum of those that went to the default."""
    places, rows = to_array(reverse_index_map), to_array(grad_values)
    check_rank(places, 1, "reverse_index_map", "a vector")
    check_rank(rows, 1, "grad_values", "a vector")
    check_indices(
        places, len(rows), "Elements in reverse index must be in the range of grad_values: reverse_index_map"
    )
    return taken_and_rest(xp, places, rows)
