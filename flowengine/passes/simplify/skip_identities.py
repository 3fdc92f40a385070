"""Skip Identities: their consumers use the input of the Identity instead.

    Conv2D -> Identity -> Add -> Identity -> Conv2D  ->  Conv2D -> Add -> Conv2D

Models use Identities to name the ends of their blocks. Such a node takes little time itself, but the nodes on
its two sides cannot be fused. An Identity that reads a reference stays, because it reads at its own time. So
does one that waits for other nodes, for which another node waits, or that is fetched or fed. Linear time.
"""

from __future__ import annotations

from dataclasses import replace

from flowengine.core.dtypes import resource
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import LOOP_COND
from flowengine.ir.traits import HandsOn
from flowengine.passes.context import PassContext


def skip_identities(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """Return the graph without Identities; the same graph if it has none that can go."""
    nodes = graph.nodes
    kept = {port.node for port in (*context.fetches, *context.feeds)} | set(context.targets)
    kept.update(name for node in graph for name in node.control_inputs)
    given: dict[OutputPort, OutputPort] = {}
    for node in graph:
        if node.has(HandsOn) and node.name not in kept and _hands_on_a_value(node, graph):
            port = node.inputs[0]
            given[OutputPort(node.name, 0)] = given.get(port, port)
    if not given:
        return graph
    dropped = {port.node for port in given}

    def origin(port: OutputPort) -> OutputPort:
        while port in given:
            port = given[port]
        return port

    def changed(node: Node) -> Node:
        if given.keys().isdisjoint(node.inputs):
            return node
        return replace(node, inputs=tuple(map(origin, node.inputs)))

    return graph.rewritten(changed(node) for name, node in nodes.items() if name not in dropped)


def _hands_on_a_value(node: Node, graph: NodeGraph) -> bool:
    """Return whether its input exists when it runs, on its device, and it waits for nothing else."""
    port = node.inputs[0]
    source = graph.nodes.get(port.node)
    if source is None or node.control_inputs or source.device != node.device or node.op == LOOP_COND:
        return False
    types = source.output_types
    if port.slot >= len(types) or node.output_types[0].is_ref:
        return False
    return not types[port.slot].is_ref and types[port.slot].base is not resource


__all__ = ["skip_identities"]
