"""Rows picked by index, and the beams of a beam search."""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value, in_host_memory, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, integer
from flowengine.kernels.common.bad_indices import inside, passes_over
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.indices import check_indices, first_true, in_range, pick
from flowengine.kernels.registry import kernel

# Rows picked by index: Gather, GatherV2, GatherNd.
#
# An index outside of its dimension is an InvalidArgumentError that names it. NumPy's own check would let
# negative ones pass; of numbers read as unsigned it lets none.

_INT32: Final = np.dtype(np.int32)
_UINT32: Final = np.dtype(np.uint32)
_INT32_MAX: Final = (1 << 31) - 1


def _cost(params: Array, indices: Value, axis: Value = 0) -> float:
    """Microseconds: some 20 ns a row and 0.3 ns a byte of what is picked, however large `params` is."""
    rows = float(indices.size)
    size = params.shape[int(axis)] if params.ndim else 1
    return rows * 0.02 + rows * params.nbytes / max(1, size) * 0.0003


@kernel("Gather", heavy=_cost)
def gather(xp: Any, params: Array, indices: Value) -> Any:
    """params[indices, ...]: rows of `params` in the shape of the int32 or int64 `indices`."""
    if not params.ndim:
        raise InvalidArgumentError("params must be at least 1 dimensional")
    return take(xp, params, indices, 0)


@kernel("GatherV2", host=("axis",), heavy=_cost)
def gather_v2(xp: Any, params: Array, indices: Value, axis: Value, *, batch_dims: int) -> Any:
    """Slices of `params` along `axis`, picked by `indices`, of which `batch_dims` leading axes are shared.

    params    (B..., P..., N, S...)   B: batch_dims axes, N at `axis`
    indices   (B..., I...)            int32 or int64, each in [0, N)
    returns   (B..., P..., I..., S...)
    """
    if not params.ndim:
        raise InvalidArgumentError("params must be at least 1 dimensional")
    rank = params.ndim
    number = int(axis) if axis.ndim == 0 else integer(axis, "axis")
    if not -rank <= number < rank:
        raise InvalidArgumentError(f"Expected axis in the range [{-rank}, {rank}), but got {number}")
    if number < 0:
        number += rank
    if batch_dims:
        return _batched(xp, params, to_array(indices), number, batch_dims)
    return take(xp, params, indices, number)


def take(xp: Any, params: Array, indices: Value, axis: int) -> Any:
    """params.take with indices checked first: outside [0, size) is an error, negative ones too."""
    is_near = in_host_memory(indices)
    if not axis and is_near and not indices.ndim:
        # One row, as it is picked inside of loops: a view.
        row = int(indices)
        if 0 <= row < len(params):
            return params[row]
    if not params.size:
        # Nothing is looked up where the result is empty, whatever the indices are.
        shape = (*params.shape[:axis], *indices.shape, *params.shape[axis + 1 :])
        if 0 in shape:
            return xp.empty(shape, params.dtype)
    size = params.shape[axis]
    if is_near and indices.dtype == _INT32 and size <= _INT32_MAX:
        try:
            return params.take(indices.view(_UINT32), axis)
        except IndexError:
            pass  # reported below
    # NumPy counts with int64, of which it would have to look at a copy.
    check_indices(indices, size)
    return pick(params, indices, axis)


def _batched(xp: Any, params: Array, indices: Array, axis: int, batch_dims: int) -> Any:
    if batch_dims < 0:
        batch_dims += indices.ndim
    if not 0 <= batch_dims <= indices.ndim or batch_dims > axis:
        raise InvalidArgumentError(
            f"batch_dims ({batch_dims}) must be at most the rank of indices ({indices.ndim}) "
            f"and at most axis ({axis})"
        )
    batch = params.shape[:batch_dims]
    if indices.shape[:batch_dims] != batch:
        raise InvalidArgumentError(
            f"the first {batch_dims} dimensions of params {brackets(params.shape)} and indices "
            f"{brackets(indices.shape)} must agree"
        )
    check_indices(indices, params.shape[axis])
    between, inner = params.shape[batch_dims:axis], params.shape[axis + 1 :]
    size = params.shape[axis]
    count, middle = math.prod(batch), math.prod(between)
    flat = params.reshape((count * middle * size, *inner))
    # Row number of (batch, middle, index) in params with its leading axes joined.
    start = (xp.arange(count * middle, dtype=np.int64) * size).reshape(count, middle, 1)
    picked = start + indices.reshape(count, 1, math.prod(indices.shape[batch_dims:]))
    rows = pick(flat, picked.ravel()) if picked.size else flat[:0]
    return rows.reshape((*batch, *between, *indices.shape[batch_dims:], *inner))


def flat_positions(xp: Any, indices: Array, shape: tuple[int, ...], what: str) -> Any:
    """The position in row-major order of each index vector into an array of this (leading) shape.

    indices   (..., K) integers, K = len(shape)
    returns   (...) int64; InvalidArgumentError names the first vector that is outside, as `what`
    """
    result = xp.zeros(indices.shape[:-1], np.int64)
    is_near = in_host_memory(indices)
    fits = True
    for axis, size in enumerate(shape):
        column = indices[..., axis]
        fits = fits and (not is_near or in_range(column, size))
        result *= size
        result += column

    def vectors_outside() -> Any:
        return ((indices < 0) | (indices >= xp.asarray(shape))).any(axis=-1)

    def error() -> InvalidArgumentError:
        where = first_true(vectors_outside())
        return InvalidArgumentError(
            f"indices{brackets(where) if where else ''} = {brackets(indices[where].tolist())} "
            f"does not index into {what} {brackets(shape)}"
        )

    if not fits:
        raise error()
    if not is_near and indices.size:
        refuse(vectors_outside().any(), error)
    return result


def _nd_cost(params: Value, indices: Array) -> float:
    """As `_cost`, for slices named by the last axis of `indices`."""
    depth = indices.shape[-1]
    rows = indices.size / max(1, depth)
    return float(rows * 0.02 + rows * params.nbytes / max(1, math.prod(params.shape[:depth])) * 0.0003)


@kernel("GatherNd", heavy=_nd_cost)
def gather_nd(xp: Any, params: Value, indices: Array, *, bad_indices_policy: bytes = b"") -> Any:
    """params[indices[..., 0], indices[..., 1], ...].

    params    (D_0, ..., D_k-1, S...)
    indices   (I..., K)   int16, int32 or int64
    returns   (I..., S...)
    An index outside is an InvalidArgumentError; with the `bad_indices_policy` IGNORE its slice is zero.
    """
    array, indices = to_array(params), to_array(indices)
    if not array.ndim:
        raise InvalidArgumentError("params must be at least a vector")
    if not indices.ndim:
        raise InvalidArgumentError("indices must be at least a vector")
    depth = indices.shape[-1]
    if depth > array.ndim:
        raise InvalidArgumentError(
            f"index innermost dimension length must be <= params rank; saw: {depth} vs. {array.ndim}"
        )
    lead, inner = array.shape[:depth], array.shape[depth:]
    outer = indices.shape[:-1]
    if math.prod(outer) and not array.size:
        raise InvalidArgumentError(
            f"Requested more than 0 entries, but params is empty. Params shape: {brackets(array.shape)}"
        )
    kept = inside(indices, lead) if passes_over(bad_indices_policy) else None
    if kept is not None:
        indices = xp.where(kept[..., None], indices, xp.zeros_like(indices))
    positions = flat_positions(xp, indices, lead, "params of shape")
    if not array.size or not positions.size:
        return xp.empty((*outer, *inner), array.dtype)
    picked = pick(array.reshape((math.prod(lead), *inner)), positions)
    if kept is None:
        return picked
    return xp.where(kept.reshape((*outer, *[1] * len(inner))), picked, xp.zeros_like(picked))


# GatherTree: the beams of a beam search, read back from their last steps.


def _no_beam(wrong: Array, parent: Array, level: int) -> InvalidArgumentError:
    entry, beam = first_true(wrong)
    return InvalidArgumentError(
        f"Saw invalid parent id {parent[entry, beam]} at (batch, time, beam) == ({entry}, {level}, {beam})"
    )


@kernel("GatherTree", "Addons>GatherTree", fresh=True, host=("end_token",))
def gather_tree(xp: Any, step_ids: Array, parent_ids: Array, lengths: Array, end_token: Value) -> Any:
    """Follow each beam from its last step to its first.

    step_ids, parent_ids   (T, B, W) int32: the token, and the beam it continues, per time, batch, beam
    lengths                (B,) int32: steps of each batch entry
    end_token              int32: fills what lies beyond, and everything after its first occurrence
    returns                (T, B, W) int32

    Raises InvalidArgumentError where the shapes disagree or a parent is not a beam.
    """
    if step_ids.ndim != 3:
        raise InvalidArgumentError(f"step_ids must be a 3-tensor, but has shape {brackets(step_ids.shape)}")
    if parent_ids.shape != step_ids.shape:
        raise InvalidArgumentError(
            f"step_ids {brackets(step_ids.shape)} and parent_ids {brackets(parent_ids.shape)} "
            "must have one shape"
        )
    if getattr(end_token, "ndim", 0):
        raise InvalidArgumentError(f"end_token must be a scalar, but has shape {brackets(end_token.shape)}")
    steps, batch, beams = step_ids.shape
    if lengths.shape != (batch,):
        raise InvalidArgumentError(
            f"max_sequence_lengths must have one element a batch entry ({batch}), "
            f"but has shape {brackets(lengths.shape)}"
        )
    end_token = end_token[()]
    out = xp.full(step_ids.shape, end_token, step_ids.dtype)
    last = xp.minimum(lengths, steps) - 1
    rows = xp.arange(batch)[:, None]
    parent = xp.broadcast_to(xp.arange(beams), (batch, beams)).copy()
    for level in range(steps - 1, -1, -1):
        # Before the first step of an entry, each beam is its own parent.
        wrong = (parent < 0) | (parent >= beams)
        refuse(wrong.any(), functools.partial(_no_beam, wrong, parent, level))
        alive = (last >= level)[:, None]
        out[level] = xp.where(alive, step_ids[level][rows, parent], end_token)
        parent = xp.where(alive, parent_ids[level][rows, parent], parent)
    # A trajectory that ends and goes on is cut at its end token.
    ended = xp.cumsum(out == end_token, axis=0) > 0
    out[ended] = end_token
    return out
