"""Graphs whose large nodes are claimed by providers, as the hot stage does it before regions are made."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from flowengine.ir.graph import NodeGraph
from flowengine.kernels.provider import ClaimContext
from flowengine.passes.claims import claim_context
from flowengine.passes.context import HotContext, PassContext
from flowengine.passes.pipeline import hot_stages


def claimed(
    graph: NodeGraph,
    request: PassContext,
    heavy: frozenset[str],
    costs: Mapping[str, float] | None = None,
    *,
    hot: HotContext | None = None,
) -> NodeGraph:
    """The graph once every provider has claimed; `hot`, if given, is told what is known then."""
    hot = HotContext(request) if hot is None else hot
    hot.heavy, hot.costs = heavy, costs or {}
    return next(made for name, made in hot_stages(graph, hot) if name == "claims")


def asking(request: PassContext, large: Collection[str] = ()) -> ClaimContext:
    """Return the context in which one claim asks, with these nodes as the large ones."""
    context = claim_context(HotContext(request, frozenset(large)))
    assert context is not None
    return context
