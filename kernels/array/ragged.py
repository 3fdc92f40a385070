"""Rows of different lengths, and the dense tensors they are padded to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InternalError, InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, outputs
from flowengine.kernels.common.indices import check_indices
from flowengine.kernels.common.segment_sums import count_rows, taken_and_rest
from flowengine.kernels.registry import kernel

# Rows of different lengths, as one tensor of values and the places where rows end.
#
# Kernels for a CPU alone are those of which TensorFlow has none for GPUs: how long rows are has to be seen.

#: A row of a range has fewer elements.
_LENGTH_END: Final = 2**63 - 1


def places(starts: Array, lengths: Array) -> Array:
    """starts[i], starts[i] + 1, ... for `lengths[i]` numbers, row after row."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


def splits_of(lengths: Array, dtype: Any) -> Array:
    """Return the start of each row of these lengths, and the end of the last one."""
    out = np.zeros(len(lengths) + 1, dtype)
    np.cumsum(lengths, out=out[1:])
    return out


def checked_splits(nested: Sequence[Value], values: Array) -> list[Array]:
    """Splits that fit together, the outermost first; InvalidArgumentError where they do not."""
    if not values.ndim:
        raise InvalidArgumentError("ragged values must be at least of rank 1, but are a scalar")
    splits = [to_array(each) for each in nested]
    for level, each in enumerate(splits):
        if each.ndim != 1 or not each.size:
            raise InvalidArgumentError(
                f"ragged splits {level} must be a vector of at least one element, but has shape "
                f"{brackets(each.shape)}"
            )
        if each[0] != 0:
            raise InvalidArgumentError(f"First value of ragged splits must be 0, but is {each[0]}")
        if (each[1:] < each[:-1]).any():
            raise InvalidArgumentError(f"ragged splits {level} must not fall")
        inner = len(splits[level + 1]) - 1 if level + 1 < len(splits) else len(values)
        if each[-1] != inner:
            raise InvalidArgumentError(
                f"Final value of ragged splits {level} must match the length of what is split: "
                f"{each[-1]} vs. {inner}"
            )
    return splits


@kernel("RaggedRange", device="CPU", fresh=True)
def ragged_range(starts: Value, limits: Value, deltas: Value, *, T: DType, Tsplits: DType) -> Any:
    """Ranges, one a row; what is a scalar is the same for all rows."""
    arrays = [to_array(v) for v in (starts, limits, deltas)]
    for name, array in zip(("starts", "limits", "deltas"), arrays, strict=True):
        if array.ndim > 1:
            raise InvalidArgumentError(
                f"{name} must be a scalar or vector, but has shape {brackets(array.shape)}"
            )
    sizes = {len(array) for array in arrays if array.ndim}
    if len(sizes) > 1:
        raise InvalidArgumentError(
            "starts, limits, and deltas must have the same shape: "
            f"{', '.join(brackets(a.shape) for a in arrays)}"
        )
    rows = sizes.pop() if sizes else 1
    first, limit, step = (np.broadcast_to(array, (rows,)) for array in arrays)
    if (step == 0).any():
        raise InvalidArgumentError("Requires delta != 0")
    lengths = _lengths(first, limit, step)
    total = splits_of(lengths, np.int64)
    if int(total[-1]) > np.iinfo(Tsplits.as_numpy_dtype).max:
        raise InvalidArgumentError(f"the ranges have {int(total[-1])} elements, which {Tsplits} cannot count")
    if T.is_floating:
        values = _summed(first, step, lengths)
    else:
        at = np.arange(total[-1]) - np.repeat(total[:-1], lengths)
        values = np.repeat(first, lengths) + (at * np.repeat(step, lengths)).astype(first.dtype)
    return total.astype(Tsplits.as_numpy_dtype), values


def _lengths(first: Array, limit: Array, step: Array) -> Array:
    """How many numbers each range has; InvalidArgumentError for more than an int64 can count."""
    nothing = ((step > 0) & (first >= limit)) | ((step < 0) & (first <= limit))
    if first.dtype.kind == "i":
        lengths = [
            0 if none else -((a - b) // s if s > 0 else (b - a) // -s)
            for a, b, s, none in zip(
                first.tolist(), limit.tolist(), step.tolist(), nothing.tolist(), strict=True
            )
        ]
        counted = np.array(lengths, object)
    else:
        wide = first.dtype if first.dtype.itemsize > 2 else np.dtype(np.float32)
        a, b, s = (x.astype(wide) for x in (first, limit, step))
        counted = np.where(nothing, 0, np.ceil(np.abs((b - a) / s)))
    if (counted >= _LENGTH_END).any() or sum(counted.tolist()) >= _LENGTH_END:
        raise InvalidArgumentError("Requires ((limit - start) / delta) <= 9223372036854775807")
    return counted.astype(np.int64)


def _summed(first: Array, step: Array, lengths: Array) -> Array:
    """Ranges of floats, each number the one before it and the step, as TensorFlow rounds them."""
    starts = splits_of(lengths, np.int64)
    out = np.empty(int(starts[-1]), first.dtype)
    if not out.size:
        return out
    longest = int(lengths.max())
    if longest <= len(lengths):
        now = first.copy()
        for number in range(longest):
            here = np.flatnonzero(lengths > number)
            out[starts[here] + number] = now[here]
            now = now + step
        return out
    for row in np.flatnonzero(lengths).tolist():
        part = out[starts[row] : starts[row + 1]]
        part[:] = step[row]
        part[0] = first[row]
        np.add.accumulate(part, out=part)
    return out


@kernel("RaggedTensorToSparse", device="CPU", fresh=True)
def ragged_tensor_to_sparse(nested_splits: tuple[Value, ...], values: Value) -> Any:
    """The sparse tensor of all elements: rows as long as they are, in the longest row's width."""
    elements = to_array(values)
    splits = checked_splits(nested_splits, elements)
    columns: list[Array] = []
    dims = [len(splits[0]) - 1]
    for each in splits:
        lengths = np.diff(each)
        columns = _deeper(columns, each, lengths)
        dims.append(int(lengths.max(initial=0)))
    inner = elements.shape[1:]
    dims += inner
    width = int(np.prod(inner, dtype=np.int64))
    indices = np.empty((elements.size, len(dims)), np.int64)
    for number, column in enumerate(columns):
        indices[:, number] = np.repeat(column, width)
    if inner:
        inside = np.stack(np.unravel_index(np.arange(width), inner), 1)
        indices[:, len(columns) :] = np.tile(inside, (len(elements), 1))
    return indices, elements.reshape(-1).copy(), np.array(dims, np.int64)


def _deeper(columns: list[Array], splits: Array, lengths: Array) -> list[Array]:
    """The coordinates of all that is one level further in."""
    outer = [np.repeat(column, lengths) for column in columns or [np.arange(len(lengths))]]
    return [*outer, np.arange(int(splits[-1])) - np.repeat(splits[:-1], lengths)]


@kernel("RaggedGather", device="CPU", fresh=True)
def ragged_gather(
    nested_splits: tuple[Value, ...], values: Value, indices: Value, *, num_outputs: int
) -> Any:
    """Rows of a ragged tensor by index: the splits of the result, the outermost first, and its values."""
    elements, wanted = to_array(values), to_array(indices)
    if not elements.ndim:
        raise InvalidArgumentError("params.rank must be nonzero")
    if wanted.ndim + len(nested_splits) != num_outputs:
        raise InvalidArgumentError(
            f"indices of rank {wanted.ndim} give {wanted.ndim + len(nested_splits) - 1} splits, but "
            f"OUTPUT_RAGGED_RANK is {num_outputs - 1}"
        )
    splits = [to_array(each) for each in nested_splits]
    if any(each.ndim != 1 or not each.size for each in splits):
        raise InvalidArgumentError("Split tensors must be vectors of at least one element")
    check_indices(wanted, len(splits[0]) - 1)
    for level, each in enumerate(splits):
        bound = len(splits[level + 1]) - 1 if level + 1 < len(splits) else len(elements)
        if each[0] < 0:
            raise InvalidArgumentError("Ragged splits must be non-negative")
        if each[-1] > bound:
            raise InvalidArgumentError(f"Ragged splits must not point past values: {each[-1]} > {bound}")
        if (each[1:] < each[:-1]).any():
            raise InvalidArgumentError("Ragged splits must be sorted in ascending order.")
    dtype = splits[0].dtype
    found = [
        np.arange(int(np.prod(wanted.shape[:axis])) + 1, dtype=dtype) * wanted.shape[axis]
        for axis in range(1, wanted.ndim)
    ]
    rows = wanted.reshape(-1)
    for each in splits:
        lengths = each[rows + 1] - each[rows]
        found.append(splits_of(lengths, dtype))
        rows = places(each[rows], lengths)
    return outputs([*(found if wanted.ndim else found[1:]), elements.take(rows, 0)])


@kernel("RaggedFillEmptyRows", fresh=True, host=("nrows",), looks=True)
def ragged_fill_empty_rows(xp: Any, rowids: Value, values: Value, nrows: Value, default_value: Value) -> Any:
    """Values by row, with the default in each row that has none.

    returns     (F,) rows, (F,) values, (rows,) bool which were empty, (E,) where each value went
    """
    rows, elements, default = to_array(rowids), to_array(values), to_array(default_value)
    if to_array(nrows).ndim or default.ndim or rows.ndim != 1 or elements.ndim != 1:
        raise InvalidArgumentError(
            f"value_rowids {brackets(rows.shape)} and values {brackets(elements.shape)} must be vectors, "
            f"nrows {brackets(to_array(nrows).shape)} and default_value {brackets(default.shape)} scalars"
        )
    if len(rows) != len(elements):
        raise InvalidArgumentError(
            f"value_rowids and values must be of one size: {len(rows)} and {len(elements)}"
        )
    count = int(nrows)
    if count < 0 or (not count and len(rows)):
        raise InvalidArgumentError(f"Received nrows = {count} but there are {len(rows)} values")
    check_indices(rows, count, "value_rowids")
    counts = count_rows(xp, rows, count)
    empty = counts == 0
    lengths = xp.maximum(counts, 1)
    ends = lengths.cumsum()
    order = rows.argsort(kind="stable")
    # A value in order moves up by one for each empty row before its own.
    where = xp.empty(len(rows), np.int64)
    where[order] = xp.arange(len(rows)) + empty.cumsum()[rows[order]]
    total = int(ends[-1]) if count else 0
    row_of = xp.searchsorted(ends, xp.arange(total), side="right")
    # Where nothing goes that was there is the default.
    filled = xp.empty(total, elements.dtype)
    filled[...] = default
    filled[where] = elements
    return row_of, filled, empty, where


@kernel("RaggedFillEmptyRowsGrad", fresh=True)
def ragged_fill_empty_rows_grad(xp: Any, reverse_index_map: Value, grad_values: Value) -> Any:
    """The gradient of each value, and the sum of those that went to the default."""
    where, rows = to_array(reverse_index_map), to_array(grad_values)
    if where.ndim != 1 or rows.ndim != 1:
        raise InvalidArgumentError(
            f"reverse_index_map {brackets(where.shape)} and grad_values {brackets(rows.shape)} must be "
            "vectors"
        )
    check_indices(where, len(rows), "reverse_index_map")
    return taken_and_rest(xp, where, rows)


# Ragged tensors as dense ones, rows filled up with a default.

HOST: Final = "how long rows are has to be seen; TensorFlow has no GPU kernel"


def _rows_of(kind: bytes, partition: Array) -> tuple[Array, Array, int]:
    """(row of each value, its place in the row, width of the longest row)."""
    if partition.ndim != 1:
        raise InvalidArgumentError(
            f"a row partition must be a vector, but has shape {brackets(partition.shape)}"
        )
    if kind == b"ROW_SPLITS":
        if not partition.size or partition[0] != 0:
            raise InvalidArgumentError("row splits must begin with 0")
        lengths = np.diff(partition)
        if len(lengths) and lengths.min() < 0:
            raise InvalidArgumentError("row splits must not fall")
        rows = np.repeat(np.arange(len(lengths)), lengths)
        at = np.arange(len(rows)) - np.repeat(partition[:-1], lengths)
        return rows, at, int(lengths.max(initial=0))
    if kind != b"VALUE_ROWIDS":
        raise InvalidArgumentError(f"Unsupported row partition type: {kind.decode(errors='replace')}")
    if not partition.size:
        return partition.astype(np.int64), np.zeros(0, np.int64), 0
    if (partition[1:] < partition[:-1]).any() or partition[0] < 0:
        raise InvalidArgumentError("value_rowids must not fall and not be negative")
    starts = np.searchsorted(partition, partition)
    at = np.arange(len(partition)) - starts
    return partition, at, int(at.max()) + 1


def _wanted_shape(shape: Value, rank: int) -> list[int]:
    """The shape asked for, -1 for what is not."""
    array = to_array(shape)
    if not array.ndim:
        if array != -1:
            raise InvalidArgumentError(
                f"The only valid scalar shape tensor is the fully unknown shape specified as -1, not {array}"
            )
        return [-1] * rank
    if array.ndim != 1:
        raise InvalidArgumentError(f"shape must be a scalar or vector, but has shape {brackets(array.shape)}")
    dims: list[int] = array.tolist()
    if min(dims, default=0) < -1:
        raise InvalidArgumentError(f"shape must not hold less than -1, but is {brackets(dims)}")
    if len(dims) != rank:
        raise InvalidArgumentError(
            f"ragged tensor of rank {rank} and the requested shape {brackets(dims)} are incompatible"
        )
    return dims


@kernel("RaggedTensorToTensor", fresh=True)
def ragged_tensor_to_tensor(
    shape: Value,
    values: Value,
    default_value: Value,
    partitions: tuple[Value, ...],
    *,
    row_partition_types: Sequence[bytes],
) -> Any:
    """A dense tensor of the shape asked for, or as large as the rows; what does not fit is left out."""
    elements, default = to_array(values), to_array(default_value)
    tensors, kinds = [to_array(each) for each in partitions], list(row_partition_types)
    if len(tensors) != len(kinds):
        raise InvalidArgumentError(f"{len(tensors)} row partitions, but {len(kinds)} row_partition_types")
    if not elements.ndim:
        raise InvalidArgumentError("values must be at least of rank 1, but are a scalar")
    if kinds[0] == b"FIRST_DIM_SIZE":
        if tensors[0].ndim:
            raise InvalidArgumentError(
                f"the first dimension's size must be a scalar, not {brackets(tensors[0].shape)}"
            )
        count = int(tensors[0])
        tensors, kinds = tensors[1:], kinds[1:]
    elif kinds[0] == b"ROW_SPLITS":
        if not tensors[0].size:
            raise InvalidArgumentError("row splits must have at least one element")
        count = tensors[0].size - 1
    else:
        raise InvalidArgumentError(
            f"Cannot handle {kinds[0].decode(errors='replace')} as the first row partition"
        )
    inner = elements.shape[1:]
    wanted = _wanted_shape(shape, len(tensors) + elements.ndim)
    levels = [_rows_of(kind, tensor) for kind, tensor in zip(kinds, tensors, strict=True)]
    for size, own in zip(wanted[len(levels) + 1 :], inner, strict=True):
        if size not in (-1, own):
            raise InvalidArgumentError(
                f"values {brackets(elements.shape)} do not fit the requested shape {brackets(wanted)}"
            )
    outer = [
        found if size == -1 else size
        for size, found in zip(wanted, [count, *(width for _, _, width in levels)], strict=False)
    ]
    if default.ndim > len(inner) or any(
        a not in (1, b) for a, b in zip(default.shape[::-1], inner[::-1], strict=False)
    ):
        raise InvalidArgumentError(
            f"default_value {brackets(default.shape)} does not broadcast to the rows {brackets(inner)} of "
            "values"
        )
    out = np.empty((*outer, *inner), elements.dtype)
    if not out.size:
        return out
    at = _targets(levels, outer, count, len(elements))
    out[...] = default if default.ndim else default[()]
    kept = np.flatnonzero(at >= 0)
    out.reshape(-1, *inner)[at[kept]] = elements[kept]
    return out


def _targets(
    levels: Sequence[tuple[Array, Array, int]], outer: Sequence[int], count: int, total: int
) -> Array:
    """(total,) which row of the result each value goes to; -1 for none."""
    at = np.arange(count)
    at[outer[0] :] = -1
    for (rows, places, _), size in zip(levels, outer[1:], strict=True):
        if len(rows) and int(rows[-1]) >= len(at):
            raise InvalidArgumentError(f"a row partition names row {int(rows[-1])} of {len(at)}")
        parents = at[rows]
        at = np.where((parents < 0) | (places >= size), -1, parents * size + places)
    if len(at) != total:
        raise InternalError(f"the row partitions are of {len(at)} values, but there are {total}")
    return at
