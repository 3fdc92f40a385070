"""Claims: the nodes that the providers of a request's kernels replace, each provider asked in turn.

The nodes that stand for several then inherit known times. Each provider alone decides which parts it claims
and how it computes them: see `kernels/provider.py`.
"""

from __future__ import annotations

from flowengine.ir.graph import NodeGraph
from flowengine.kernels.provider import ClaimContext, program_of
from flowengine.kernels.providers import providers_of
from flowengine.passes.blocks.tokens import token_sets
from flowengine.passes.context import HotContext, PassContext


def claim_for_good(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """Return the graph with claims that change bits, in every tier alike."""
    return _claimed(graph, HotContext(context), keeps_bits=False)


def claim_hot(graph: NodeGraph, hot: HotContext) -> NodeGraph:
    """Return the graph with claims of nodes that proved to take long; no bit changes."""
    changed = _claimed(graph, hot, keeps_bits=True)
    if changed is not graph:
        estimate_times(changed, hot)
    return changed


def arrange(graph: NodeGraph, hot: HotContext) -> NodeGraph:
    """Return the graph in the order that suits the providers."""
    if hot.request.kernels is not None:
        for provider in providers_of(hot.request.kernels):
            if provider.arrange is not None:
                graph = provider.arrange(graph)
    return graph


def claim_context(hot: HotContext) -> ClaimContext | None:
    """Return the context of claims; None for a request without kernels, where nothing is claimed."""
    request = hot.request
    kernels = request.kernels
    if kernels is None:
        return None
    return ClaimContext(
        request.feeds,
        request.fetches,
        request.targets,
        kernels,
        lambda graph: token_sets(graph, kernels),
        hot.large,
        hot.costs,
    )


def _claimed(graph: NodeGraph, hot: HotContext, *, keeps_bits: bool) -> NodeGraph:
    context = claim_context(hot)
    if context is None:
        return graph
    for provider in providers_of(context.kernels):
        for claim in provider.claims:
            if claim.keeps_bits is keeps_bits and getattr(hot.request, claim.option):
                graph = claim.take(graph, context)
    return graph


def estimate_times(graph: NodeGraph, hot: HotContext) -> None:
    """Estimate the times of nodes that stand for several, from the times of those nodes."""
    costs = dict(hot.costs)
    heavy = set(hot.heavy)
    for node in graph:
        body = program_of(node.attrs)
        if body is not None:
            every = [hot.costs.get(name, 0.0) for name in body.names]
            # Nodes that share a pass over memory take about the time of one of them.
            costs[node.name] = max(every) if body.is_one_pass else sum(every)
            if not heavy.isdisjoint(body.names):
                heavy.add(node.name)
    hot.costs, hot.heavy = costs, frozenset(heavy)


__all__ = ["arrange", "claim_context", "claim_for_good", "claim_hot", "estimate_times"]
