"""Which nodes lie between the xs and the ys: those through which a gradient goes.

An edge counts if its tensor can have a gradient: a floating or complex one, and handles and variants, behind
which there may be such; a list that the graph shows to hold whole numbers does not. What is pushed on a stack
reaches what is popped from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.gradients.registry import find
from flowengine.graphs.graph import Graph
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import ENTER_OPS, EXIT_OPS, MERGE_OPS, NEXT_ITERATION_OPS, SWITCH_OPS, WHILE_OPS
from flowengine.ir.traits import NotDifferentiable

_OF_HANDLES: Final = frozenset({dtypes.resource, dtypes.variant})
#: Ops that hand on a list: of their first input, or (the second set) of that at the place of the output.
_PASS_LIST: Final = frozenset(
    {"Identity", "AddN", "ZerosLike", *ENTER_OPS, *EXIT_OPS, *MERGE_OPS, *NEXT_ITERATION_OPS, *SWITCH_OPS}
)
_PASS_LISTS: Final = frozenset({"IdentityN", *WHILE_OPS})
#: Ops of one call follow this way against the edges: {pop: the ports that were pushed}
StackEdges = Mapping[str, tuple[OutputPort, ...]]


def can_have_gradient(dtype: DType) -> bool:
    """Whether a tensor of this type can have a gradient, or refers to something that can."""
    base = dtype.base
    return base.is_floating or base.is_complex or base in _OF_HANDLES


def element_type(graph: Graph, port: OutputPort) -> DType | None:
    """The type of what is in a list of tensors, if the graph leads to an op that says so."""
    seen: set[OutputPort] = set()
    while port not in seen:
        seen.add(port)
        node = graph.nodes[port.node]
        found = node.attrs.get("element_dtype")
        if isinstance(found, DType):
            return found
        if node.op in _PASS_LISTS and port.slot < len(node.inputs):
            port = node.inputs[port.slot]
        elif node.op in _PASS_LIST and node.inputs:
            port = node.inputs[0]
    return None


class Reach:
    """The ports that depend on the xs, and the nodes of those among them on which the ys depend.

    reached   ports that depend on an x, the xs themselves too
    nodes     {name: the ports among its inputs (and what was pushed, of a pop) that are reached}, of every
              node that a y depends on and that has a reached output; `leaves` are taken for nodes
              without inputs
    """

    def __init__(
        self,
        graph: Graph,
        ys: Iterable[OutputPort],
        xs: Iterable[OutputPort],
        stops: Collection[OutputPort],
        stacks: StackEdges,
        leaves: Collection[str] = (),
    ) -> None:
        self.graph = graph
        self.stops = stops
        self._stacks = stacks
        self._leaves = leaves
        consumers = self._ancestors(ys)
        self.reached: set[OutputPort] = set()
        self.nodes: dict[str, list[OutputPort]] = {}
        self._spread(xs, consumers)

    def sources(self, node: Node) -> tuple[OutputPort, ...]:
        """Return the ports that the gradients of a node's outputs go to: its inputs, and pushed values."""
        if node.name in self._leaves:
            return ()
        pushed = self._stacks.get(node.name)
        return node.inputs if pushed is None else node.inputs + pushed

    def _ancestors(self, ys: Iterable[OutputPort]) -> dict[OutputPort, list[Node]]:
        """{port: the nodes that take it}, of all that the ys depend on through such edges."""
        nodes = self.graph.nodes
        consumers: dict[OutputPort, list[Node]] = {}
        types: dict[DType, bool] = {}
        waiting = [port.node for port in ys]
        seen = set(waiting)
        while waiting:
            node = nodes[waiting.pop()]
            for port in self.sources(node):
                source = nodes[port.node]
                output_types = source.output_types
                if port.slot >= len(output_types):
                    continue
                dtype = output_types[port.slot]
                counts = types.get(dtype)
                if counts is None:
                    counts = types[dtype] = can_have_gradient(dtype)
                if not counts or (dtype is dtypes.variant and self._holds_no_gradient(port)):
                    continue
                takers = consumers.get(port)
                if takers is None:
                    consumers[port] = [node]
                else:
                    takers.append(node)
                if port.node not in seen:
                    seen.add(port.node)
                    waiting.append(port.node)
        for port in ys:
            consumers.setdefault(port, [])
        return consumers

    def _holds_no_gradient(self, port: OutputPort) -> bool:
        found = element_type(self.graph, port)
        return found is not None and not can_have_gradient(found)

    def _spread(self, xs: Iterable[OutputPort], consumers: Mapping[OutputPort, list[Node]]) -> None:
        """Go from the xs along the edges that lead to a y."""
        waiting = list(dict.fromkeys(port for port in xs))
        reached = self.reached
        reached.update(waiting)
        for port in waiting:
            if port in consumers:
                self.nodes.setdefault(port.node, [])
        while waiting:
            port = waiting.pop()
            for node in dict.fromkeys(node.name for node in consumers.get(port, ())):
                found = self.nodes.get(node)
                if found is None:
                    found = self.nodes[node] = []
                if not found:
                    for slot in range(len(self.graph.nodes[node].output_types)):
                        output = OutputPort(node, slot)
                        if output not in reached and output in consumers and output not in self.stops:
                            reached.add(output)
                            waiting.append(output)
                found.append(port)


def has_no_gradient(node: Node) -> bool:
    """Whether an op is known to have no derivative, and nobody has said otherwise."""
    return node.has(NotDifferentiable) and "_gradient_op_type" not in node.attrs and find(node.op) is None


def path(reach: Reach, start: str, is_end: Callable[[str], bool]) -> list[str]:
    """A shortest way against the edges from a node to one that `is_end` names: the names of its nodes."""
    ways: dict[str, str] = {start: ""}
    waiting = [start]
    for name in waiting:
        if is_end(name):
            way = [name]
            while ways[way[-1]]:
                way.append(ways[way[-1]])
            return way[::-1]
        for port in reach.nodes.get(name, ()):
            if port.node not in ways:
                ways[port.node] = name
                waiting.append(port.node)
    return [start]
