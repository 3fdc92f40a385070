"""Axes in another order."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, in_host_memory, is_numpy
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import as_array, brackets, integers
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.copies import copy_across
from flowengine.kernels.common.host_vectors import numbers_in
from flowengine.kernels.common.indices import check_indices
from flowengine.kernels.registry import kernel


@lru_cache(maxsize=1024)
def _axes(perm: bytes, count: int, rank: int) -> tuple[int, ...]:
    """The permutation in a vector's bytes, checked."""
    axes = tuple(numbers_in(perm, count))
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
def transpose(xp: Any, x: Value, perm: Array) -> Any:
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
    if is_numpy(xp):
        copy_across(view, target, axes[-1] == rank - 1)
    else:
        target[...] = view
    return out


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


@kernel("ConjugateTranspose", host=("perm",), heavy=_cost)
def conjugate_transpose(xp: Any, x: Value, perm: Array) -> Any:
    """Transpose, with complex elements conjugated."""
    out = transpose(xp, x, perm)
    return out.conj() if out.dtype.kind == "c" else out


#: Up to this many elements a list is handled faster than an array.
_SHORT = 16


@kernel("InvertPermutation", fresh=True)
def invert_permutation(xp: Any, x: Array) -> Any:
    """The vector y with y[x[i]] = i; InvalidArgumentError unless x is a permutation of 0, 1, ...."""
    if x.ndim != 1:
        raise InvalidArgumentError(f"invert_permutation expects a vector, got shape {brackets(x.shape)}")
    size = x.size
    if size <= _SHORT and in_host_memory(x):
        # The permutation of a transpose: three times as fast as what follows.
        places: list[int] = x.tolist()
        inverse = [-1] * size
        for i, place in enumerate(places):
            if 0 <= place < size:
                inverse[place] = i
        if -1 not in inverse:
            return xp.array(inverse, x.dtype)
    check_indices(x, size, "x")
    out = xp.full(size, -1, x.dtype)
    # NumPy turns indices of 32 bits into its own one by one, in twice the time.
    out[x.astype(np.intp, copy=False)] = xp.arange(size, dtype=x.dtype)
    if size:
        refuse(out.min() < 0, lambda: _duplicated(xp, x))
    return out


def _duplicated(xp: Any, x: Array) -> InvalidArgumentError:
    values, counts = xp.unique(x, return_counts=True)
    return InvalidArgumentError(f"{values[counts > 1][0]} is duplicated in the input")
