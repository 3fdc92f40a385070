"""Relax controls: pure nodes wait for no more than they need, and effects keep their order.

    dw, dx -> NoOp ^-> Identity(dw) -> update(w)         =>         dw, ^dx -> update(w)
                   ^-> Identity(dx) -> layer before      =>         dx -> layer before

TensorFlow's gradients group their results by such nodes, so that no variable changes while others still read
it: four nodes for each layer, and each of them separates layers that could run as one.

Nodes with effects, and those that read a reference when they run, are the graph's *events*; the order between
events matters to nobody. For each node the set of events before it stays the same: a control edge is dropped
if the events before its source come before the node anyway, a NoOp that only gathers is looked through, and
an Identity that waits for nothing any more is skipped. An edge is dropped only if its source runs in any
case, has consumers and cannot be dead; a node that exists to stop a step (CheckNumerics) is an event. A node
may be marked to keep its edges: a copy that is computed late to save memory. (Dependency pruning of this kind
is described for TensorFlow's graph optimizer.)

Sets are bits of an integer: time is linear in edges, times events by 64.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.marks import KEEPS_CONTROLS
from flowengine.ir.traits import Checks, HandsOn, Orders
from flowengine.ir.traverse import topological_order
from flowengine.passes.blocks.tokens import PASSES, role_of, token_sets
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.purity import Purity

#: The number of edges that may replace one from a NoOp.
_EDGES_MORE: Final = 3
#: Bits of all sets together from which they are not worth their memory.
_BITS_MAX: Final = 1 << 28


def relax_controls(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """Return the graph without control edges that order no events; the same graph if there are none."""
    if context.kernels is None or not any(_gathers(node) for node in graph):
        return graph
    return _RelaxedControls(graph, context).run()


def _gathers(node: Node) -> bool:
    """Return whether it does nothing but wait, for others to wait for it."""
    return bool(node.control_inputs) and node.has(Orders)


class _RelaxedControls:
    def __init__(self, graph: NodeGraph, context: PassContext) -> None:
        self._graph = graph
        self._nodes = graph.nodes
        self._order = topological_order(graph.nodes)
        self._kept = {port.node for port in (*context.fetches, *context.feeds)} | set(context.targets)
        assert context.kernels is not None
        pure = Purity(context.kernels)
        reads = self._readers()
        #: {node: its consumers}
        self._takers: dict[str, set[str]] = {}
        waited_for: set[str] = set()
        for node in graph:
            for port in node.inputs:
                self._takers.setdefault(port.node, set()).add(node.name)
            waited_for.update(node.control_inputs)
        self._waited_for = waited_for
        waits = token_sets(graph, context.kernels)
        number = 0
        #: {node: its bit}, of events
        self._bits: dict[str, int] = {}
        #: Nodes from which an edge may be dropped.
        self._runs_anyhow: set[str] = set()
        #: Nodes that cannot be dead.
        self._certain: set[str] = set()
        for name in self._order:
            node = self._nodes[name]
            is_event = name in self._kept or name in reads or node.has(Checks) or not pure(node)
            if is_event and not _gathers(node):
                self._bits[name] = 1 << number
                number += 1
            # Feeds are not in the graph, but their values exist.
            if not waits[name] and role_of(node, context.kernels) == PASSES:
                self._certain.add(name)
                if name in self._takers:
                    self._runs_anyhow.add(name)
        self._is_small = number * len(self._order) <= _BITS_MAX
        #: {node: the events before it, itself among them}
        self._before: dict[str, int] = {}
        #: {port: the port that is read instead}
        self._moved: dict[OutputPort, OutputPort] = {}
        #: {moved port: the node that its consumers wait for instead}
        self._waits: dict[OutputPort, tuple[str, ...]] = {}

    def _readers(self) -> set[str]:
        """Return the nodes that read a variable when they run, directly or through forwarding nodes."""
        aliases: set[OutputPort] = set()
        found: set[str] = set()
        for name in self._order:
            node = self._nodes[name]
            types = node.output_types
            aliases.update(OutputPort(name, slot) for slot, dtype in enumerate(types) if dtype.is_ref)
            if not aliases.isdisjoint(node.inputs):
                found.add(name)
                if node.has(HandsOn):
                    aliases.add(OutputPort(name, 0))
        return found

    def run(self) -> NodeGraph:
        if len(self._order) != len(self._nodes) or not self._is_small:
            return self._graph
        made: dict[str, Node] = {}
        for name in self._order:
            node = self._relaxed(self._nodes[name])
            made[name] = node
            if node.has(HandsOn) and self._can_be_passed(node):
                port = OutputPort(name, 0)
                self._moved[port] = node.inputs[0]
                self._waits[port] = node.control_inputs
        if all(made[name] is self._nodes[name] for name in self._order):
            return self._graph
        # Drop nodes that only gathered or forwarded, and have no consumers left: the others run for their
        # effects.
        passed = {port.node for port in self._moved}
        used: set[str] = set()
        for name in reversed(self._order):
            node = made[name]
            gathered = _gathers(node) and name in self._waited_for and name not in self._kept
            if name not in used and (gathered or name in passed):
                del made[name]
                continue
            used.update(port.node for port in node.inputs)
            used.update(node.control_inputs)
        return self._graph.rewritten(made[node.name] for node in self._graph if node.name in made)

    def _relaxed(self, node: Node) -> Node:
        """Return the node with the inputs and control edges that it needs; record the events before it."""
        inputs = tuple(self._moved.get(port, port) for port in node.inputs)
        before = self._all_before(port.node for port in inputs)
        controls = node.control_inputs
        for port in node.inputs:
            controls += self._waits.get(port, ())
        if KEEPS_CONTROLS in node.attrs:
            pass  # it frees memory, and is not an event
        elif controls and node.name in self._certain and node.name not in self._kept and not _gathers(node):
            controls = self._needed(controls, inputs, before)
        before |= self._all_before(controls) | self._bits.get(node.name, 0)
        self._before[node.name] = before
        if inputs == node.inputs and controls == node.control_inputs:
            return node
        return replace(node, inputs=inputs, control_inputs=controls)

    def _all_before(self, names: Iterable[str]) -> int:
        before = 0
        for name in names:
            # Around a loop: the events behind are unknown, so nothing is dropped.
            before |= self._before.get(name, 0)
        return before

    def _needed(
        self, controls: tuple[str, ...], inputs: tuple[OutputPort, ...], before: int
    ) -> tuple[str, ...]:
        """Return the control edges that order events, through NoOps of which not all inputs are needed."""
        given = {port.node for port in inputs}
        droppable: list[str] = []
        needed: list[str] = []
        for name in controls:
            leaves = self._leaves(name)
            loose = [leaf for leaf in leaves if leaf in self._runs_anyhow or leaf in given]
            if not loose:
                needed.append(name)
                continue
            droppable.extend(loose)
            needed.extend(leaf for leaf in leaves if leaf not in loose)
        before |= self._all_before(needed)
        # The source with most events first: it may cover all others.
        for name in sorted(dict.fromkeys(droppable), key=lambda n: -self._before[n].bit_count()):
            if self._before[name] & ~before:
                needed.append(name)
                before |= self._before[name]
        needed = [name for name in dict.fromkeys(needed) if name not in given]
        return tuple(needed) if len(needed) <= len(controls) + _EDGES_MORE else controls

    def _leaves(self, name: str) -> list[str]:
        """Return the nodes that a NoOp gathers, also through other NoOps; for any other node, itself."""
        found: dict[str, None] = {}
        stack, seen = [name], {name}
        while stack:
            node = self._nodes[stack.pop()]
            if not _gathers(node) or node.name in self._kept:
                found[node.name] = None
                continue
            stack.extend(c for c in node.control_inputs if c not in seen)
            seen.update(node.control_inputs)
        return list(found)

    def _can_be_passed(self, node: Node) -> bool:
        """Return whether its consumers can read its input, and wait for its sources if they have effects."""
        name = node.name
        if name in self._bits or name not in self._runs_anyhow or KEEPS_CONTROLS in node.attrs:
            return False
        source = self._nodes.get(node.inputs[0].node)
        if source is not None and source.device != node.device:
            return False
        return not node.control_inputs or (
            name not in self._waited_for and self._takers[name] <= self._bits.keys()
        )


__all__ = ["relax_controls"]
