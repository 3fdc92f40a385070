"""Ragged tensors as dense ones, rows filled up with a default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InternalError, InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.registry import kernel

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
