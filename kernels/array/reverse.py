"""Elements in the opposite order, whole axes or sequences of different lengths, and rolled around."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Array, Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import as_array, brackets, integers
from flowengine.kernels.common.indices import check_indices, first_true
from flowengine.kernels.registry import kernel


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
