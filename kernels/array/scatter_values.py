"""Values written to positions of a tensor, giving a new tensor: ScatterNd and the TensorScatter ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.array.gather import flat_positions
from flowengine.kernels.common.array_args import blank, brackets, dimensions
from flowengine.kernels.common.bad_indices import without_outside
from flowengine.kernels.common.segment_sums import add_rows, combine_rows, subtract_rows
from flowengine.kernels.registry import kernel


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
