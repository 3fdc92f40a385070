"""Drop gradients that nobody takes: what only orders other nodes orders them without being computed.

    Conv2DBackpropInput "dx" -^-> group_deps      ->      NoOp "dx" -^-> group_deps

A gradient of two inputs is made as a pair with a node that waits for both, so that the gradient of a
network's first layer by its images, or of a loss by its labels, is computed at every step, often the dearest
of all, and thrown away. Such a node becomes a NoOp that waits for what it had as inputs, and so do those
that were only there for it. Only gradients, products and what gradients of losses are made of are: their
siblings find the same faults in the inputs. Time is linear in the nodes and edges of the graph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from flowengine.ir.frames import ENTER_OPS, EXIT_OPS, MERGE_OPS, NEXT_ITERATION_OPS, SWITCH_OPS
from flowengine.ir.graph import Graph, Node
from flowengine.ops.load import registry
from flowengine.passes.context import PassContext

_DROPPED: Final = frozenset(
    {
        *("Conv2DBackpropInput", "Conv2DBackpropFilter"),
        *("Conv3DBackpropInput", "Conv3DBackpropInputV2", "Conv3DBackpropFilter", "Conv3DBackpropFilterV2"),
        *("DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter"),
        *("MaxPoolGrad", "AvgPoolGrad", "LRNGrad", "MatMul", "BatchMatMul", "BatchMatMulV2"),
        *("Mul", "Neg", "LogSoftmax"),
    }
)
#: A control edge out of one of these is alive where a data edge may be dead.
_CONTROL_FLOW: Final = ENTER_OPS | EXIT_OPS | MERGE_OPS | NEXT_ITERATION_OPS | SWITCH_OPS


def drop_unused_gradients(graph: Graph, context: PassContext) -> Graph:
    """The graph with NoOps in place of gradients whose value nobody takes; the same one if there is none."""
    nodes = graph.nodes
    suspects = {
        name for node in graph for name in node.control_inputs if name in nodes and nodes[name].op in _DROPPED
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
        if any(graph[name].op in _CONTROL_FLOW for name in sources):
            continue
        made[node.name] = replace(
            node,
            op="NoOp",
            op_def=registry()["NoOp"],
            inputs=(),
            control_inputs=tuple(dict.fromkeys((*sources, *node.control_inputs))),
            attrs={},
            output_types=(),
        )
        for port in node.inputs:
            takers[port.node] -= 1
            if not takers[port.node] and graph[port.node].op in _DROPPED:
                waiting.append(graph[port.node])
    if not made:
        return graph
    return graph.rewritten(made.get(node.name, node) for node in graph)
