"""Axes in another order, and elements reversed or rolled along them."""

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
from flowengine.kernels.common.indices import check_indices, first_true
from flowengine.kernels.registry import kernel

# Axes in another order.


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


# Elements in the opposite order, whole axes or sequences of different lengths, and rolled around.


@kernel("ReverseV2", device=None, heavy=False, host=("axis",))
def reverse_v2(x: Value, axis: Array) -> Array:
    """x with the named axes reversed, as a view; InvalidArgumentError for one twice or outside."""
    array = as_array(x)
    rank = array.ndim
    if not rank:
        return array
    spec = [slice(None)] * rank
    for i, number in enumerate(integers(axis, "axis")):
        if not -rank <= number < rank:
            raise InvalidArgumentError(f"'axis'[{i}] = {number} is out of valid range [{-rank}, {rank})")
        if spec[number].step is not None:
            raise InvalidArgumentError(f"axis {number % rank} specified more than once")
        spec[number] = slice(None, None, -1)
    return array[tuple(spec)]


@kernel("Reverse", device=None, heavy=False, host=("dims",))
def reverse(x: Value, dims: Array) -> Array:
    """x with the axes reversed whose element of `dims` is true."""
    array = as_array(x)
    if dims.shape != (array.ndim,):
        raise InvalidArgumentError(
            f"dims must have one element a dimension ({array.ndim}), but has shape {brackets(dims.shape)}"
        )
    return array[tuple(slice(None, None, -1 if each else 1) for each in dims.tolist())]


@kernel("ReverseSequence")
def reverse_sequence(xp: Any, x: Array, seq_lengths: Array, *, seq_dim: int, batch_dim: int) -> Any:
    """x with the first seq_lengths[b] elements along `seq_dim` reversed, for each b along `batch_dim`."""
    rank = x.ndim
    for name, number in (("seq_dim", seq_dim), ("batch_dim", batch_dim)):
        if not -rank <= number < rank:
            raise InvalidArgumentError(f"{name} must be < input rank ({number} vs. {rank})")
    seq, batch = seq_dim % rank, batch_dim % rank
    if seq == batch:
        raise InvalidArgumentError(f"batch_dim == seq_dim == {seq}")
    if seq_lengths.shape != (x.shape[batch],):
        raise InvalidArgumentError(
            f"seq_lengths must have one element an entry of dimension {batch} ({x.shape[batch]}), "
            f"but has shape {brackets(seq_lengths.shape)}"
        )
    size = x.shape[seq]
    check_indices(seq_lengths, size + 1, error=lambda: _no_length(seq_lengths, size))
    time = xp.arange(size)
    lengths = seq_lengths.reshape(-1, 1)
    source = xp.where(time < lengths, lengths - 1 - time, time)
    moved = xp.moveaxis(x, (batch, seq), (0, 1))
    picked = moved[xp.arange(len(lengths))[:, None], source]
    return xp.ascontiguousarray(xp.moveaxis(picked, (0, 1), (batch, seq)))


def _no_length(lengths: Array, size: int) -> InvalidArgumentError:
    (place,) = first_true((lengths < 0) | (lengths > size))
    return InvalidArgumentError(f"seq_lens({place}) = {int(lengths[place])} is not in [0, {size}]")


@kernel("Roll", host=("shift", "axis"))
def roll(xp: Any, x: Value, shift: Value, axis: Value) -> Any:
    """x moved `shift` places along `axis`, what leaves one end entering at the other; axes may repeat."""
    array = as_array(x)
    if not array.ndim:
        raise InvalidArgumentError("input must be 1-D or higher")
    if shift.shape != axis.shape or shift.ndim > 1:
        raise InvalidArgumentError(
            f"shift {brackets(shift.shape)} and axis {brackets(axis.shape)} must be scalars, "
            "or vectors of one size"
        )
    for number in axis.reshape(-1).tolist():
        if not -array.ndim <= number < array.ndim:
            raise InvalidArgumentError(f"axis {number} is out of range for an input of rank {array.ndim}")
    shifts, axes = tuple(shift.reshape(-1).tolist()), tuple(axis.reshape(-1).tolist())
    rolled: Array = xp.roll(array, shifts, axes) if axes else array
    return rolled
