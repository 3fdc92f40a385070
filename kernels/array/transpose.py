"""Axes in another order."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import as_array, brackets, check_indices, integers
from flowengine.kernels.common.parallel import slices, spread
from flowengine.kernels.registry import kernel


@lru_cache(maxsize=1024)
def _axes(perm: bytes, count: int, rank: int) -> tuple[int, ...]:
    """The permutation in a vector's bytes, checked."""
    axes = tuple(np.frombuffer(perm, np.int32 if len(perm) == 4 * count else np.int64).tolist())
    if count != rank:
        raise InvalidArgumentError(
            f"transpose expects a vector of size {rank}, but perm is a vector of size {count}"
        )
    for axis in axes:
        if not 0 <= axis < rank:
            raise InvalidArgumentError(f"perm = {brackets(axes)}: {axis} is out of range [0, {rank})")
    for axis in range(rank):
        if axis not in axes:
            raise InvalidArgumentError(f"{axis} is missing from perm = {brackets(axes)}")
    return axes


def _cost(x: Value, perm: Array) -> float:
    """A view costs nothing; a copy some 0.5 ns a byte, as one side is read or written across rows."""
    return 0.0 if x.ndim <= 2 else x.nbytes * 0.0005


@kernel("Transpose", host=("perm",), heavy=_cost)
def transpose(xp: Any, x: Value, perm: Array) -> Array:
    """x with axis `perm[i]` as its axis i.

    A matrix product takes the view of a transposed matrix for free, so rank 2 (and batches of matrices
    whose last two axes change places) stay views; so does what is small. Other large results are made
    contiguous: elementwise kernels read a view of scattered elements at a third of their speed or less.
    Raises InvalidArgumentError unless perm is a permutation of the axes.
    """
    if perm.ndim != 1:
        integers(perm, "perm")
    array = as_array(x)
    rank = array.ndim
    axes = _axes(perm.tobytes(), perm.size, rank)
    view = array.transpose(axes)
    if rank <= 2 or array.size < 4096 or axes[:-2] == tuple(range(rank - 2)):
        return view
    shape = view.shape
    if array.flags.c_contiguous:
        # Axes that stay neighbours are one: (N, H, W, C) to (N, C, H, W) moves (H W) and C.
        merged, order = _merged_axes(axes)
        dims = array.shape
        view = array.reshape([math.prod(dims[i] for i in group) for group in merged]).transpose(order)
    out: Array = xp.empty(shape, array.dtype)
    target = out.reshape(view.shape)
    copy = _copy_rows if axes[-1] == rank - 1 else _copy_blocks
    if out.size < _SPREAD_MIN or type(out) is not np.ndarray:
        copy(view, target)
    else:
        # Along the longest axis but the last, one that may be long enough for every core.
        axis = max(range(view.ndim - 1), key=view.shape.__getitem__)
        parts = slices(view.shape[axis], -(-view.shape[axis] // _PARTS))
        lead = (slice(None),) * axis
        spread(lambda number: copy(view[(*lead, parts[number])], target[(*lead, parts[number])]), len(parts))
    return out


def _copy_rows(view: Array, out: Array) -> None:
    """Copy a view whose last axis is dense in memory."""
    out[...] = view


@lru_cache(maxsize=1024)
def _merged_axes(axes: tuple[int, ...]) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """(runs of source axes that stay neighbours, in source order; the permutation of those runs)."""
    runs = [[axes[0]]]
    for axis in axes[1:]:
        if axis == runs[-1][-1] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    ordered = sorted(runs)
    return tuple(tuple(run) for run in ordered), tuple(ordered.index(run) for run in runs)


#: Elements from which a copy is spread over the cores, and in how many parts.
_SPREAD_MIN = 1 << 18
_PARTS = 8
#: Columns copied at a time where the copy reads across rows: 256 lines of 64 bytes fit the first-level
#: cache, so that each is read once. (8,3136,256) float32 takes 8 ms instead of 15.
_BLOCK = 256
#: Up to this many columns they are copied one by one: (32,3,50176) to channels last in 2 ms, not 6.
_FEW = 8


def _copy_blocks(view: Array, out: Array) -> None:
    """Copy a view whose last axis is not the one that is dense in memory."""
    columns = view.shape[-1]
    if columns <= _FEW:
        for i in range(columns):
            out[..., i] = view[..., i]
    else:
        for i in range(0, columns, _BLOCK):
            out[..., i : i + _BLOCK] = view[..., i : i + _BLOCK]


@kernel("ConjugateTranspose", host=("perm",), heavy=_cost)
def conjugate_transpose(xp: Any, x: Value, perm: Array) -> Array:
    """Transpose, with complex elements conjugated."""
    out = transpose(xp, x, perm)
    return out.conj() if out.dtype.kind == "c" else out


#: Up to this many elements a list is handled faster than an array.
_SHORT = 16


@kernel("InvertPermutation", fresh=True)
def invert_permutation(x: Array) -> Array:
    """The vector y with y[x[i]] = i; InvalidArgumentError unless x is a permutation of 0, 1, ...."""
    if x.ndim != 1:
        raise InvalidArgumentError(f"invert_permutation expects a vector, got shape {brackets(x.shape)}")
    size = x.size
    if size <= _SHORT:
        # The permutation of a transpose: three times as fast as what follows.
        places: list[int] = x.tolist()
        inverse = [-1] * size
        for i, place in enumerate(places):
            if 0 <= place < size:
                inverse[place] = i
        if -1 not in inverse:
            return np.array(inverse, x.dtype)
    check_indices(x, size, "x")
    out = np.full(size, -1, x.dtype)
    out[x] = np.arange(size, dtype=x.dtype)
    if size and out.min() < 0:
        values, counts = np.unique(x, return_counts=True)
        raise InvalidArgumentError(f"{values[counts > 1][0]} is duplicated in the input")
    return out
