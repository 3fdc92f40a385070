"""Values looked for in a tensor: their places, distinct ones, those that are not zero."""

from __future__ import annotations

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, axis_of, ranked, replace_dim, scalars, vector

# Where values stand in sorted rows, and what flat positions mean in a shape.


@define(
    "LowerBound(sorted_inputs, values: T) -> output: out_type",
    "T: type; out_type: indextype = int32",
    NotDifferentiable(),
)
@define(
    "UpperBound(sorted_inputs, values: T) -> output: out_type",
    "T: type; out_type: indextype = int32",
    NotDifferentiable(),
)
def search_sorted(c: ShapeContext) -> Shapes:
    ranked(c, 0, 2)
    return [ranked(c, 1, 2)]


@define("UnravelIndex(indices, dims: Tidx) -> output: Tidx", "Tidx: indextype = int32", NotDifferentiable())
def unravel(c: ShapeContext) -> Shapes:
    """Indices -> one row of coordinates for each dimension"""
    indices, count = c.input(0), ranked(c, 1, 1)[0]
    if indices.dims is None:
        return [UNKNOWN_SHAPE]
    if not indices.dims:
        return [vector(count)]
    return [TensorShape([count, indices.num_elements()])]


# The coordinates of what is not zero.


@define("Where(input: T) -> index: int64", "T: numberorbooltype = bool", NotDifferentiable())
def where(c: ShapeContext) -> Shapes:
    """(true elements, rank): coordinates of each"""
    return [TensorShape([None, c.input(0).rank])]


# Distinct values, and what is in one list but not in another.


@define("Unique(x: T) -> y: T, idx: out_idx", "T: type; out_idx: indextype = int32")
@define("UniqueWithCounts(x: T) -> y: T, idx, count: out_idx", "T: type; out_idx: indextype = int32")
def unique(c: ShapeContext) -> Shapes:
    """x -> y, idx (as long as x), and how often each occurs"""
    return [VECTOR, ranked(c, 0, 1), VECTOR][: c.num_outputs]


@define(
    "UniqueV2(x: T, axis: Taxis) -> y: T, idx: out_idx",
    "T: type; Taxis: indextype = int64; out_idx: indextype = int32",
)
@define(
    "UniqueWithCountsV2(x: T, axis: Taxis) -> y: T, idx, count: out_idx",
    "T: type; Taxis: indextype = int64; out_idx: indextype = int32",
)
def unique_along(c: ShapeContext) -> Shapes:
    """Distinct slices along one axis; without an axis x is a vector."""
    shape = c.input(0)
    axes = c.input_value(1)
    length = ranked(c, 1, 1)[0]
    if shape.dims is None or (axes is None and length != 0 and len(shape.dims) != 1):
        rank_only = UNKNOWN_SHAPE if shape.dims is None else unknown_of_rank(len(shape.dims))
        return [rank_only, VECTOR, VECTOR][: c.num_outputs]
    chosen: list[int] = [] if axes is None else to_array(axes).reshape(-1).tolist()
    axis = axis_of(chosen[0], len(shape.dims)) if chosen else 0
    if not chosen and len(shape.dims) != 1:
        raise InvalidArgumentError(f"without an axis the input must be a vector, not {shape}")
    return [replace_dim(shape, axis, None), vector(shape.dims[axis]), VECTOR][: c.num_outputs]


@define("ListDiff(x, y: T) -> out: T, idx: out_idx", "T: type; out_idx: indextype = int32")
def list_diff(c: ShapeContext) -> Shapes:
    ranked(c, 0, 1)
    ranked(c, 1, 1)
    return [VECTOR, VECTOR]


# Whether a tensor counts as true.

define("ToBool(input: T) -> output: bool", "T: type", NotDifferentiable(), shape=scalars)
