"""What belongs to a graph beside its nodes: the queue runners to start and the local variables to set first.

The builders note here what they add to a graph; a MetaGraphDef brings the same in its collections.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from flowengine.ir.graph import NodeGraph

if TYPE_CHECKING:
    from flowengine.train.queue_runners import QueueRunner

#: The names of the two collections of a MetaGraphDef.
QUEUE_RUNNERS = "queue_runners"
LOCAL_VARIABLES = "local_variables"


class LocalVariable(NamedTuple):
    """A variable that no checkpoint holds, such as a count of epochs.

    initializer   the name of the node that sets it
    snapshot      the tensor that fails while it has no value
    """

    initializer: str
    snapshot: str


@dataclass(slots=True)
class Pipeline:
    """The runners and local variables of one graph, in the order in which they were added."""

    runners: list[QueueRunner] = field(default_factory=list)
    variables: list[LocalVariable] = field(default_factory=list)


_pipelines: WeakKeyDictionary[NodeGraph, Pipeline] = WeakKeyDictionary()


def pipeline_of(graph: NodeGraph) -> Pipeline:
    """What the builders have added to this graph so far."""
    return _pipelines.setdefault(graph, Pipeline())


def collections_of(source: Any) -> Any:
    """{name: CollectionDef} of a MetaGraphDef, or of a loaded one."""
    found = getattr(source, "collections", None)
    return source.collection_def if found is None else found


def entries(collections: Any, name: str) -> Iterable[bytes]:
    """The serialised messages of one collection; none where it is absent."""
    return collections[name].bytes_list.value if name in collections else ()


def local_variables_of(source: Any) -> list[LocalVariable]:
    """The local variables of a graph that builders made, or of a MetaGraphDef, message or loaded."""
    if isinstance(source, NodeGraph):
        return list(pipeline_of(source).variables)
    from flowengine.ir.proto import VariableDef

    found = []
    for data in entries(collections_of(source), LOCAL_VARIABLES):
        each = VariableDef.FromString(data)
        found.append(LocalVariable(each.initializer_name, each.snapshot_name))
    return found
