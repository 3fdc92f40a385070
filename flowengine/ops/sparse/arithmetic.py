"""Arithmetic of sparse tensors, with each other and with dense ones."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, fixed, merge_dims, ranked, vector


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
