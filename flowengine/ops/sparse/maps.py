"""Maps of sparse tensors."""

from __future__ import annotations

from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars, vectors
from flowengine.ops.sparse.serialized import of_unknown_rank

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
