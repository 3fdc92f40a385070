"""The sources that each node waits for: the one analysis for running several nodes as one.

Nodes that run as one wait for all sources of each of them, and are dead when one of them is. So they must
wait for the same *token sources*, which are the values that may come late, never, or dead.

    Recv -> a -> b,  c -> b        a and b may run as one, c and b may not: c would wait for the Recv

Each vertex has a role in this. A synchronous node *passes on* the sources that it waits for. A node that may
be late *adds* itself: a waiting kernel, a Recv, a function call, an Enter or a NextIteration. A Switch
*splits*: each of its outputs is a source of its own, because only one of them is live. A Merge, an Exit or a
ControlTrigger *restarts* the set, which then has itself alone, because it may be live although its inputs are
not.

If every vertex outside of groups adds itself, splits or restarts, then the groups of members with equal sets
are

* convex: no path leaves a group and returns to it. The last vertex on such a path that is not a member would
be a
  source of the group's last member, so of the first one too, which comes before it;
* wholly live or wholly dead, and ready at the same moment, so that waiting for all inputs of a group delays
none of
  its members and cannot deadlock.

A caller with other vertices that pass sources on has to ensure convexity itself: `fuse_sequences` numbers
nodes. Sets are bits of an integer, so equal sets are equal numbers. Linear in edges, times sources by 64.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import (
    CONTROL_TRIGGER,
    ENTER_OPS,
    EXIT_OPS,
    MERGE_OPS,
    NEXT_ITERATION_OPS,
    RECEIVE_OPS,
    SWITCH_OPS,
)
from flowengine.ir.traits import Constant
from flowengine.ir.traverse import topological_order
from flowengine.kernels.registry import KernelRegistry

#: The effect of a vertex on the sources that it waits for: see above.
PASSES, ADDS, SPLITS, RESTARTS = range(4)

_RESTARTING: Final = MERGE_OPS | EXIT_OPS | {CONTROL_TRIGGER}
_ADDING: Final = ENTER_OPS | NEXT_ITERATION_OPS | RECEIVE_OPS

Vertex = TypeVar("Vertex", bound=Hashable)


class TokenSets(Generic[Vertex]):
    """The sources that vertices wait for, each of which is added after those before it."""

    __slots__ = ("_behind", "_bits", "_known")

    def __init__(self) -> None:
        #: Each set once.
        self._known: dict[int, int] = {}
        self._bits: dict[Hashable, int] = {}
        #: {vertex, or one side of it: the sources that its consumers wait for}
        self._behind: dict[Vertex, int] = {}

    def source(self, key: Hashable) -> int:
        """Return the set of one source alone."""
        bit = self._bits.get(key)
        if bit is None:
            bit = self._bits[key] = 1 << len(self._bits)
        return bit

    def behind(self, vertex: Vertex) -> int | None:
        """Return the token set that a vertex's consumers wait for; None for a vertex not added."""
        return self._behind.get(vertex)

    def add(self, vertex: Vertex, waits: int, role: int, sides: Iterable[Vertex] = ()) -> None:
        """Add a vertex, with the sources that it waits for and its role.

        sides   of one that splits: consumers of an output ask `behind` for its side instead
        """
        if role == ADDS:
            waits |= self.source(vertex)
        elif role == RESTARTS:
            waits = self.source(vertex)
        elif role == SPLITS:
            waits |= self.source(vertex)
            for side in sides:
                self._behind[side] = waits | self.source(side)
        self._behind[vertex] = self._known.setdefault(waits, waits)


def joined(one: int, other: int) -> int:
    """Return the union of both sets. Graphs have few different sets and many nodes, so unions are cached."""
    if not one or one is other:
        return other
    return one | other if other else one


def role_of(node: Node, kernels: KernelRegistry) -> int:
    """Return the role of a node that runs by itself."""
    if node.op in SWITCH_OPS:
        return SPLITS
    if node.op in _RESTARTING:
        return RESTARTS
    if node.op in _ADDING or node.op_def is None:
        return ADDS
    if node.has(Constant):
        return PASSES  # on a device nothing computes it: its value is copied there with the plan
    offers = kernels.candidates(node.op)
    return ADDS if not offers or any(kernel.is_async for kernel in offers) else PASSES


def sides_of(node: Node) -> tuple[OutputPort, ...]:
    """Return the outputs of a node that splits."""
    return tuple(OutputPort(node.name, slot) for slot in range(len(node.output_types)))


def token_sets(graph: NodeGraph, kernels: KernelRegistry) -> dict[str, int]:
    """Return {node: the sources that it waits for, as a number}, in topological order without back edges.

    Every node counts as running by itself; synchronous ones pass their sources on.
    """
    nodes = graph.nodes
    sets: TokenSets[str | OutputPort] = TokenSets()
    found: dict[str, int] = {}
    for name in topological_order(nodes):
        node = nodes[name]
        waits = 0
        for port in node.inputs:
            # Values of a loop's back edges, and feeds, have not been added.
            side = sets.behind(port)
            waits = joined(waits, (sets.behind(port.node) or 0) if side is None else side)
        for control in node.control_inputs:
            waits = joined(waits, sets.behind(control) or 0)
        found[name] = waits
        role = role_of(node, kernels)
        sets.add(name, waits, role, sides_of(node) if role == SPLITS else ())
    return found


__all__ = ["ADDS", "PASSES", "RESTARTS", "SPLITS", "TokenSets", "joined", "role_of", "sides_of", "token_sets"]
