"""Reductions of sparse tensors."""

from __future__ import annotations

from flowengine.core.arrays import to_array
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import axis_of
from flowengine.ops.sparse.serialized import of_unknown_rank

define(
    "SparseReduceMaxSparse(input_indices: int64, input_values: T, input_shape: int64, "
    "reduction_axes: int32) -> output_indices: int64, output_values: T, output_shape: int64",
    "keep_dims: bool = false; T: realnumbertype",
    shape=of_unknown_rank,
)
define(
    "SparseReduceSumSparse(input_indices: int64, input_values: T, input_shape: int64, "
    "reduction_axes: int32) -> output_indices: int64, output_values: T, output_shape: int64",
    "keep_dims: bool = false; T: numbertype",
    shape=of_unknown_rank,
)


@define(
    "SparseReduceMax(input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32) "
    "-> output: T",
    "keep_dims: bool = false; T: realnumbertype",
)
@define(
    "SparseReduceSum(input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32) "
    "-> output: T",
    "keep_dims: bool = false; T: numbertype",
)
def sparse_reduce(c: ShapeContext) -> Shapes:
    shape, axes = c.input_as_shape(2), c.input_value(3)
    if shape.dims is None or axes is None:
        return [UNKNOWN_SHAPE]
    rank = len(shape.dims)
    reduced = {axis_of(axis, rank, "reduction axis") for axis in to_array(axes).reshape(-1)}
    if c.attrs["keep_dims"]:
        return [TensorShape([1 if i in reduced else d for i, d in enumerate(shape.dims)])]
    return [TensorShape([d for i, d in enumerate(shape.dims) if i not in reduced])]
