"""Prune: keep what a fetch or target needs, cut at the feeds (white paper 4.2).

    graph, feeds F, fetches and targets T  ->  the nodes reached from T against the edges, where a data
    edge that comes from a port of F is not followed

A node stays although one of its outputs is fed if another output, or the node itself, is wanted. A
control edge out of a node whose every output is fed is dropped: the feed takes the node's place and has
nothing to wait for. Time is linear in the nodes and edges kept.
"""

from __future__ import annotations

from dataclasses import replace

from flowengine.ir.graph import Graph, Node
from flowengine.passes.context import PassContext


def prune(graph: Graph, context: PassContext) -> Graph:
    """The part of the graph that the request runs, in construction order, with nodes shared."""
    feeds = frozenset(context.feeds)
    replaced = {
        port.node
        for port in feeds
        if all((port.node, slot) in feeds for slot in range(len(graph[port.node].output_types)))
    }
    stack = [port.node for port in context.fetches if port not in feeds]
    stack += context.targets
    kept: set[str] = set()
    while stack:
        name = stack.pop()
        if name in kept:
            continue
        kept.add(name)
        node = graph[name]
        stack += [port.node for port in node.inputs if port not in feeds]
        stack += [control for control in node.control_inputs if control not in replaced]
    return graph.rewritten(_without(node, replaced) for node in graph if node.name in kept)


def _without(node: Node, replaced: set[str]) -> Node:
    if replaced.isdisjoint(node.control_inputs):
        return node
    return replace(node, control_inputs=tuple(c for c in node.control_inputs if c not in replaced))
