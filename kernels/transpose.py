"""Axes in another order."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.array_args import as_array, brackets, check_indices, integers
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


@kernel("Transpose", host=("perm",))
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
    contiguous: Array = xp.ascontiguousarray(view)
    return contiguous


@kernel("ConjugateTranspose", host=("perm",))
def conjugate_transpose(xp: Any, x: Value, perm: Array) -> Array:
    """Transpose, with complex elements conjugated."""
    out = transpose(xp, x, perm)
    return out.conj() if out.dtype.kind == "c" else out


@kernel("InvertPermutation", fresh=True)
def invert_permutation(x: Array) -> Array:
    """The vector y with y[x[i]] = i; InvalidArgumentError unless x is a permutation of 0, 1, ...."""
    if x.ndim != 1:
        raise InvalidArgumentError(f"invert_permutation expects a vector, got shape {brackets(x.shape)}")
    size = x.size
    check_indices(x, size, "x")
    out = np.full(size, -1, x.dtype)
    out[x] = np.arange(size, dtype=x.dtype)
    if size and out.min() < 0:
        values, counts = np.unique(x, return_counts=True)
        raise InvalidArgumentError(f"{values[counts > 1][0]} is duplicated in the input")
    return out
