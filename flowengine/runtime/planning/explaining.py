"""Descriptions of planned steps, as text."""

from __future__ import annotations

from flowengine.ir.graph import NodeGraph
from flowengine.passes import explain
from flowengine.passes.context import PassContext
from flowengine.passes.pipeline import prepare
from flowengine.runtime.partitioned_plan import PartitionedPlan
from flowengine.runtime.planning.placing import Placer, SessionPlacer
from flowengine.runtime.planning.plan import kernel_summary
from flowengine.runtime.planning.tiers import TieredPlan


class Explanation(str):
    """A text about a plan. Consoles and notebooks show it line by line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from flowengine.core import html

        return html.listing(self)


def explained(
    tiers: TieredPlan | PartitionedPlan, graph: NodeGraph, *, dot: bool, source: bool, form: bool
) -> Explanation:
    """Describe the nodes of a graph that remain after the passes, and the effects of the passes.

    dot      the graph in DOT instead
    source   the Python code of a hot plan instead
    form     the present form of steps instead
    """
    return Explanation(_text_of(tiers, graph, dot=dot, source=source, form=form))


def _text_of(
    tiers: TieredPlan | PartitionedPlan, graph: NodeGraph, *, dot: bool, source: bool, form: bool
) -> str:
    if isinstance(tiers, PartitionedPlan):
        return tiers.explain(dot=dot, source=source, form=form)
    if form:
        return tiers.form()
    plan = tiers.interpreted
    if source:
        tiers.compile()
        return "\n\n".join(tiers.sources()) or "nothing to compile"
    if dot:
        return explain.to_dot(plan.graph)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(kernel_summary(plan).items()))
    difference = explain.difference(graph, plan.graph)
    return f"{explain.listing(plan.graph)}\nitems: {kinds or 'none'}\n\n{difference}"


def explained_placement(graph: NodeGraph, context: PassContext, placer: Placer) -> Explanation:
    """Describe the device of each node that a step would run, and the reason."""
    prepared = prepare(graph, context)
    if isinstance(placer, SessionPlacer):
        return Explanation(placer.explain(prepared, context))
    placed = placer(prepared, context)
    return Explanation("\n".join(f"{node.name} ({node.op}): {placed[node.name]}" for node in prepared))


__all__ = ["Explanation", "explained", "explained_placement"]
