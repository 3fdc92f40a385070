"""What a hot plan's large nodes are fused to before its small ones become regions: the passes in order."""

from __future__ import annotations

from typing import Final

from flowengine.ir.graph import Graph
from flowengine.passes.context import PassContext
from flowengine.passes.fuse_contraction import fuse_contractions
from flowengine.passes.fuse_elementwise import fuse_elementwise

#: The ops that these passes make: they stay items of their own, on worker threads.
_FUSED_OPS: Final = frozenset({"_FusedContraction", "_FusedElementwise"})


def fuse_large(graph: Graph, context: PassContext, heavy: frozenset[str]) -> tuple[Graph, frozenset[str]]:
    """The graph with chains of nodes that were seen to be heavy fused, and the names of those heavy now.

    The same graph if there are no such chains.
    """
    before = graph
    if context.fuse_contractions:
        # First: a chain that follows a product is computed in the product's memory.
        graph = fuse_contractions(graph, context, heavy)
    if context.fuse_elementwise:
        graph = fuse_elementwise(graph, context, heavy)
    if graph is before:
        return graph, heavy
    return graph, heavy | {node.name for node in graph if node.op in _FUSED_OPS}
