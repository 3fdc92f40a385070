"""What a hot plan's large nodes are fused to before its small ones become regions: the passes in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flowengine.ir.graph import Graph
from flowengine.passes.claims.fuse_contraction import CONVOLUTIONS, fuse_contractions
from flowengine.passes.claims.fuse_elementwise import fuse_elementwise
from flowengine.passes.claims.fuse_sequences import fuse_sequences
from flowengine.passes.claims.fuse_updates import fuse_updates
from flowengine.passes.claims.gather_updates import gather_updates
from flowengine.passes.claims.keep_maxima import keep_maxima
from flowengine.passes.claims.pools_first import pools_first
from flowengine.passes.claims.rectify_norms import rectify_norms
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.pass_over import pass_over
from flowengine.passes.simplify.relax_controls import relax_controls

#: The ops that these passes make.
_FUSED_OPS: Final = frozenset(
    {"_FusedContraction", "_FusedElementwise", "_FusedSequence", "_DescentByProduct", "_GatheredUpdates"}
)
#: Of these, those whose members are computed in one pass over memory, or along with a product.
_ONE_PASS: Final = frozenset({"_FusedContraction", "_FusedElementwise", "_DescentByProduct"})
#: What takes less is not over tensors so large that a pass over memory matters.
_LARGE_MICROSECONDS: Final = 15.0
#: A convolution may compute what follows it for nothing: less than this is no library's.
_CONVOLUTION_MICROSECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class FusedLarge:
    """A graph whose chains of large nodes are fused, and what is known of its nodes now.

    heavy   those that a worker thread should run
    costs   {node: microseconds}, of those that were measured
    """

    graph: Graph
    heavy: frozenset[str]
    costs: Mapping[str, float]


def fuse_large(
    graph: Graph, context: PassContext, heavy: frozenset[str], costs: Mapping[str, float]
) -> FusedLarge:
    """Fuse what was seen to be heavy or to take long; the same graph if there are no such chains."""
    before = graph
    large = heavy | {name for name, cost in costs.items() if cost >= _LARGE_MICROSECONDS}
    # Gradients wait for one another in groups, which would part what follows one another.
    graph = relax_controls(graph, context)
    if large:
        graph = pass_over(graph, context)
    if context.fuse_contractions:
        graph = keep_maxima(graph, context, large)
        graph = rectify_norms(graph, context)
        graph = fuse_updates(graph, context, large)
        graph = gather_updates(graph, context)
        # First: a chain that follows a product is computed in the product's memory.
        graph = fuse_contractions(graph, context, large | _convolutions(graph, costs))
    if context.fuse_elementwise:
        graph = fuse_elementwise(graph, context, large)
    return FusedLarge(graph, heavy, costs) if graph is before else _told(graph, heavy, costs)


def _convolutions(graph: Graph, costs: Mapping[str, float]) -> set[str]:
    """Those that may be worth fusing, if what follows can be computed along: few are always measured."""
    return {
        node.name
        for node in graph
        if node.op in CONVOLUTIONS and costs.get(node.name, _LARGE_MICROSECONDS) >= _CONVOLUTION_MICROSECONDS
    }


def in_sequences(large: FusedLarge, context: PassContext) -> FusedLarge:
    """What `fuse_large` gave, with large nodes that follow one another as one."""
    graph = fuse_sequences(pools_first(large.graph), context, large.heavy, large.costs)
    return large if graph is large.graph else _told(graph, large.heavy, large.costs)


def _told(graph: Graph, heavy: frozenset[str], costs: Mapping[str, float]) -> FusedLarge:
    """What is known of the nodes of a graph in which some now stand for several."""
    known = dict(costs)
    for node in graph:
        if node.op in _FUSED_OPS:
            members = node.attrs["program"].names
            every = [costs.get(name, 0.0) for name in members]
            # Those that share a pass over memory take about what one of them took.
            known[node.name] = max(every) if node.op in _ONE_PASS else sum(every)
            if not heavy.isdisjoint(members):
                heavy |= {node.name}
    return FusedLarge(graph, heavy, known)
