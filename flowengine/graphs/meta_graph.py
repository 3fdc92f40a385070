"""A graph with its collections, as a MetaGraphDef: written, and read back into a graph.

A collection is written by the kind of its values: variables and the like as their messages, tensors and
operations as names, numbers and texts as values.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.graphs.collections import Collections
from flowengine.graphs.control.contexts import ControlContext
from flowengine.graphs.control.messages import FIELDS, context_from_proto
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.graphs.variables import keys
from flowengine.graphs.variables.partitioned import PartitionedVariable
from flowengine.graphs.variables.variable import GraphVariable, from_proto
from flowengine.ir.graph import NodeGraph
from flowengine.ir.opdef import OpRegistry

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

_log: Final = logging.getLogger("flowengine.graphs")

#: Collections of branches and loops.
_OF_CONTEXTS: Final = frozenset(FIELDS)
#: Collections whose messages are VariableDefs.
_OF_VARIABLES: Final = frozenset(
    {
        keys.VARIABLES,
        keys.TRAINABLE_VARIABLES,
        keys.LOCAL_VARIABLES,
        keys.MODEL_VARIABLES,
        keys.MOVING_AVERAGE_VARIABLES,
        keys.GLOBAL_STEP,
        "metric_variables",
        "weights",
        "biases",
    }
)


def to_meta_graph(graph: NodeGraph, collections: Collections) -> Any:
    """The MetaGraphDef message of a graph's nodes and functions, and of its collections.

    Logs and leaves out values that no message can express, such as a Python object.
    """
    from flowengine.ir.graphdef import graph_to_def
    from flowengine.ir.proto import MetaGraphDef

    meta = MetaGraphDef(graph_def=graph_to_def(graph))
    meta.meta_info_def.tensorflow_version = "1.15.0"
    for key in collections.keys:
        listed = _flat(collections.of(key))
        if not _write(meta, key, listed):
            _log.warning("collection %r is left out: a MetaGraphDef cannot hold %r", key, type(listed[0]))
    return meta


def read_collections(graph: Graph, collections: Mapping[str, Any], *, import_scope: str = "") -> None:
    """List in a graph what a MetaGraphDef's collections list; its nodes are in the graph already.

    import_scope   is put before the names of nodes

    A variable that several collections list is one object. Messages of other kinds are listed as their bytes,
    as are those, and names, of nodes that the graph does not have. The nodes of a branch or loop are in it.
    """
    scope = f"{import_scope}/" if import_scope else ""
    known: dict[bytes, Any] = {}
    for key, definition in collections.items():
        for name in definition.node_list.value:
            graph.add_to_collection(key, _named(graph, scope + name))
        for data in definition.bytes_list.value:
            if key in _OF_VARIABLES and data not in known:
                known[data] = _variable(graph, data, import_scope)
            elif key in _OF_CONTEXTS:
                known[data] = _context(graph, key, data, import_scope)
            graph.add_to_collection(key, known.get(data, data))
        for number in (*definition.int64_list.value, *definition.float_list.value):
            graph.add_to_collection(key, number)


def copy_collections(source: Graph, target: Graph) -> None:
    """List in a graph of the same nodes what another lists, as things of that graph."""
    known: dict[int, Any] = {}
    for key in source.collections.keys:
        for each in source.collection(key):
            if id(each) not in known:
                known[id(each)] = _moved(each, target)
            target.add_to_collection(key, known[id(each)])


def _moved(value: Any, target: Graph) -> Any:
    """Return the counterpart of an object of one graph in another graph with the same nodes."""
    if isinstance(value, GraphVariable):
        found = from_proto(target, value.to_proto())
        found.constraint = value.constraint
        return found
    if isinstance(value, ControlContext):
        data = value.to_proto().SerializeToString()
        return context_from_proto(target, value.collection, data)
    if isinstance(value, PartitionedVariable):
        return value.of_parts([_moved(part, target) for part in value.parts])
    if isinstance(value, Tensor):
        return Tensor(target, value.node_name, value.slot)
    return Operation(target, value.name) if isinstance(value, Operation) else value


def _named(graph: Graph, name: str) -> Tensor | Operation | str:
    try:
        return graph.tensor(name) if ":" in name else graph.operation(name)
    except (NotFoundError, InvalidArgumentError):
        return name


def _variable(graph: Graph, data: bytes, import_scope: str) -> GraphVariable | bytes:
    try:
        return from_proto(graph, data, import_scope=import_scope)
    except (NotFoundError, InvalidArgumentError):
        return data


def _context(graph: Graph, key: str, data: bytes, import_scope: str) -> ControlContext | bytes:
    try:
        return context_from_proto(graph, key, data, import_scope=import_scope)
    except (NotFoundError, InvalidArgumentError):
        return data


def _flat(listed: Sequence[Any]) -> list[Any]:
    """Return the listed objects, with partitioned variables replaced by their parts."""
    return [part for each in listed for part in getattr(each, "parts", (each,))]


def _write(meta: Any, key: Hashable, listed: Sequence[Any]) -> bool:
    """Whether a message can hold what is listed, and now does."""
    if not isinstance(key, str):
        return False
    if all(hasattr(each, "to_proto") for each in listed):
        data = [each.to_proto().SerializeToString(deterministic=True) for each in listed]
        meta.collection_def[key].bytes_list.value.extend(data)
    elif all(isinstance(each, bytes | str) for each in listed):
        texts = [each.encode() if isinstance(each, str) else each for each in listed]
        meta.collection_def[key].bytes_list.value.extend(texts)
    elif all(isinstance(each, Tensor | Operation) for each in listed):
        meta.collection_def[key].node_list.value.extend(each.name for each in listed)
    elif all(isinstance(each, int) for each in listed):
        meta.collection_def[key].int64_list.value.extend(listed)
    elif all(isinstance(each, int | float) for each in listed):
        meta.collection_def[key].float_list.value.extend(float(each) for each in listed)
    else:
        return False
    return True


def pickled(graph: Graph, registry: OpRegistry | None) -> tuple[Any, ...]:
    """Return the parts of a graph for pickle: its messages, its class, and its own registry if it has one."""
    if graph.collections.keys:
        return _from_pickle, (type(graph), graph.to_meta_graph().SerializeToString(), registry, True)
    return _from_pickle, (type(graph), graph.to_graph_def().SerializeToString(), registry, False)


def _from_pickle(
    kind: type[Graph], content: bytes, registry: OpRegistry | None, has_collections: bool
) -> Graph:
    if not has_collections:
        return kind.from_graph_def(content, registry=registry)
    from flowengine.ir.proto import MetaGraphDef

    meta = MetaGraphDef.FromString(content)
    graph = kind.from_graph_def(meta.graph_def, registry=registry)
    read_collections(graph, meta.collection_def)
    return graph
