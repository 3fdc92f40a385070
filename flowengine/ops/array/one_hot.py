"""A constant background with values at given places."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import axis_of, check_scalars, dimension_value, ranked


@define(
    "OneHot(indices: TI, depth: int32, on_value, off_value: T) -> output: T",
    "axis: int = -1; T: type; TI: {uint8, int8, int32, int64} = int64",
    NotDifferentiable(),
)
def one_hot(c: ShapeContext) -> Shapes:
    """indices -> indices with an axis of `depth`"""
    shape = c.input(0)
    depth = dimension_value(c, 1)
    check_scalars(c, 2, 3)
    axis: int = c.attrs["axis"]
    if axis < -1:
        raise InvalidArgumentError(f"axis must be >= -1, but is {axis}")
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    rank = len(shape.dims)
    where = rank if axis == -1 else axis_of(axis, rank + 1)
    return [TensorShape((*shape.dims[:where], depth, *shape.dims[where:]))]


@define(
    "SparseToDense(sparse_indices, output_shape: Tindices, sparse_values, default_value: T) -> dense: T",
    "validate_indices: bool = true; T: type; Tindices: indextype",
)
def sparse_to_dense(c: ShapeContext) -> Shapes:
    ranked(c, 1, 1)
    return [c.input_as_shape(1)]
