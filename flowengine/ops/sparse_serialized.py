"""Sparse tensors as strings, and kept in a map between steps."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import MATRIX, VECTOR, fixed, scalars, vectors

define(
    "AddSparseToTensorsMap",
    inputs=["sparse_indices: int64", "sparse_values: T", "sparse_shape: int64"],
    outputs=["sparse_handle: int64"],
    attrs=["T: type", 'container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
    shape=scalars,
)
define(
    "AddManySparseToTensorsMap",
    inputs=["sparse_indices: int64", "sparse_values: T", "sparse_shape: int64"],
    outputs=["sparse_handles: int64"],
    attrs=["T: type", 'container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
    shape=vectors,
)


def of_unknown_rank(c: ShapeContext) -> Sequence[TensorShape]:
    """Indices, values, dense shape of a sparse tensor."""
    return [MATRIX, VECTOR, VECTOR]


define(
    "TakeManySparseFromTensorsMap",
    inputs=["sparse_handles: int64"],
    outputs=["sparse_indices: int64", "sparse_values: dtype", "sparse_shape: int64"],
    attrs=["dtype: type", 'container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
    shape=of_unknown_rank,
)
define(
    "DeserializeManySparse",
    inputs=["serialized_sparse: string"],
    outputs=["sparse_indices: int64", "sparse_values: dtype", "sparse_shape: int64"],
    attrs=["dtype: type"],
    shape=of_unknown_rank,
)
define(
    "DeserializeSparse",
    inputs=["serialized_sparse: Tserialized"],
    outputs=["sparse_indices: int64", "sparse_values: dtype", "sparse_shape: int64"],
    attrs=["dtype: type", "Tserialized: {string, variant} = string"],
    shape=of_unknown_rank,
)
define(
    "SerializeManySparse",
    inputs=["sparse_indices: int64", "sparse_values: T", "sparse_shape: int64"],
    outputs=["serialized_sparse: out_type"],
    attrs=["T: type", "out_type: {string, variant} = string"],
    shape=fixed([None, 3]),
)
define(
    "SerializeSparse",
    inputs=["sparse_indices: int64", "sparse_values: T", "sparse_shape: int64"],
    outputs=["serialized_sparse: out_type"],
    attrs=["T: type", "out_type: {string, variant} = string"],
    shape=fixed([3]),
)
