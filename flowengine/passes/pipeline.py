"""The passes in order: the only place that knows it. Read from top to bottom."""

from __future__ import annotations

from flowengine.ir.graph import Graph
from flowengine.passes.context import PassContext
from flowengine.passes.prune import prune


def prepare(graph: Graph, context: PassContext) -> Graph:
    """From a session's graph to what a plan is made of."""
    # Everything after this is linear in what a step runs, not in what the user's graph holds.
    return prune(graph, context)
