"""Rows of different lengths, and the dense tensors they are padded to."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    VECTOR,
    dimension_value,
    ranked,
    ranked_at_least,
    replace_dim,
    vector,
    vectors,
)

# Rows of different lengths, as one tensor of values and the places where rows end.

define(
    "RaggedRange(starts, limits, deltas: T) -> rt_nested_splits: Tsplits, rt_dense_values: T",
    "T: {bfloat16, float, double, int32, int64} = int32; Tsplits: indextype = int64",
    NotDifferentiable(),
    shape=vectors,
)


@define(
    "RaggedTensorToSparse(rt_nested_splits: RAGGED_RANK * Tsplits, rt_dense_values: T) "
    "-> sparse_indices: int64, sparse_values: T, sparse_dense_shape: int64",
    "RAGGED_RANK: int >= 1; T: type; Tsplits: indextype = int64",
)
def ragged_to_sparse(c: ShapeContext) -> Shapes:
    values = ranked_at_least(c, c.num_inputs - 1, 1)
    rank = None if values.rank is None else values.rank + c.attrs["RAGGED_RANK"]
    return [TensorShape([None, rank]), VECTOR, vector(rank)]


@define(
    "RaggedGather(params_nested_splits: PARAMS_RAGGED_RANK * Tsplits, params_dense_values: Tvalues, "
    "indices: Tindices) -> output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits, output_dense_values: Tvalues",
    "Tvalues: type; Tindices: indextype; Tsplits: indextype = int64; PARAMS_RAGGED_RANK: int >= 1",
    "OUTPUT_RAGGED_RANK: int >= 0",
)
def ragged_gather(c: ShapeContext) -> Shapes:
    """Splits, and values of which only the rows differ in number."""
    values = ranked_at_least(c, c.attrs["PARAMS_RAGGED_RANK"], 1)
    return [*[VECTOR] * (c.num_outputs - 1), replace_dim(values, 0, None)]


@define(
    "RaggedFillEmptyRows(value_rowids: int64, values: T, nrows: int64, default_value: T) "
    "-> output_value_rowids: int64, output_values: T, empty_row_indicator: bool, reverse_index_map: int64",
    "T: type",
)
def ragged_fill_empty_rows(c: ShapeContext) -> Shapes:
    return [VECTOR, VECTOR, vector(dimension_value(c, 2)), ranked(c, 0, 1)]


@define(
    "RaggedFillEmptyRowsGrad(reverse_index_map: int64, grad_values: T) -> d_values, d_default_value: T",
    "T: type",
)
def ragged_fill_empty_rows_grad(c: ShapeContext) -> Shapes:
    return [ranked(c, 0, 1), SCALAR]


# Ragged tensors as dense ones, rows filled up with a default.

define(
    "RaggedTensorToTensor(shape: Tshape, values, default_value: T, "
    "row_partition_tensors: num_row_partition_tensors * Tindex) -> result: T",
    "T: type; Tindex, Tshape: {int64, int32}; num_row_partition_tensors: int >= 1",
    "row_partition_types: list(string)",
)
