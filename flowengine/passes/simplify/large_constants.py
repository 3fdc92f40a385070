"""Constants that a step's memory limit forbids, found by their shapes before any of them is expanded.

A constant may say in a hundred bytes that it has a billion elements, all equal to the last one stored.
"""

from __future__ import annotations

from typing import Final

from flowengine.core.errors import ResourceExhaustedError
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.graph import Node, NodeGraph
from flowengine.ir.traits import Constant
from flowengine.passes.context import PassContext

#: Bytes of an element of a type without a size: a reference to a string.
_REFERENCE_BYTES: Final = 8


def refuse_large_constants(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """Return the graph unchanged.

    Raises ResourceExhaustedError that names a constant larger than all the memory that a step may hold.
    """
    limit = context.memory_bytes_max
    if limit is not None:
        for node in graph:
            size = _bytes_of(node)
            if size > limit:
                raise ResourceExhaustedError(
                    f"the constant takes {size:,} bytes, memory_limit_bytes is {limit:,}"
                ).locate(
                    node_name=node.name,
                    op_type=node.op,
                    device=node.device,
                    creation_site=node.creation_site or None,
                )
    return graph


def _bytes_of(node: Node) -> int:
    constant = node.trait(Constant)
    value = None if constant is None else node.attrs.get(constant.value)
    if not isinstance(value, TensorAttr):
        return 0
    return (value.shape.num_elements() or 0) * (value.dtype.size or _REFERENCE_BYTES)


__all__ = ["refuse_large_constants"]
