"""Batches of serialised examples and sequences parsed into tensors."""

from __future__ import annotations

from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define

define(
    "ParseExampleV2(serialized, names, sparse_keys, dense_keys, ragged_keys: string, "
    "dense_defaults: Tdense) -> sparse_indices: num_sparse * int64, sparse_values: sparse_types, "
    "sparse_shapes: num_sparse * int64, dense_values: Tdense, ragged_values: ragged_value_types, "
    "ragged_row_splits: ragged_split_types",
    "Tdense: list(featuretype) >= 0; num_sparse: int >= 0",
    "sparse_types, ragged_value_types: list(featuretype) >= 0; ragged_split_types: list(indextype) >= 0",
    "dense_shapes: list(shape) >= 0",
    NotDifferentiable(),
)
define(
    "ParseSequenceExample(serialized, debug_name: string, context_dense_defaults: Tcontext_dense) "
    "-> context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: context_sparse_types, "
    "context_sparse_shapes: Ncontext_sparse * int64, context_dense_values: Tcontext_dense, "
    "feature_list_sparse_indices: Nfeature_list_sparse * int64, "
    "feature_list_sparse_values: feature_list_sparse_types, "
    "feature_list_sparse_shapes: Nfeature_list_sparse * int64, "
    "feature_list_dense_values: feature_list_dense_types, "
    "feature_list_dense_lengths: Nfeature_list_dense * int64",
    "feature_list_dense_missing_assumed_empty, context_sparse_keys, context_dense_keys, "
    "feature_list_sparse_keys, feature_list_dense_keys: list(string) >= 0",
    "Ncontext_sparse, Ncontext_dense, Nfeature_list_sparse, Nfeature_list_dense: int >= 0 = 0",
    "context_sparse_types, Tcontext_dense, feature_list_dense_types: list(featuretype) >= 0 = []",
    "context_dense_shapes: list(shape) >= 0 = []; feature_list_sparse_types: list(featuretype) >= 0 = []",
    "feature_list_dense_shapes: list(shape) >= 0 = []",
    NotDifferentiable(),
)
define(
    "ParseSequenceExampleV2(serialized, debug_name, context_sparse_keys, context_dense_keys, "
    "context_ragged_keys, feature_list_sparse_keys, feature_list_dense_keys, feature_list_ragged_keys: "
    "string, feature_list_dense_missing_assumed_empty: bool, context_dense_defaults: Tcontext_dense) "
    "-> context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: context_sparse_types, "
    "context_sparse_shapes: Ncontext_sparse * int64, context_dense_values: Tcontext_dense, "
    "context_ragged_values: context_ragged_value_types, "
    "context_ragged_row_splits: context_ragged_split_types, "
    "feature_list_sparse_indices: Nfeature_list_sparse * int64, "
    "feature_list_sparse_values: feature_list_sparse_types, "
    "feature_list_sparse_shapes: Nfeature_list_sparse * int64, "
    "feature_list_dense_values: feature_list_dense_types, "
    "feature_list_dense_lengths: Nfeature_list_dense * int64, "
    "feature_list_ragged_values: feature_list_ragged_value_types, "
    "feature_list_ragged_outer_splits: feature_list_ragged_split_types, "
    "feature_list_ragged_inner_splits: feature_list_ragged_split_types",
    "Ncontext_sparse: int >= 0 = 0",
    "Tcontext_dense, context_sparse_types, context_ragged_value_types: list(featuretype) >= 0 = []",
    "context_ragged_split_types: list(indextype) >= 0 = []; context_dense_shapes: list(shape) >= 0 = []",
    "Nfeature_list_sparse, Nfeature_list_dense: int >= 0 = 0",
    "feature_list_dense_types, feature_list_sparse_types: list(featuretype) >= 0 = []",
    "feature_list_ragged_value_types: list(featuretype) >= 0 = []",
    "feature_list_ragged_split_types: list(indextype) >= 0 = []",
    "feature_list_dense_shapes: list(shape) >= 0 = []",
    NotDifferentiable(),
)
