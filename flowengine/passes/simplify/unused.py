"""Drop gradients that nobody takes: a node that only orders others need not be computed.

    Conv2DBackpropInput "dx" -^-> group_deps      ->      NoOp "dx" -^-> group_deps

A gradient of two inputs is made as a pair with a node that waits for both, so that the gradient of a
network's first layer by its images, or of a loss by its labels, is computed at every step, often the most
expensive of all, and discarded. Such a node becomes a NoOp that waits for its former inputs, and so do nodes
that only served it. Only gradients, products and parts of gradients of losses are dropped: their siblings
find the same faults in the inputs. Time is linear in the nodes and edges of the graph.
"""

from __future__ import annotations

from flowengine.ir import make
from flowengine.ir.graph import Node, NodeGraph
from flowengine.ir.names import CONTROL_FLOW_OPS
from flowengine.ir.traits import Droppable
from flowengine.ops.load import registry
from flowengine.passes.context import PassContext


def drop_unused_gradients(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """Return the graph with NoOps instead of gradients that nobody takes; the same one if there are none."""
    nodes = graph.nodes
    suspects = {
        name for node in graph for name in node.control_inputs if name in nodes and nodes[name].has(Droppable)
    }
    if not suspects:
        return graph
    takers = dict.fromkeys((*context.targets, *(port.node for port in (*context.feeds, *context.fetches))), 1)
    for node in graph:
        for port in node.inputs:
            takers[port.node] = takers.get(port.node, 0) + 1
    feeds = frozenset(context.feeds)
    made: dict[str, Node] = {}
    waiting = [node for node in graph if node.name in suspects and node.name not in takers]
    while waiting:
        node = waiting.pop()
        sources = [port.node for port in node.inputs if port not in feeds]
        # A control edge out of control flow is alive although a data edge may be dead.
        if any(graph[name].op in CONTROL_FLOW_OPS for name in sources):
            continue
        made[node.name] = make.no_op(registry(), node, tuple(dict.fromkeys((*sources, *node.control_inputs))))
        for port in node.inputs:
            takers[port.node] -= 1
            if not takers[port.node] and graph[port.node].has(Droppable):
                waiting.append(graph[port.node])
    if not made:
        return graph
    return graph.rewritten(made.get(node.name, node) for node in graph)
