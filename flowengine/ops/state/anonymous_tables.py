"""Lookup tables without a name, one for each run of the node."""

from __future__ import annotations

from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

define(
    "AnonymousHashTable, AnonymousMutableHashTable() -> table_handle: resource",
    "stateful; key_dtype, value_dtype: type",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "AnonymousMutableHashTableOfTensors() -> table_handle: resource",
    "stateful; key_dtype, value_dtype: type; value_shape: shape = []",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "AnonymousMutableDenseHashTable(empty_key, deleted_key: key_dtype) -> table_handle: resource",
    "stateful; key_dtype, value_dtype: type",
    "value_shape: shape = []; initial_num_buckets: int = 131072; max_load_factor: float = 0.8",
    NotDifferentiable(),
    shape=scalars,
)
