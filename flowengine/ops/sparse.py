"""Sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, Dimension, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    VECTOR,
    add_dims,
    axis_of,
    dims_of,
    fixed,
    like_input,
    merge_dims,
    ranked,
    vector,
)
from flowengine.ops.sparse_serialized import of_unknown_rank


def sparse_to_dense(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 1, 1)
    return [c.input_as_shape(1)]


define(
    "SparseToDense",
    inputs=["sparse_indices: Tindices", "output_shape: Tindices", "sparse_values: T", "default_value: T"],
    outputs=["dense: T"],
    attrs=["validate_indices: bool = true", "T: type", "Tindices: {int32, int64}"],
    shape=sparse_to_dense,
)
define(
    "SparseCross",
    inputs=["indices: N * int64", "values: sparse_types", "shapes: N * int64", "dense_inputs: dense_types"],
    outputs=["output_indices: int64", "output_values: out_type", "output_shape: int64"],
    attrs=[
        "N: int >= 0",
        "hashed_output: bool",
        "num_buckets: int >= 0",
        "hash_key: int",
        "sparse_types: list({int64, string}) >= 0",
        "dense_types: list({int64, string}) >= 0",
        "out_type: {int64, string}",
        "internal_type: {int64, string}",
    ],
    shape=of_unknown_rank,
)
define(
    "SparseReduceMaxSparse",
    inputs=["input_indices: int64", "input_values: T", "input_shape: int64", "reduction_axes: int32"],
    outputs=["output_indices: int64", "output_values: T", "output_shape: int64"],
    attrs=["keep_dims: bool = false", "T: realnumbertype"],
    shape=of_unknown_rank,
)
define(
    "SparseReduceSumSparse",
    inputs=["input_indices: int64", "input_values: T", "input_shape: int64", "reduction_axes: int32"],
    outputs=["output_indices: int64", "output_values: T", "output_shape: int64"],
    attrs=["keep_dims: bool = false", "T: numbertype"],
    shape=of_unknown_rank,
)


def sparse_add(c: ShapeContext) -> Sequence[TensorShape]:
    rank = merge_dims(ranked(c, 2, 1)[0], ranked(c, 5, 1)[0], "The ranks of the operands")
    return [TensorShape([None, rank]), VECTOR, vector(rank)]


define(
    "SparseAdd",
    inputs=[
        "a_indices: int64",
        "a_values: T",
        "a_shape: int64",
        "b_indices: int64",
        "b_values: T",
        "b_shape: int64",
        "thresh: Treal",
    ],
    outputs=["sum_indices: int64", "sum_values: T", "sum_shape: int64"],
    attrs=["T: numbertype", "Treal: realnumbertype"],
    shape=sparse_add,
)


def sparse_add_grad(c: ShapeContext) -> Sequence[TensorShape]:
    return [vector(ranked(c, 1, 2)[0]), vector(ranked(c, 2, 2)[0])]


define(
    "SparseAddGrad",
    inputs=["backprop_val_grad: T", "a_indices: int64", "b_indices: int64", "sum_indices: int64"],
    outputs=["a_val_grad: T", "b_val_grad: T"],
    attrs=["T: numbertype"],
    shape=sparse_add_grad,
)


def sparse_concat(c: ShapeContext) -> Sequence[TensorShape]:
    count: int = c.attrs["N"]
    rank: Dimension = None
    total: Dimension = 0
    for i in range(count):
        rank = merge_dims(rank, ranked(c, 2 * count + i, 1)[0], "The ranks of the inputs")
        total = add_dims(total, ranked(c, i, 2)[0])
    return [TensorShape([total, rank]), vector(total), vector(rank)]


define(
    "SparseConcat",
    inputs=["indices: N * int64", "values: N * T", "shapes: N * int64"],
    outputs=["output_indices: int64", "output_values: T", "output_shape: int64"],
    attrs=["concat_dim: int", "N: int >= 2", "T: type"],
    shape=sparse_concat,
)


def values_unchanged(c: ShapeContext) -> Sequence[TensorShape]:
    """One value for every index."""
    return [vector(merge_dims(ranked(c, 0, 2)[0], ranked(c, 1, 1)[0], "Indices and values"))]


define(
    "SparseDenseCwiseAdd",
    inputs=["sp_indices: int64", "sp_values: T", "sp_shape: int64", "dense: T"],
    outputs=["output: T"],
    attrs=["T: numbertype"],
    shape=values_unchanged,
)
define(
    "SparseDenseCwiseDiv",
    inputs=["sp_indices: int64", "sp_values: T", "sp_shape: int64", "dense: T"],
    outputs=["output: T"],
    attrs=["T: numbertype"],
    shape=values_unchanged,
)
define(
    "SparseDenseCwiseMul",
    inputs=["sp_indices: int64", "sp_values: T", "sp_shape: int64", "dense: T"],
    outputs=["output: T"],
    attrs=["T: numbertype"],
    shape=values_unchanged,
)
define(
    "SparseSoftmax",
    inputs=["sp_indices: int64", "sp_values: T", "sp_shape: int64"],
    outputs=["output: T"],
    attrs=["T: {float, double}"],
    shape=values_unchanged,
)


def fill_empty_rows(c: ShapeContext) -> Sequence[TensorShape]:
    count, rank = dims_of(ranked(c, 0, 2), 2)
    rank = merge_dims(rank, ranked(c, 2, 1)[0], "The columns of the indices and the rank")
    shape = c.input_as_shape(2)
    rows = shape.dims[0] if shape.dims else None
    return [TensorShape([None, rank]), VECTOR, vector(rows), vector(count)]


define(
    "SparseFillEmptyRows",
    inputs=["indices: int64", "values: T", "dense_shape: int64", "default_value: T"],
    outputs=[
        "output_indices: int64",
        "output_values: T",
        "empty_row_indicator: bool",
        "reverse_index_map: int64",
    ],
    attrs=["T: type"],
    shape=fill_empty_rows,
)


def fill_empty_rows_grad(c: ShapeContext) -> Sequence[TensorShape]:
    return [ranked(c, 0, 1), SCALAR]


define(
    "SparseFillEmptyRowsGrad",
    inputs=["reverse_index_map: int64", "grad_values: T"],
    outputs=["d_values: T", "d_default_value: T"],
    attrs=["T: type"],
    shape=fill_empty_rows_grad,
)


def sparse_reduce(c: ShapeContext) -> Sequence[TensorShape]:
    shape, axes = c.input_as_shape(2), c.input_value(3)
    if shape.dims is None or axes is None:
        return [UNKNOWN_SHAPE]
    rank = len(shape.dims)
    reduced = {axis_of(axis, rank, "reduction axis") for axis in to_array(axes).reshape(-1)}
    if not reduced:
        reduced = set(range(rank))
    if c.attrs["keep_dims"]:
        return [TensorShape([1 if i in reduced else d for i, d in enumerate(shape.dims)])]
    return [TensorShape([d for i, d in enumerate(shape.dims) if i not in reduced])]


define(
    "SparseReduceMax",
    inputs=["input_indices: int64", "input_values: T", "input_shape: int64", "reduction_axes: int32"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: realnumbertype"],
    shape=sparse_reduce,
)
define(
    "SparseReduceSum",
    inputs=["input_indices: int64", "input_values: T", "input_shape: int64", "reduction_axes: int32"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: numbertype"],
    shape=sparse_reduce,
)


def sparse_reorder(c: ShapeContext) -> Sequence[TensorShape]:
    return [ranked(c, 0, 2), ranked(c, 1, 1)]


define(
    "SparseReorder",
    inputs=["input_indices: int64", "input_values: T", "input_shape: int64"],
    outputs=["output_indices: int64", "output_values: T"],
    attrs=["T: type"],
    shape=sparse_reorder,
)


def sparse_reshape(c: ShapeContext) -> Sequence[TensorShape]:
    rank = ranked(c, 2, 1)[0]
    return [TensorShape([ranked(c, 0, 2)[0], rank]), vector(rank)]


define(
    "SparseReshape",
    inputs=["input_indices: int64", "input_shape: int64", "new_shape: int64"],
    outputs=["output_indices: int64", "output_shape: int64"],
    shape=sparse_reshape,
)


def sparse_slice(c: ShapeContext) -> Sequence[TensorShape]:
    rank = ranked(c, 2, 1)[0]
    return [TensorShape([None, rank]), VECTOR, vector(rank)]


define(
    "SparseSlice",
    inputs=["indices: int64", "values: T", "shape: int64", "start: int64", "size: int64"],
    outputs=["output_indices: int64", "output_values: T", "output_shape: int64"],
    attrs=["T: type"],
    shape=sparse_slice,
)


def sparse_slice_grad(c: ShapeContext) -> Sequence[TensorShape]:
    return [vector(ranked(c, 1, 2)[0])]


define(
    "SparseSliceGrad",
    inputs=["backprop_val_grad: T", "input_indices: int64", "input_start: int64", "output_indices: int64"],
    outputs=["val_grad: T"],
    attrs=["T: numbertype"],
    shape=sparse_slice_grad,
)
define(
    "SparseSparseMaximum",
    inputs=[
        "a_indices: int64",
        "a_values: T",
        "a_shape: int64",
        "b_indices: int64",
        "b_values: T",
        "b_shape: int64",
    ],
    outputs=["output_indices: int64", "output_values: T"],
    attrs=["T: realnumbertype"],
    shape=fixed([None, None], [None]),
)
define(
    "SparseSparseMinimum",
    inputs=[
        "a_indices: int64",
        "a_values: T",
        "a_shape: int64",
        "b_indices: int64",
        "b_values: T",
        "b_shape: int64",
    ],
    outputs=["output_indices: int64", "output_values: T"],
    attrs=["T: numbertype"],
    shape=fixed([None, None], [None]),
)


def sparse_split(c: ShapeContext) -> Sequence[TensorShape]:
    count: int = c.attrs["num_split"]
    rank = ranked(c, 3, 1)[0]
    return [TensorShape([None, rank])] * count + [VECTOR] * count + [vector(rank)] * count


define(
    "SparseSplit",
    inputs=["split_dim: int64", "indices: int64", "values: T", "shape: int64"],
    outputs=[
        "output_indices: num_split * int64",
        "output_values: num_split * T",
        "output_shape: num_split * int64",
    ],
    attrs=["num_split: int >= 1", "T: type"],
    shape=sparse_split,
)
define(
    "SparseTensorDenseAdd",
    inputs=["a_indices: Tindices", "a_values: T", "a_shape: Tindices", "b: T"],
    outputs=["output: T"],
    attrs=["T: numbertype", "Tindices: {int32, int64}"],
    shape=like_input(3),
)


def sparse_mat_mul(c: ShapeContext) -> Sequence[TensorShape]:
    """(M, K) sparse, (K, N) -> (M, N)"""
    shape = c.input_as_shape(2)
    rows, columns = dims_of(ranked(c, 3, 2), 2)
    outer, inner = shape.dims if shape.dims is not None and len(shape.dims) == 2 else (None, None)
    if c.attrs["adjoint_a"]:
        outer, inner = inner, outer
    if c.attrs["adjoint_b"]:
        rows, columns = columns, rows
    merge_dims(inner, rows, "The inner dimensions")
    return [TensorShape([outer, columns])]


define(
    "SparseTensorDenseMatMul",
    inputs=["a_indices: Tindices", "a_values: T", "a_shape: int64", "b: T"],
    outputs=["product: T"],
    attrs=[
        "T: type",
        "Tindices: {int32, int64} = int64",
        "adjoint_a: bool = false",
        "adjoint_b: bool = false",
    ],
    shape=sparse_mat_mul,
)


def edit_distance(c: ShapeContext) -> Sequence[TensorShape]:
    """All dimensions of the dense shapes but the last, the larger of both."""
    a, b = c.input_as_shape(2), c.input_as_shape(5)
    if a.dims is None or b.dims is None:
        return [UNKNOWN_SHAPE]
    if len(a.dims) != len(b.dims):
        raise InvalidArgumentError(f"hypothesis and truth differ in rank: {a} and {b}")
    pairs = zip(a.dims[:-1], b.dims[:-1], strict=True)
    return [TensorShape([None if x is None or y is None else max(x, y) for x, y in pairs])]


define(
    "EditDistance",
    inputs=[
        "hypothesis_indices: int64",
        "hypothesis_values: T",
        "hypothesis_shape: int64",
        "truth_indices: int64",
        "truth_values: T",
        "truth_shape: int64",
    ],
    outputs=["output: float"],
    attrs=["normalize: bool = true", "T: type"],
    shape=edit_distance,
)
