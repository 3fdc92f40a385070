"""Nodes whose shapes contradict each other, found before a step runs.

    MatMul(a: [2,3], b: [4,5])   ->   InvalidArgumentError, at planning

A constructor refuses such a node. An imported graph may contain it: TensorFlow refuses the whole graph then,
this pass only the steps that need the node. A value fed instead of a node's output has the shape that the
step gives it, so nothing is checked that follows from it.
"""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces, at_once
from flowengine.ir.graph import NodeGraph
from flowengine.ops.shape_inference import ShapeInference
from flowengine.passes.context import PassContext


def refuse_contradictions(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """Return the graph unchanged.

    Raises InvalidArgumentError that names a node which fails for any values.
    """
    return at_once(refusing_contradictions(graph, context))


def refusing_contradictions(graph: NodeGraph, context: PassContext) -> Pieces[NodeGraph]:
    """Check as `refuse_contradictions` does, in pieces."""
    whole = graph.rewritten([*context.declared, *graph])
    shapes = ShapeInference(whole)
    yield from shapes.updating()
    for name, message in shapes.faults.items():
        node = whole[name]
        raise InvalidArgumentError(message).locate(
            node_name=name,
            op_type=node.op,
            device=node.device,
            input_shapes=[str(shapes.shape(port)) for port in node.inputs],
            creation_site=node.creation_site or None,
        )
    return graph


__all__ = ["refuse_contradictions", "refusing_contradictions"]
