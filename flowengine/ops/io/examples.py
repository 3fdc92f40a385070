"""Serialised examples parsed into tensors."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, ranked, vector


@define(
    "ParseExample(serialized, names: string, sparse_keys: Nsparse * string, "
    "dense_keys: Ndense * string, dense_defaults: Tdense) "
    "-> sparse_indices: Nsparse * int64, sparse_values: sparse_types, sparse_shapes: Nsparse * int64, "
    "dense_values: Tdense",
    "Nsparse, Ndense: int >= 0; sparse_types, Tdense: list(featuretype) >= 0",
    "dense_shapes: list(shape) >= 0",
    NotDifferentiable(),
)
def parse_example(c: ShapeContext) -> Shapes:
    """Of every sparse feature indices, values, shape; then the dense features, a row for each example."""
    batch = ranked(c, 0, 1)
    count: int = c.attrs["Nsparse"]
    return [*sparse_outputs(count, 2), *[batch.concatenate(s) for s in c.attrs["dense_shapes"]]]


def sparse_outputs(count: int, rank: int) -> list[TensorShape]:
    """Indices, then values, then shapes of so many sparse tensors."""
    return [TensorShape([None, rank])] * count + [VECTOR] * count + [vector(rank)] * count


@define(
    "ParseSingleExample(serialized: string, dense_defaults: Tdense) "
    "-> sparse_indices: num_sparse * int64, sparse_values: sparse_types, "
    "sparse_shapes: num_sparse * int64, dense_values: Tdense",
    "num_sparse: int >= 0; sparse_keys, dense_keys: list(string) >= 0",
    "sparse_types, Tdense: list(featuretype) >= 0; dense_shapes: list(shape) >= 0",
    NotDifferentiable(),
)
def parse_single_example(c: ShapeContext) -> Shapes:
    ranked(c, 0, 0)
    return [*sparse_outputs(c.attrs["num_sparse"], 1), *c.attrs["dense_shapes"]]


define(
    "ParseSingleSequenceExample(serialized, feature_list_dense_missing_assumed_empty: string, "
    "context_sparse_keys: Ncontext_sparse * string, context_dense_keys: Ncontext_dense * string, "
    "feature_list_sparse_keys: Nfeature_list_sparse * string, "
    "feature_list_dense_keys: Nfeature_list_dense * string, context_dense_defaults: Tcontext_dense, "
    "debug_name: string) "
    "-> context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: context_sparse_types, "
    "context_sparse_shapes: Ncontext_sparse * int64, context_dense_values: Tcontext_dense, "
    "feature_list_sparse_indices: Nfeature_list_sparse * int64, "
    "feature_list_sparse_values: feature_list_sparse_types, "
    "feature_list_sparse_shapes: Nfeature_list_sparse * int64, "
    "feature_list_dense_values: feature_list_dense_types",
    "Ncontext_sparse, Ncontext_dense, Nfeature_list_sparse, Nfeature_list_dense: int >= 0 = 0",
    "context_sparse_types, Tcontext_dense, feature_list_dense_types: list(featuretype) >= 0 = []",
    "context_dense_shapes: list(shape) >= 0 = []; feature_list_sparse_types: list(featuretype) >= 0 = []",
    "feature_list_dense_shapes: list(shape) >= 0 = []",
    NotDifferentiable(),
)
