"""The graph: nodes that name their inputs, append-only, shared when rewritten.

A `Node` is a value. It refers to its inputs by name, so a loop's back edge needs no mutation of other
nodes and a rewritten graph shares every node that it did not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar

from flowengine.core.dtypes import DType
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from flowengine.ir.attrs import AttrValue
from flowengine.ir.names import MERGE_OPS, NEXT_ITERATION_OPS
from flowengine.ir.opdef import OpDef
from flowengine.ir.traits import ExternalValue, Trait

T = TypeVar("T", bound=Trait)


class OutputPort(NamedTuple):
    """One output of a node, where an edge begins. Prints as `node:slot`."""

    node: str
    slot: int

    def __str__(self) -> str:
        return f"{self.node}:{self.slot}"


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a graph. `attrs` are complete (defaults applied) if the op is known.

    inputs           where each data input comes from, lists flattened, in OpDef order
    control_inputs   names of nodes that must have run before
    device           the requested device, possibly partial or empty
    op_def           None for an opaque node: its op is not known here
    output_types     one a data output; empty for an opaque node
    """

    name: str
    op: str
    inputs: tuple[OutputPort, ...] = ()
    control_inputs: tuple[str, ...] = ()
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    device: str = ""
    op_def: OpDef | None = None
    output_types: tuple[DType, ...] = ()
    #: "file:line in function" of the user code that made it, or empty.
    creation_site: str = ""
    #: What the importer keeps to write the node back unchanged (experimental debug info, ...).
    source: object = field(default=None, compare=False, repr=False)

    @property
    def is_stateful(self) -> bool:
        return self.op_def is None or self.op_def.is_stateful

    @property
    def is_placeholder(self) -> bool:
        """Whether it only stands for a value that a step feeds; one with a default value runs instead."""
        return not self.inputs and self.has(ExternalValue)

    def trait(self, kind: type[T]) -> T | None:
        """Return the trait of this class that the node's op has, or None. An opaque node has none."""
        return None if self.op_def is None else self.op_def.trait(kind, self.attrs)

    def has(self, kind: type[Trait]) -> bool:
        """Whether the node's op has a trait, independent of the attributes."""
        return self.op_def is not None and kind in self.op_def.traits

    def input_types(self) -> tuple[DType, ...]:
        """The declared type of each input; empty for an opaque node."""
        return () if self.op_def is None else self.op_def.input_types(self.attrs)


#: The version of GraphDef (`versions.producer`) that this engine writes, and as which it reads graphs.
GRAPH_VERSION: Final = 134


class NodeGraph:
    """Nodes in the order of their construction, a function library, and versions.

    `version` grows with every change, and a plan is made from `snapshot()`. The graph checks names only;
    `ir.validate` checks the rest.
    """

    def __init__(
        self, nodes: Iterable[Node] = (), *, producer: int = GRAPH_VERSION, min_consumer: int = 0
    ) -> None:
        self._nodes: dict[str, Node] = {}
        self.version = 0
        self._needed: set[str] = set()
        #: GraphDef.versions.producer of the graph as read, or ours.
        self.producer = producer
        self.min_consumer = min_consumer
        #: The function library as the importer keeps it; opaque here.
        self.library: object = None
        #: What the importer keeps to write the rest of the GraphDef back unchanged; opaque here.
        self.source: object = None
        own = self._nodes
        for node in nodes:
            if node.name in own:
                raise _taken(node)
            own[node.name] = node
        self.version = len(own)

    @property
    def nodes(self) -> Mapping[str, Node]:
        """{name: Node} in construction order. Do not modify."""
        return self._nodes

    def add(self, node: Node) -> Node:
        """Append a node; InvalidArgumentError if the name is taken.

        >>> from flowengine.ir.graph import Node, NodeGraph, OutputPort
        >>> graph = NodeGraph([Node("x", "Placeholder")])
        >>> node = graph.add(Node("y", "Identity", (OutputPort("x", 0),)))
        >>> list(graph.nodes), graph["y"] is node
        (['x', 'y'], True)
        """
        if node.name in self._nodes:
            raise _taken(node)
        self._nodes[node.name] = node
        self.version += 1
        return node

    def set_back_edge(self, merge: str, slot: int, source: OutputPort) -> Node:
        """Close a loop: make input `slot` of a Merge come from a NextIteration built after it."""
        node = self[merge]
        if node.op not in MERGE_OPS:
            raise InvalidArgumentError(f"only a Merge can have a back edge; '{merge}' is a {node.op}")
        if not 0 <= slot < len(node.inputs):
            raise InvalidArgumentError(f"Merge '{merge}' has {len(node.inputs)} inputs, no number {slot}")
        others = (*node.inputs[:slot], *node.inputs[slot + 1 :])
        if not any(is_entry(port, self._nodes) for port in others):
            raise InvalidArgumentError(
                f"Merge '{merge}' would have nothing but back edges: one input has to come from an Enter"
            )
        inputs = (*node.inputs[:slot], source, *node.inputs[slot + 1 :])
        self._nodes[merge] = node = replace(node, inputs=inputs)
        self.version += 1
        return node

    def note_needed(self, names: Iterable[str]) -> None:
        """Mark the nodes `names` as needed by a step, so that `put` can no longer replace them.

        Raises nothing: names that the graph does not have yet may be marked.

        >>> graph = NodeGraph([Node("x", "Placeholder")])
        >>> graph.note_needed(["x"])
        >>> graph.put(Node("x", "Const"))
        Traceback (most recent call last):
        flowengine.core.errors.FailedPreconditionError: 'x' cannot be replaced...
        """
        self._needed.update(names)

    def put(self, node: Node) -> Node:
        """Replace the node that has the name of this one.

        Raises NotFoundError if there is none, FailedPreconditionError if a step has needed it.

        >>> graph = NodeGraph([Node("x", "Placeholder")])
        >>> graph.put(Node("x", "Const")).op, graph.version
        ('Const', 2)
        """
        if node.name in self._needed:
            raise FailedPreconditionError(
                f"'{node.name}' cannot be replaced: a step has needed it and keeps what it planned; "
                "build another node, or change a copy of the graph"
            )
        self._nodes[self[node.name].name] = node
        self.version += 1
        return node

    def snapshot(self) -> NodeGraph:
        """Return an independent graph with the same nodes.

        >>> graph = NodeGraph([Node("x", "Placeholder")])
        >>> other = graph.snapshot()
        >>> node = graph.add(Node("y", "Placeholder"))
        >>> len(graph), len(other)
        (2, 1)
        """
        other = NodeGraph(producer=self.producer, min_consumer=self.min_consumer)
        other._nodes = dict(self._nodes)
        other.version = self.version
        other.library = self.library
        other.source = self.source
        return other

    def rewritten(self, nodes: Iterable[Node]) -> NodeGraph:
        """Return a graph of these nodes with this graph's library and versions, as a pass does.

        Raises InvalidArgumentError if two nodes have the same name.

        >>> graph = NodeGraph([Node("x", "Placeholder"), Node("unused", "Placeholder")])
        >>> list(graph.rewritten([graph["x"]]).nodes)
        ['x']
        """
        other = NodeGraph(nodes, producer=self.producer, min_consumer=self.min_consumer)
        other.library = self.library
        other.source = self.source
        return other

    def __getitem__(self, name: str) -> Node:
        """Return the node of this name; NotFoundError if there is none."""
        try:
            return self._nodes[name]
        except KeyError:
            raise NotFoundError(f"the graph has no node named '{name}'") from None

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)


def is_entry(port: OutputPort, nodes: Mapping[str, Node]) -> bool:
    """Whether an input of a Merge enters the loop: a back edge comes from a NextIteration instead."""
    return port.node not in nodes or nodes[port.node].op not in NEXT_ITERATION_OPS


def _taken(node: Node) -> InvalidArgumentError:
    return InvalidArgumentError(f"a node named '{node.name}' exists already")
