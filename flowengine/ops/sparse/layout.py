"""Sparse tensors joined, split, sliced, reordered and filled."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR, Dimension, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, add_dims, dims_of, merge_dims, ranked, vector


@define(
    "SparseConcat(indices: N * int64, values: N * T, shapes: N * int64) "
    "-> output_indices: int64, output_values: T, output_shape: int64",
    "concat_dim: int; N: int >= 2; T: type",
    NotDifferentiable(),
)
def sparse_concat(c: ShapeContext) -> Shapes:
    count: int = c.attrs["N"]
    rank: Dimension = None
    total: Dimension = 0
    for i in range(count):
        rank = merge_dims(rank, ranked(c, 2 * count + i, 1)[0], "The ranks of the inputs")
        total = add_dims(total, ranked(c, i, 2)[0])
    return [TensorShape([total, rank]), vector(total), vector(rank)]


@define(
    "SparseFillEmptyRows(indices: int64, values: T, dense_shape: int64, default_value: T) "
    "-> output_indices: int64, output_values: T, empty_row_indicator: bool, reverse_index_map: int64",
    "T: type",
)
def fill_empty_rows(c: ShapeContext) -> Shapes:
    count, rank = dims_of(ranked(c, 0, 2), 2)
    rank = merge_dims(rank, ranked(c, 2, 1)[0], "The columns of the indices and the rank")
    shape = c.input_as_shape(2)
    rows = shape.dims[0] if shape.dims else None
    return [TensorShape([None, rank]), VECTOR, vector(rows), vector(count)]


@define(
    "SparseFillEmptyRowsGrad(reverse_index_map: int64, grad_values: T) -> d_values, d_default_value: T",
    "T: type",
)
def fill_empty_rows_grad(c: ShapeContext) -> Shapes:
    return [ranked(c, 0, 1), SCALAR]


@define(
    "SparseReorder(input_indices: int64, input_values: T, input_shape: int64) "
    "-> output_indices: int64, output_values: T",
    "T: type",
)
def sparse_reorder(c: ShapeContext) -> Shapes:
    return [ranked(c, 0, 2), ranked(c, 1, 1)]


@define(
    "SparseReshape(input_indices, input_shape, new_shape: int64) -> output_indices, output_shape: int64",
    NotDifferentiable(),
)
def sparse_reshape(c: ShapeContext) -> Shapes:
    rank = ranked(c, 2, 1)[0]
    return [TensorShape([ranked(c, 0, 2)[0], rank]), vector(rank)]


@define(
    "SparseSlice(indices: int64, values: T, shape, start, size: int64) "
    "-> output_indices: int64, output_values: T, output_shape: int64",
    "T: type",
)
def sparse_slice(c: ShapeContext) -> Shapes:
    rank = ranked(c, 2, 1)[0]
    return [TensorShape([None, rank]), VECTOR, vector(rank)]


@define(
    "SparseSliceGrad(backprop_val_grad: T, input_indices, input_start, output_indices: int64) -> val_grad: T",
    "T: numbertype",
)
def sparse_slice_grad(c: ShapeContext) -> Shapes:
    return [vector(ranked(c, 1, 2)[0])]


@define(
    "SparseSplit(split_dim, indices: int64, values: T, shape: int64) "
    "-> output_indices: num_split * int64, output_values: num_split * T, output_shape: num_split * int64",
    "num_split: int >= 1; T: type",
)
def sparse_split(c: ShapeContext) -> Shapes:
    count: int = c.attrs["num_split"]
    rank = ranked(c, 3, 1)[0]
    return [TensorShape([None, rank])] * count + [VECTOR] * count + [vector(rank)] * count
