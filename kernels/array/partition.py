"""Rows dealt out to several tensors, and put together again: DynamicPartition, DynamicStitch."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, in_host_memory, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import blank, brackets, element, outputs, shape_of
from flowengine.kernels.common.indices import check_indices
from flowengine.kernels.common.segment_sums import count_rows
from flowengine.kernels.registry import kernel


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
