"""Late reads: the users of a variable's value follow the reference themselves.

    v --ref--> Identity --> consumer        =>        v --ref--> consumer

An Identity of a reference forwards the variable's buffer, not a copy of its contents, so a consumer that is
ordered after an update (by a control edge) sees the update. Old training graphs rely on it: the tokens of
synchronous replicas are filled with a `global_step` that was read before, and waits for, its increment. A
reference is followed when its consumer runs; so the consumers get the reference. The Identity stays for nodes
that wait for it, fetch it, or carry values through control flow; prune removes it if nobody is left. Time is
linear in nodes and edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import CONTROL_FLOW_OPS
from flowengine.ir.traits import HandsOn
from flowengine.passes.context import PassContext


def read_late(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """Return the graph with references instead of their Identities; itself if there are none."""
    feeds = frozenset(context.feeds)
    references: dict[OutputPort, OutputPort] = {}
    for node in graph:
        if node.has(HandsOn) and not node.control_inputs and not node.output_types[0].is_ref:
            port = _reference(graph, node.inputs[0], feeds)
            if port is not None and OutputPort(node.name, 0) not in feeds:
                references[OutputPort(node.name, 0)] = port
    if not references:
        return graph
    return graph.rewritten(_following(node, references) for node in graph)


def _reference(graph: NodeGraph, port: OutputPort, feeds: frozenset[OutputPort]) -> OutputPort | None:
    """Return the reference that a port forwards, if it does."""
    while port not in feeds:
        node = graph[port.node]
        types = node.output_types
        if port.slot < len(types) and types[port.slot].is_ref:
            return port
        if not node.has(HandsOn) or node.control_inputs:
            return None
        port = node.inputs[0]
    return None


def _following(node: Node, references: Mapping[OutputPort, OutputPort]) -> Node:
    if node.op_def is None or references.keys().isdisjoint(node.inputs):
        return node
    if node.op in CONTROL_FLOW_OPS or node.has(HandsOn):
        return node  # its input is shared by the others
    return replace(node, inputs=tuple(references.get(port, port) for port in node.inputs))
