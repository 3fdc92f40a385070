"""Shapes that are known before a plan runs: ports of numbers, and certain dimensions."""

from __future__ import annotations

from collections.abc import Set

from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import CONTROL_FLOW_OPS
from flowengine.ops.shape_inference import infer_shapes
from flowengine.passes.blocks.program import Extents
from flowengine.passes.context import PassContext


def known_shapes(
    graph: NodeGraph, context: PassContext
) -> tuple[frozenset[OutputPort], dict[OutputPort, Extents]]:
    """Return (ports of numbers that are scalars for any feed, certain dimensions).

    Dimensions are certain if no variable decides them, because it may hold another shape than declared.
    """
    if any(port.node in graph for port in context.feeds):
        return frozenset(), {}  # a feed instead of a node's output may have another shape
    whole = graph.rewritten([*context.declared, *graph])
    shapes = infer_shapes(whole)
    declared = {node.name for node in context.declared}
    scalars: set[OutputPort] = set()
    extents: dict[OutputPort, Extents] = {}
    certain: set[str] = set()
    for name in shapes.order:
        node = whole[name]
        # Shapes from control flow depend on the path of a step.
        if name in declared or (node.op not in CONTROL_FLOW_OPS and _is_certain(node, certain)):
            certain.add(name)
        for slot, dtype in enumerate(node.output_types):
            dims = shapes.shape(port := OutputPort(name, slot)).dims
            if dims == () and dtype.size:
                scalars.add(port)
            if dims is not None and name in certain:
                extents[port] = dims
    return frozenset(scalars), extents


def _is_certain(node: Node, certain: Set[str]) -> bool:
    stateful = node.op_def is None or node.op_def.is_stateful
    return not stateful and all(port.node in certain for port in node.inputs)


__all__ = ["known_shapes"]
