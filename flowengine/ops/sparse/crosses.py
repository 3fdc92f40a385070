"""Crosses of features."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR
from flowengine.ops.sparse.serialized import of_unknown_rank

define(
    "SparseCross(indices: N * int64, values: sparse_types, shapes: N * int64, dense_inputs: dense_types) "
    "-> output_indices: int64, output_values: out_type, output_shape: int64",
    "N: int >= 0; hashed_output: bool; num_buckets: int >= 0; hash_key: int",
    "sparse_types, dense_types: list({int64, string}) >= 0; out_type, internal_type: {int64, string}",
    NotDifferentiable(),
    shape=of_unknown_rank,
)
define(
    "SparseCrossV2(indices: N * int64, values: sparse_types, shapes: N * int64, dense_inputs: dense_types, "
    "sep: string) -> output_indices: int64, output_values: string, output_shape: int64",
    "N: int >= 0; sparse_types, dense_types: list({int64, string}) >= 0",
    NotDifferentiable(),
    shape=of_unknown_rank,
)
define(
    "SparseCrossHashed(indices: N * int64, values: sparse_types, shapes: N * int64, "
    "dense_inputs: dense_types, num_buckets: int64, strong_hash: bool, salt: int64) "
    "-> output_indices, output_values, output_shape: int64",
    "N: int >= 0; sparse_types, dense_types: list({int64, string}) >= 0",
    NotDifferentiable(),
    shape=of_unknown_rank,
)


@define(
    "RaggedCross(ragged_values: ragged_values_types, ragged_row_splits: ragged_splits_types, "
    "sparse_indices: Nsparse * int64, sparse_values: sparse_values_types, sparse_shape: Nsparse * int64, "
    "dense_inputs: dense_types) -> output_values: out_values_type, output_row_splits: out_row_splits_type",
    "Nsparse: int >= 0; input_order: string; hashed_output: bool; num_buckets: int >= 0; hash_key: int",
    "ragged_values_types, sparse_values_types, dense_types: list({int64, string}) >= 0",
    "ragged_splits_types: list({int32, int64}) >= 0",
    "out_values_type: {int64, string}; out_row_splits_type: {int32, int64}",
    NotDifferentiable(),
)
def ragged_cross(c: ShapeContext) -> Shapes:
    return [VECTOR, VECTOR]
