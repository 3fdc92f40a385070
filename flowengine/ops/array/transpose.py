"""Axes in another order."""

from __future__ import annotations

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import axis_of, dims_of, merge_dims, of_rank, ranked


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
