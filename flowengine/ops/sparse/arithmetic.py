"""Arithmetic and reductions of sparse tensors."""

from __future__ import annotations

from flowengine.core.arrays import to_array
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, axis_of, fixed, merge_dims, ranked, vector
from flowengine.ops.sparse.serialized import of_unknown_rank

# Arithmetic of sparse tensors, with each other and with dense ones.


@define(
    "SparseAdd(a_indices: int64, a_values: T, a_shape, b_indices: int64, b_values: T, b_shape: int64, "
    "thresh: Treal) -> sum_indices: int64, sum_values: T, sum_shape: int64",
    "T: numbertype; Treal: realnumbertype",
)
def sparse_add(c: ShapeContext) -> Shapes:
    rank = merge_dims(ranked(c, 2, 1)[0], ranked(c, 5, 1)[0], "The ranks of the operands")
    return [TensorShape([None, rank]), VECTOR, vector(rank)]


@define(
    "SparseAddGrad(backprop_val_grad: T, a_indices, b_indices, sum_indices: int64) "
    "-> a_val_grad, b_val_grad: T",
    "T: numbertype",
)
def sparse_add_grad(c: ShapeContext) -> Shapes:
    return [vector(ranked(c, 1, 2)[0]), vector(ranked(c, 2, 2)[0])]


@define(
    "SparseDenseCwiseAdd, SparseDenseCwiseDiv, "
    "SparseDenseCwiseMul(sp_indices: int64, sp_values: T, sp_shape: int64, dense: T) -> output: T",
    "T: numbertype",
)
@define(
    "SparseSoftmax(sp_indices: int64, sp_values: T, sp_shape: int64) -> output: T", "T: {half, float, double}"
)
def values_unchanged(c: ShapeContext) -> Shapes:
    """One value for every index."""
    return [vector(merge_dims(ranked(c, 0, 2)[0], ranked(c, 1, 1)[0], "Indices and values"))]


define(
    "SparseSparseMaximum(a_indices: int64, a_values: T, a_shape, b_indices: int64, b_values: T, "
    "b_shape: int64) -> output_indices: int64, output_values: T",
    "T: realnumbertype",
    shape=fixed([None, None], [None]),
)
define(
    "SparseSparseMinimum(a_indices: int64, a_values: T, a_shape, b_indices: int64, b_values: T, "
    "b_shape: int64) -> output_indices: int64, output_values: T",
    "T: numbertype",
    shape=fixed([None, None], [None]),
)


# Reductions of sparse tensors.

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
