"""Late reads: who uses a variable's value follows the reference itself.

    v --ref--> Identity --> consumer        =>        v --ref--> consumer

An Identity of a reference hands on the variable's buffer, not a copy of what is in it, so a consumer that is
ordered after an update (by a control edge) sees the update. Old training graphs count on it: the tokens of
synchronous replicas are filled with a `global_step` that was read before, and waits for, its increment.
A reference is followed when its consumer runs; so the consumers are given the reference. The
Identity stays for those that wait for it, fetch it, or carry values through control flow; prune removes it
where nobody is left. Time is linear in nodes and edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from flowengine.ir.frames import ENTER_OPS, EXIT_OPS, MERGE_OPS, NEXT_ITERATION_OPS, SWITCH_OPS
from flowengine.ir.graph import Graph, Node, OutputPort
from flowengine.passes.context import PassContext

#: Ops that hand on their input as it is.
HANDS_ON: Final = frozenset({"Identity", "StopGradient", "PreventGradient"})
#: Consumers that hand on a value themselves: what they got is what the rest shares.
_CARRIERS: Final = ENTER_OPS | EXIT_OPS | MERGE_OPS | NEXT_ITERATION_OPS | SWITCH_OPS | HANDS_ON


def read_late(graph: Graph, context: PassContext) -> Graph:
    """The graph with references in the place of their Identities; itself if there are none."""
    feeds = frozenset(context.feeds)
    references: dict[OutputPort, OutputPort] = {}
    for node in graph:
        if node.op in HANDS_ON and not node.control_inputs:
            port = _reference(graph, node.inputs[0], feeds)
            if port is not None and OutputPort(node.name, 0) not in feeds:
                references[OutputPort(node.name, 0)] = port
    if not references:
        return graph
    return graph.rewritten(_following(node, references) for node in graph)


def _reference(graph: Graph, port: OutputPort, feeds: frozenset[OutputPort]) -> OutputPort | None:
    """The reference that a port hands on, if it does."""
    while port not in feeds:
        node = graph[port.node]
        types = node.output_types
        if port.slot < len(types) and types[port.slot].is_ref:
            return port
        if node.op not in HANDS_ON or node.control_inputs:
            return None
        port = node.inputs[0]
    return None


def _following(node: Node, references: Mapping[OutputPort, OutputPort]) -> Node:
    if node.op in _CARRIERS or node.op_def is None or references.keys().isdisjoint(node.inputs):
        return node
    return replace(node, inputs=tuple(references.get(port, port) for port in node.inputs))
