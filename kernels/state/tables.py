"""Lookup tables, named or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.names import resource_name
from flowengine.resources.table import DenseHashTable, HashTable, MutableHashTable, Table

# Lookup tables as nodes. The handle that flows is the table, by reference or by resource alike.


def _shared(ctx: KernelContext, node: Node, make: Callable[[str, str], Table]) -> Table:
    """The table of the node's container and name, checked to be of the node's kind and types."""
    attrs = node.attrs
    # Without a shared name, a table belongs to its node alone unless it says that the name is shared.
    private = "" if attrs.get("use_node_name_sharing") else "_private_"
    where, name = resource_name(attrs["container"], attrs["shared_name"], private + node.name)
    found = ctx.resources.find(where, name, Table)
    if found is None:
        return ctx.resources.lookup_or_create(where, name, Table, lambda: make(name, where))
    key, value = attrs["key_dtype"], attrs["value_dtype"]
    if found.key_dtype is not key or found.value_dtype is not value:
        raise InvalidArgumentError(
            f"Conflicting key/value dtypes {key}->{value} with {found.key_dtype}->{found.value_dtype} "
            f"for table '{name}'"
        )
    return found


def _complete(shape: TensorShape) -> tuple[int, ...]:
    dims = shape.as_tuple()
    if dims is None:
        raise InvalidArgumentError(f"a table's value_shape must be complete, not {shape}")
    return dims


def vector_shape(shape: TensorShape) -> tuple[int, ...]:
    """The shape of a table's values; InvalidArgumentError for more than a vector."""
    dims = _complete(shape)
    if len(dims) > 1:
        raise InvalidArgumentError(f"Default value must be a vector, got shape {list(dims)}")
    return dims


@kernel("HashTable", "HashTableV2", heavy=False)
def hash_table(*, ctx: KernelContext, node: Node, key_dtype: DType, value_dtype: DType) -> Table:
    """A table that is filled once."""
    return _shared(ctx, node, lambda name, where: HashTable(name, key_dtype, value_dtype, container=where))


@kernel("MutableHashTable", "MutableHashTableV2", heavy=False)
def mutable_hash_table(*, ctx: KernelContext, node: Node, key_dtype: DType, value_dtype: DType) -> Table:
    """A table of scalars to scalars that can change."""
    return _shared(
        ctx, node, lambda name, where: MutableHashTable(name, key_dtype, value_dtype, container=where)
    )


@kernel("MutableHashTableOfTensors", "MutableHashTableOfTensorsV2", heavy=False)
def mutable_hash_table_of_tensors(
    *, ctx: KernelContext, node: Node, key_dtype: DType, value_dtype: DType, value_shape: TensorShape
) -> Table:
    """A table of scalars to vectors that can change."""
    shape = vector_shape(value_shape)
    return _shared(
        ctx,
        node,
        lambda name, where: MutableHashTable(
            name, key_dtype, value_dtype, value_shape=shape, container=where
        ),
    )


@kernel("MutableDenseHashTable", heavy=False)
def mutable_dense_hash_table(empty_key: Any, *, ctx: KernelContext, node: Node) -> Table:
    """A table with one reserved key."""
    return _shared(ctx, node, dense_table(node, empty_key, None))


@kernel("MutableDenseHashTableV2", heavy=False)
def mutable_dense_hash_table_v2(empty_key: Any, deleted_key: Any, *, ctx: KernelContext, node: Node) -> Table:
    """A table with two reserved keys."""
    return _shared(ctx, node, dense_table(node, empty_key, deleted_key))


def dense_table(node: Node, empty_key: Any, deleted_key: Any) -> Callable[[str, str], Table]:
    """Return a function that makes the table the node's attributes describe, from its name and container."""
    attrs = node.attrs
    factor = attrs["max_load_factor"]
    if not 0 < factor < 1:
        raise InvalidArgumentError(f"max_load_factor must be between 0 and 1, got: {factor}")
    buckets = attrs["initial_num_buckets"]
    if buckets < 4 or buckets & (buckets - 1):
        raise InvalidArgumentError(f"Number of buckets must be at least 4 and a power of 2, got: {buckets}")
    return lambda name, where: DenseHashTable(
        name,
        attrs["key_dtype"],
        attrs["value_dtype"],
        empty_key=empty_key,
        deleted_key=deleted_key,
        value_shape=_complete(attrs["value_shape"]),
        buckets=buckets,
        max_load_factor=factor,
        container=where,
    )


def as_table(handle: Any) -> Table:
    """The handle, checked to be one of a table."""
    if isinstance(handle, Table):
        return handle
    raise InvalidArgumentError(f"the handle of a table is wanted, not a {type(handle).__name__}")


def as_hash_table(handle: Any) -> HashTable:
    """The handle, checked to be one of a table that is filled once."""
    if isinstance(handle, HashTable):
        return handle
    raise InvalidArgumentError(f"only a HashTable can be initialized, not {as_table(handle)!r}")


@kernel("InitializeTable", "InitializeTableV2")
def initialize_table(table_handle: Any, keys: Any, values: Any, *, Tkey: DType, Tval: DType) -> None:
    """Fill a table from two vectors of one length."""
    table = as_hash_table(table_handle)
    table.check_types(Tkey, Tval)
    if getattr(keys, "ndim", 0) != 1:
        raise InvalidArgumentError(f"Keys must be a vector, but received {list(np.shape(keys))}")
    if np.shape(keys) != np.shape(values):
        raise InvalidArgumentError(
            f"Keys and values must have the same size {list(np.shape(keys))} vs {list(np.shape(values))}"
        )
    table.initialize_from(keys, values)


@kernel("LookupTableFind", "LookupTableFindV2")
def lookup_table_find(table_handle: Any, keys: Any, default_value: Any, *, Tin: DType, Tout: DType) -> Array:
    """The value of each key, `default_value` where there is none."""
    table = as_table(table_handle)
    table.check_types(Tin, Tout)
    return table.find(keys, default_value)


@kernel("LookupTableInsert", "LookupTableInsertV2")
def lookup_table_insert(table_handle: Any, keys: Any, values: Any, *, Tin: DType, Tout: DType) -> None:
    """Set the values of keys."""
    table = as_table(table_handle)
    table.check_types(Tin, Tout)
    table.insert(keys, values)


@kernel("LookupTableRemoveV2")
def lookup_table_remove(table_handle: Any, keys: Any, *, Tin: DType) -> None:
    """Forget keys."""
    table = as_table(table_handle)
    table.check_types(Tin, None)
    table.remove(keys)


@kernel("LookupTableSize", "LookupTableSizeV2", heavy=False)
def lookup_table_size(table_handle: Any) -> Any:
    """The number of entries (int64, rank 0)."""
    return np.int64(as_table(table_handle).size)


@kernel("LookupTableExport", "LookupTableExportV2")
def lookup_table_export(table_handle: Any) -> tuple[Array, Array]:
    """All keys and their values."""
    return as_table(table_handle).export()


@kernel("LookupTableImport", "LookupTableImportV2")
def lookup_table_import(table_handle: Any, keys: Any, values: Any, *, Tin: DType, Tout: DType) -> None:
    """Replace all entries; a table that is filled once is filled."""
    table = as_table(table_handle)
    table.check_types(Tin, Tout)
    table.replace(keys, values)


@kernel("FakeQueue", heavy=False)
def fake_queue(resource: Any) -> Any:
    """A queue by resource handle, as the reference that older ops take."""
    return resource


# Lookup tables without a name. Each run of the node makes one, which exists as long as its handle is
# referenced.


def counted(table: Table, ctx: KernelContext) -> Table:
    """A table that nobody else can name, with its entries booked where the session's resources are."""
    table.account = ctx.resources.account
    table.name = ctx.resources.unique_name(table.name)
    return table


@kernel("AnonymousHashTable", heavy=False)
def anonymous_hash_table(*, ctx: KernelContext, node: Node, key_dtype: DType, value_dtype: DType) -> Table:
    """A table that is filled once."""
    return counted(HashTable(node.name, key_dtype, value_dtype), ctx)


@kernel("AnonymousMutableHashTable", heavy=False)
def anonymous_mutable_hash_table(
    *, ctx: KernelContext, node: Node, key_dtype: DType, value_dtype: DType
) -> Table:
    """A table of scalars to scalars that can change."""
    return counted(MutableHashTable(node.name, key_dtype, value_dtype), ctx)


@kernel("AnonymousMutableHashTableOfTensors", heavy=False)
def anonymous_mutable_hash_table_of_tensors(
    *, ctx: KernelContext, node: Node, key_dtype: DType, value_dtype: DType, value_shape: TensorShape
) -> Table:
    """A table of scalars to vectors that can change."""
    shape = vector_shape(value_shape)
    return counted(MutableHashTable(node.name, key_dtype, value_dtype, value_shape=shape), ctx)


@kernel("AnonymousMutableDenseHashTable", heavy=False)
def anonymous_mutable_dense_hash_table(
    empty_key: Any, deleted_key: Any, *, ctx: KernelContext, node: Node
) -> Table:
    """A table with two reserved keys."""
    return counted(dense_table(node, empty_key, deleted_key)(node.name, ""), ctx)
