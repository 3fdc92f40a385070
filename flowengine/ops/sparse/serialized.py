"""Sparse tensors as strings or variants, and maps that keep them."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import MATRIX, VECTOR, fixed, scalars, vectors

# Sparse tensors as strings or variants.


@define(
    "DeserializeManySparse(serialized_sparse: string) "
    "-> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64",
    "dtype: type",
    NotDifferentiable(),
)
@define(
    "DeserializeSparse(serialized_sparse: Tserialized) "
    "-> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64",
    "dtype: type; Tserialized: {string, variant} = string",
    NotDifferentiable(),
)
def of_unknown_rank(c: ShapeContext) -> Shapes:
    """Indices, values, dense shape of a sparse tensor."""
    return [MATRIX, VECTOR, VECTOR]


define(
    "SerializeManySparse(sparse_indices: int64, sparse_values: T, sparse_shape: int64) "
    "-> serialized_sparse: out_type",
    "T: type; out_type: {string, variant} = string",
    NotDifferentiable(),
    shape=fixed([None, 3]),
)
define(
    "SerializeSparse(sparse_indices: int64, sparse_values: T, sparse_shape: int64) "
    "-> serialized_sparse: out_type",
    "T: type; out_type: {string, variant} = string",
    NotDifferentiable(),
    shape=fixed([3]),
)


# Maps of sparse tensors.

define(
    "AddSparseToTensorsMap(sparse_indices: int64, sparse_values: T, sparse_shape: int64) "
    "-> sparse_handle: int64",
    "stateful; T: type; container, shared_name: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "AddManySparseToTensorsMap(sparse_indices: int64, sparse_values: T, sparse_shape: int64) "
    "-> sparse_handles: int64",
    "stateful; T: type; container, shared_name: string = ''",
    NotDifferentiable(),
    shape=vectors,
)
define(
    "TakeManySparseFromTensorsMap(sparse_handles: int64) "
    "-> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64",
    "stateful; dtype: type; container, shared_name: string = ''",
    NotDifferentiable(),
    shape=of_unknown_rank,
)
