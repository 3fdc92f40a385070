"""Put one node in the place of several: who took from them, or waited for them, is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flowengine.ir.graph import Node, NodeGraph, OutputPort


def with_groups(
    graph: NodeGraph,
    made: Mapping[str, Node],
    moved: Mapping[OutputPort, OutputPort],
    name_of: Mapping[str, str],
) -> NodeGraph:
    """The graph with groups of nodes as one each, in the place of the member whose name it has.

    made      {name: the node of a group}, which has the name of a member
    moved     {port of a member: where its value is now}
    name_of   {member: the name of its group}
    """

    def changed(node: Node) -> Node:
        inputs = tuple(moved.get(port, port) for port in node.inputs)
        controls = tuple(dict.fromkeys(name_of.get(c, c) for c in node.control_inputs))
        if inputs == node.inputs and controls == node.control_inputs:
            return node
        return replace(node, inputs=inputs, control_inputs=controls)

    kept = (node for node in graph if name_of.get(node.name, node.name) == node.name)
    return graph.rewritten(changed(made.get(node.name, node)) for node in kept)
