"""Lookup tables without a name. Each run of the node makes one, which lives as long as somebody holds its "
"handle."""

from __future__ import annotations

from typing import Any

from flowengine.core.dtypes import DType
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.kernels.state.tables import dense_table, vector_shape
from flowengine.resources.table import HashTable, MutableHashTable, Table


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
