"""Axes in another order, and elements reversed or rolled along them."""

from __future__ import annotations

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    axis_of,
    dims_of,
    merge_dims,
    of_rank,
    ranked,
    ranked_at_least,
    ranked_at_most,
    replace_dim,
)

# Axes in another order.


@define("Transpose(x: T, perm: Tperm) -> y: T", "T: type; Tperm: indextype = int32")
@define("ConjugateTranspose(x: T, perm: Tperm) -> y: T", "T: type; Tperm: indextype = int32")
def transpose(c: ShapeContext) -> Shapes:
    """x, perm -> x with axis i of the result being axis perm[i] of x"""
    shape, length = c.input(0), ranked(c, 1, 1)[0]
    perm = c.input_value(1)
    rank = shape.rank if shape.rank is not None else length
    if rank is None:
        return [UNKNOWN_SHAPE]
    merge_dims(rank, length, "The rank and the length of perm")
    if perm is None:
        return [shape if rank <= 1 else unknown_of_rank(rank)]
    axes = [axis_of(axis, rank, "perm dim") for axis in to_array(perm)]
    if len(set(axes)) != rank:
        raise InvalidArgumentError(f"perm is no permutation of {rank} axes: {axes}")
    dims = dims_of(shape, rank)
    return [TensorShape([dims[axis] for axis in axes])]


define("InvertPermutation(x: T) -> y: T", "T: indextype = int32", NotDifferentiable(), shape=of_rank(1))


# Elements in the opposite order, and rolled around.


@define(
    "Reverse(tensor: T, dims: bool) -> output: T",
    "T: {uint8, int8, uint16, int16, uint32, int32, uint64, int64, bool, bfloat16, half, float, double, "
    "complex64, complex128, string}",
)
def reverse_flags(c: ShapeContext) -> Shapes:
    """One flag for every axis."""
    shape, flags = c.input(0), ranked(c, 1, 1)
    rank = merge_dims(shape.rank, flags[0], "The rank and the number of flags")
    return [shape if shape.dims is not None or rank is None else unknown_of_rank(rank)]


@define(
    "ReverseV2(tensor: T, axis: Tidx) -> output: T",
    "Tidx: indextype = int32",
    "T: {uint8, int8, uint16, int16, uint32, int32, uint64, int64, bool, bfloat16, half, float, double, "
    "complex64, complex128, string}",
)
def reverse(c: ShapeContext) -> Shapes:
    ranked(c, 1, 1)
    return [c.input(0)]


@define("Roll(input: T, shift: Tshift, axis: Taxis) -> output: T", "T: type; Tshift, Taxis: indextype")
def roll(c: ShapeContext) -> Shapes:
    ranked_at_most(c, 1, 1)
    ranked_at_most(c, 2, 1)
    return [ranked_at_least(c, 0, 1)]


@define(
    "ReverseSequence(input: T, seq_lengths: Tlen) -> output: T",
    "seq_dim: int; batch_dim: int = 0; T: type; Tlen: indextype = int64",
)
def reverse_sequence(c: ShapeContext) -> Shapes:
    shape, lengths = c.input(0), ranked(c, 1, 1)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    rank = len(shape.dims)
    batch, sequence = c.attrs["batch_dim"], c.attrs["seq_dim"]
    if not 0 <= batch < rank or not 0 <= sequence < rank:
        raise InvalidArgumentError(f"batch_dim {batch} and seq_dim {sequence} must be < rank {rank}")
    return [replace_dim(shape, batch, merge_dims(shape.dims[batch], lengths[0]))]
