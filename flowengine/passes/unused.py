"""Drop gradients that nobody takes: what only orders other nodes orders them without being computed.

    Conv2DBackpropInput "dx" -^-> group_deps      ->      NoOp "dx" -^-> group_deps

A gradient of two inputs is made as a pair with a node that waits for both, so that the gradient of a
network's first layer by its images is computed at every step, often the dearest of all, and thrown away.
Such a node becomes a NoOp that waits for what it had as inputs. Only gradients and products are: their
sibling finds the same faults in the inputs. Time is linear in the nodes and edges of the graph.
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
    }
)
#: A control edge out of one of these is alive where a data edge may be dead.
_CONTROL_FLOW: Final = ENTER_OPS | EXIT_OPS | MERGE_OPS | NEXT_ITERATION_OPS | SWITCH_OPS


def drop_unused_gradients(graph: Graph, context: PassContext) -> Graph:
    """The graph with NoOps in place of gradients whose value nobody takes; the same one if there is none."""
    suspects = [node for node in graph if node.op in _DROPPED]
    if not suspects:
        return graph
    wanted = {port.node for port in (*context.feeds, *context.fetches)}
    wanted.update(context.targets)
    for node in graph:
        wanted.update(port.node for port in node.inputs)
    feeds = frozenset(context.feeds)
    made: dict[str, Node] = {}
    for node in suspects:
        sources = [port.node for port in node.inputs if port not in feeds]
        if node.name in wanted or any(graph[name].op in _CONTROL_FLOW for name in sources):
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
    if not made:
        return graph
    return graph.rewritten(made.get(node.name, node) for node in graph)
