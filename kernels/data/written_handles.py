"""Handles of resources that datasets use, written as the nodes that make such resources again.

    a variable            ->  VarHandleOp, AssignVariableOp(it, value), Identity(it, ^AssignVariableOp)
    a table               ->  HashTableV2, LookupTableImportV2(it, keys, values), Identity(it, ^Lookup...)
    a generator of seeds  ->  AnonymousSeedGenerator(seed, seed2, reshuffle)
    an iterator's name    ->  IteratorV2

Variables and tables are written as TensorFlow 2.21 writes them: a reader of the graph gets copies of them.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, Protocol

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.errors import FailedPreconditionError
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import Node
from flowengine.ir.tensorproto import encode_tensor
from flowengine.kernels.data.seed_generators import NoResource
from flowengine.resources.container import ResourceManager
from flowengine.resources.data.caching import MemoryCache
from flowengine.resources.data.iterator import IteratorResource
from flowengine.resources.data.shuffling import SeedGenerator
from flowengine.resources.device_variable import DeviceVariable
from flowengine.resources.table import DenseHashTable, HashTable, MutableHashTable, Table
from flowengine.resources.variable import Variable

#: The shared name by which TensorFlow 2 says that a variable has none.
ANONYMOUS: Final = b"cd2c89b7-88b7-44c8-ad83-06c2a9158347"
#: Ops whose resource is the graph's own where it has no shared name.
_NAMELESS: Final = frozenset(
    {
        "HashTableV2",
        "MutableDenseHashTableV2",
        "MutableHashTableOfTensorsV2",
        "MutableHashTableV2",
        "VarHandleOp",
    }
)


class NodeWriter(Protocol):
    """A graph that is being written: each call adds a node, and gives its name."""

    def node(self, op: str, inputs: Any = (), *, name: str = "", **attrs: Any) -> str: ...

    def constant(self, value: Any, dtype: DType) -> str: ...


def makes_its_own(node: Node) -> bool:
    """Whether a node of a dataset's graph makes a resource that belongs to the dataset alone."""
    return node.op in _NAMELESS and node.attrs["shared_name"] in (b"", ANONYMOUS)


def write_handle(graph: NodeWriter, resource: Any) -> str | None:
    """The name of the node that gives the handle of such a resource; None where no node can.

    FailedPreconditionError for a variable without a value.
    """
    if isinstance(resource, Variable) and not isinstance(resource, DeviceVariable):
        return _variable(graph, resource)
    if isinstance(resource, Table):
        return _table(graph, resource)
    if isinstance(resource, SeedGenerator):
        seeds = [graph.constant(np.int64(seed), dtypes.int64) for seed in resource.seeds]
        return graph.node(
            "AnonymousSeedGenerator", [*seeds, graph.constant(np.bool_(resource.reshuffles), dtypes.bool_)]
        )
    if isinstance(resource, MemoryCache):
        return graph.node("AnonymousMemoryCache")
    if isinstance(resource, NoResource):
        return graph.node(resource.op)
    if isinstance(resource, IteratorResource) and ResourceManager.is_shared(resource) and resource.types:
        return graph.node(
            "IteratorV2",
            shared_name=resource.name.encode(),
            container=resource.container.encode(),
            output_types=tuple(resource.types),
            output_shapes=tuple(resource.shapes),
        )
    return None


def _variable(graph: NodeWriter, variable: Variable) -> str:
    if not variable.is_initialized:
        raise FailedPreconditionError(
            f"the dataset uses variable '{variable.name}', which has no value yet that could be written with "
            "it: initialize the variable first"
        )
    handle = graph.node(
        "VarHandleOp",
        dtype=variable.dtype,
        shape=variable.shape,
        container=b"",
        shared_name=ANONYMOUS,
    )
    value = graph.constant(variable.read(), variable.dtype)
    filled = graph.node("AssignVariableOp", [handle, value], dtype=variable.dtype, validate_shape=False)
    return graph.node("Identity", [handle, f"^{filled}"], T=dtypes.resource)


def _table(graph: NodeWriter, table: Table) -> str | None:
    attrs: dict[str, Any] = {
        "key_dtype": table.key_dtype,
        "value_dtype": table.value_dtype,
        "container": b"",
        "shared_name": b"",
        "use_node_name_sharing": True,
    }
    inputs: list[str] = []
    fill = "LookupTableImportV2"
    if isinstance(table, HashTable):
        op = "HashTableV2"
        if not table.is_initialized:
            return graph.node(op, **attrs)
    elif isinstance(table, DenseHashTable):
        if table.deleted_key is None:
            return None
        op = "MutableDenseHashTableV2"
        fill = "LookupTableInsertV2"  # TensorFlow imports no more than their buckets, and never in a graph
        inputs = [graph.constant(key, table.key_dtype) for key in (table.empty_key, table.deleted_key)]
        attrs["value_shape"] = TensorShape(table.value_shape)
        attrs["initial_num_buckets"] = table.buckets
        attrs["max_load_factor"] = table.max_load_factor
    elif isinstance(table, MutableHashTable):
        op = "MutableHashTableOfTensorsV2" if table.value_shape else "MutableHashTableV2"
        if table.value_shape:
            attrs["value_shape"] = TensorShape(table.value_shape)
    else:
        return None
    keys, values = Table.export(table)  # of a dense one the entries, not its buckets
    # TensorFlow takes tables of one name for the same one: those of other entries have another name.
    number = hashlib.blake2b(digest_size=8)
    for array, dtype in ((keys, table.key_dtype), (values, table.value_dtype)):
        number.update(encode_tensor(array, dtype).SerializeToString(deterministic=True))
    given = [graph.constant(keys, table.key_dtype), graph.constant(values, table.value_dtype)]
    name = f"{op}FromGraphDef/{given[0]}/{number.hexdigest()}"
    handle = graph.node(op, inputs, name=name, **attrs)
    filled = graph.node(fill, [handle, *given], Tin=table.key_dtype, Tout=table.value_dtype)
    return graph.node("Identity", [handle, f"^{filled}"], T=dtypes.resource)
