"""Values written to places of a tensor, and rows dealt out and put together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, in_host_memory, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.array.gather import flat_positions
from flowengine.kernels.common.array_args import blank, brackets, dimensions, element, outputs, shape_of
from flowengine.kernels.common.bad_indices import without_outside
from flowengine.kernels.common.indices import check_indices
from flowengine.kernels.common.segment_sums import add_rows, combine_rows, count_rows, subtract_rows
from flowengine.kernels.registry import kernel

# Values written to positions of a tensor, giving a new tensor: ScatterNd and the TensorScatter ops.


def _checked(
    xp: Any, indices: Value, updates: Value, shape: Sequence[int], policy: bytes
) -> tuple[Array, Array, int, tuple[int, ...]]:
    """(row positions, update rows, number of rows, shape of a row) for a target of this shape."""
    where, rows = without_outside(to_array(indices), to_array(updates), shape, policy)
    if not where.ndim:
        raise InvalidArgumentError("Indices shape must have rank at least one, but indices is a scalar")
    depth = where.shape[-1]
    outer = where.shape[:-1]
    if depth > len(shape):
        raise InvalidArgumentError(
            f"The last dimension of indices {brackets(where.shape)} must be at most the rank of the "
            f"output shape {brackets(shape)}"
        )
    lead, inner = tuple(shape[:depth]), tuple(shape[depth:])
    if rows.shape != (*outer, *inner):
        raise InvalidArgumentError(
            f"updates of shape {brackets(rows.shape)} must have the shape {brackets((*outer, *inner))} "
            f"that follows from indices of shape {brackets(where.shape)} and output shape {brackets(shape)}"
        )
    if not math.prod(shape) and (where.size or rows.size):
        raise InvalidArgumentError(
            f"Indices and updates specified for empty output of shape {brackets(shape)}"
        )
    positions = flat_positions(xp, where, lead, "shape").reshape(-1)
    return positions, rows.reshape((positions.size, *inner)), math.prod(lead), inner


@kernel("ScatterNd", host=("shape",), fresh=True)
def scatter_nd(
    xp: Any, indices: Value, updates: Value, shape: Array, *, bad_indices_policy: bytes = b""
) -> Any:
    """Zeros of the given shape with each update added at its index; several at one index add up.

    indices   (I..., K) int32 or int64     updates   (I..., shape[K:]...)
    Raises InvalidArgumentError for an index outside, unless `bad_indices_policy` is IGNORE, or shapes that
    do not fit.
    """
    dims = dimensions(shape, "shape")
    positions, rows, count, inner = _checked(xp, indices, updates, dims, bad_indices_policy)
    out = blank(xp, dims, rows.dtype)
    add_rows(xp, out.reshape((count, *inner)), positions, rows)
    return out


@kernel("ScatterNdNonAliasingAdd", "TensorScatterAdd", fresh=True)
def tensor_scatter_add(
    xp: Any, tensor: Array, indices: Value, updates: Value, *, bad_indices_policy: bytes = b""
) -> Any:
    """A copy of the tensor with each update added at its index."""
    positions, rows, count, inner = _checked(xp, indices, updates, tensor.shape, bad_indices_policy)
    out = to_array(tensor).copy(order="C")
    add_rows(xp, out.reshape((count, *inner)), positions, rows)
    return out


@kernel("TensorScatterSub", fresh=True)
def tensor_scatter_sub(
    xp: Any, tensor: Array, indices: Value, updates: Value, *, bad_indices_policy: bytes = b""
) -> Any:
    """A copy of the tensor with each update subtracted at its index."""
    positions, rows, count, inner = _checked(xp, indices, updates, tensor.shape, bad_indices_policy)
    out = to_array(tensor).copy(order="C")
    subtract_rows(xp, out.reshape((count, *inner)), positions, rows)
    return out


def _extreme(
    xp: Any, ufunc: Any, tensor: Array, indices: Value, updates: Value, bad_indices_policy: bytes
) -> Any:
    positions, rows, count, inner = _checked(xp, indices, updates, tensor.shape, bad_indices_policy)
    out = to_array(tensor).copy(order="C")
    combine_rows(xp, ufunc, out.reshape((count, *inner)), positions, rows)
    # What was combined may have taken the place of what was there.
    return ufunc(out, tensor)


@kernel("TensorScatterMax", fresh=True)
def tensor_scatter_max(
    xp: Any, tensor: Array, indices: Value, updates: Value, *, bad_indices_policy: bytes = b""
) -> Any:
    """The tensor, with the larger of it and each update at the update's index."""
    return _extreme(xp, xp.maximum, tensor, indices, updates, bad_indices_policy)


@kernel("TensorScatterMin", fresh=True)
def tensor_scatter_min(
    xp: Any, tensor: Array, indices: Value, updates: Value, *, bad_indices_policy: bytes = b""
) -> Any:
    """The tensor, with the smaller of it and each update at the update's index."""
    return _extreme(xp, xp.minimum, tensor, indices, updates, bad_indices_policy)


@kernel("TensorScatterUpdate", fresh=True)
def tensor_scatter_update(
    xp: Any, tensor: Array, indices: Value, updates: Value, *, bad_indices_policy: bytes = b""
) -> Any:
    """A copy of the tensor with each update written at its index; of several the last stays."""
    positions, rows, count, inner = _checked(xp, indices, updates, tensor.shape, bad_indices_policy)
    out = to_array(tensor).copy(order="C")
    out.reshape((count, *inner))[positions] = rows
    return out


# Rows dealt out to several tensors, and put together again: DynamicPartition, DynamicStitch.


@kernel("DynamicPartition", fresh=True, looks=True)
def dynamic_partition(xp: Any, data: Value, partitions: Value, *, num_partitions: int) -> Value:
    """`num_partitions` tensors: the rows of `data` by the number in `partitions`, order kept.

    partitions   (P...) int32 in [0, num_partitions)
    data         (P..., S...)
    returns      one (count, S...) each
    """
    array, numbers = to_array(data), to_array(partitions)
    rank = numbers.ndim
    if array.shape[:rank] != numbers.shape:
        raise InvalidArgumentError(
            f"data.shape must start with partitions.shape, got data.shape = {brackets(array.shape)}, "
            f"partitions.shape = {brackets(numbers.shape)}"
        )
    check_indices(numbers, num_partitions, "partitions")
    flat = numbers.reshape(-1)
    rows = array.reshape((flat.size, *array.shape[rank:]))
    if num_partitions <= 4 and in_host_memory(flat):
        return outputs([rows.compress(flat == i, 0) for i in range(num_partitions)])
    # numpy sorts 8 and 16 bits by radix, in a tenth of the time.
    narrow = (
        flat.astype(np.uint8 if num_partitions <= 256 else np.uint16) if num_partitions <= 65536 else flat
    )
    order = narrow.argsort(kind="stable")
    ends = xp.cumsum(count_rows(xp, flat, num_partitions)).tolist()
    dealt = rows.take(order, 0) if rows.size else rows
    return outputs([dealt[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)])


def _extremes(numbers: Array) -> tuple[int, int]:
    """(smallest, largest) of some integers; the few of a shape are compared as a list."""
    if numbers.size <= 16:
        few: list[int] = numbers.ravel().tolist()
        return min(few), max(few)
    return int(numbers.min()), int(numbers.max())


@kernel("DynamicStitch", "ParallelDynamicStitch", fresh=True, host=("indices",))
def dynamic_stitch(xp: Any, indices: tuple[Value, ...], data: tuple[Value, ...]) -> Any:
    """merged[indices[m][i, ...]] = data[m][i, ...], later inputs winning.

    indices   int32, (I_m...)
    data      (I_m..., S...)
    returns   (largest index + 1, S...); rows that no index names are zero
    """
    places = [to_array(i) for i in indices]
    values = [to_array(d) for d in data]
    inner = values[0].shape[places[0].ndim :]
    size = 0
    negative: str | None = None
    for m, (place, value) in enumerate(zip(places, values, strict=True)):
        if shape_of(value)[: place.ndim] != place.shape:
            raise InvalidArgumentError(
                f"data[{m}].shape = {brackets(value.shape)} does not start with "
                f"indices[{m}].shape = {brackets(place.shape)}"
            )
        if value.shape[place.ndim :] != inner:
            raise InvalidArgumentError(
                f"Need data[0].shape[{places[0].ndim}:] = data[{m}].shape[{place.ndim}:], got "
                f"data[0].shape = {brackets(values[0].shape)}, data[{m}].shape = {brackets(value.shape)}"
            )
        if place.size:
            low, high = _extremes(place)
            if low < 0 and negative is None:
                negative = f"indices[{m}] holds {low}: an index must not be negative"
            size = max(size, high + 1)
    if not size:
        return blank(xp, (0, *inner), values[0].dtype)
    if negative is not None:
        raise InvalidArgumentError(negative)
    # Gaps are memory too: an index far beyond the data asks for as much.
    out = blank(xp, (size, *inner), values[0].dtype)
    for place, value in zip(places, values, strict=True):
        if place.size:
            out[xp.asarray(place)] = element(value)
    return out
