"""What a step would run, as text."""

from __future__ import annotations

from flowengine.ir.graph import NodeGraph
from flowengine.passes import explain
from flowengine.runtime.partitions import PartitionedPlan
from flowengine.runtime.planning.plan import kernel_summary
from flowengine.runtime.planning.tiers import TieredPlan


def explained(
    tiers: TieredPlan | PartitionedPlan, graph: NodeGraph, *, dot: bool, source: bool, form: bool
) -> str:
    """The nodes that are left of a graph after the passes, and what these did to it.

    dot      the graph in DOT instead
    source   the Python that a hot plan is turned into instead
    form     what steps run as of now instead
    """
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


__all__ = ["explained"]
