"""Queue runners to start and local variables to set first, which a pipeline needs beside its nodes.

Both are in the collections of the graph, where a MetaGraphDef brings them from and takes them to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.ir.graph import NodeGraph

#: The names of the two collections.
QUEUE_RUNNERS: Final = "queue_runners"
LOCAL_VARIABLES: Final = "local_variables"


class LocalVariable(NamedTuple):
    """A variable that no checkpoint holds, such as a count of epochs.

    initializer   the name of the node that sets it
    snapshot      the tensor that fails while it has no value
    """

    initializer: str
    snapshot: str


def listed(source: Any, collection: str) -> Iterable[Any]:
    """Return the items of a graph's, MetaGraphDef's or loaded one's collection: objects, or message bytes."""
    if isinstance(source, Graph):
        return source.collection(collection)
    if isinstance(source, NodeGraph):
        return ()
    held = getattr(source, "collections", None)
    held = source.collection_def if held is None else held
    found: Iterable[Any] = held[collection].bytes_list.value if collection in held else ()
    return found


def add_local_variable(
    variable: Tensor, initializer: Operation, initial_value: Tensor, snapshot: Tensor
) -> None:
    """List a variable among the local ones of its graph."""
    from flowengine.graphs.variables.variable import from_proto
    from flowengine.ir.proto import VariableDef

    definition = VariableDef(
        variable_name=variable.name,
        initializer_name=initializer.name,
        initial_value_name=initial_value.name,
        snapshot_name=snapshot.name,
        trainable=False,
    )
    graph = variable.graph
    graph.add_to_collection(LOCAL_VARIABLES, from_proto(graph, definition))


def local_variables_of(source: Any) -> list[LocalVariable]:
    """The local variables of a graph or of a MetaGraphDef, message or loaded."""
    from flowengine.ir.proto import VariableDef

    found = []
    for each in listed(source, LOCAL_VARIABLES):
        definition = VariableDef.FromString(each) if isinstance(each, bytes) else each.to_proto()
        found.append(LocalVariable(definition.initializer_name, definition.snapshot_name))
    return found
