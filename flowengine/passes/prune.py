"""Prune: keep what a fetch or target needs, cut at the feeds (white paper 4.2).

    graph, feeds F, fetches and targets T  ->  the nodes reached from T against the edges, where a data
    edge that comes from a port of F is not followed

A node stays although one of its outputs is fed if another output, or the node itself, is wanted.
Control edges out of a fed placeholder move to the feed: a feed is there before the step, so they vanish.
Out of any other fed node they stay, and so does the node: feeding what an Assign returns does not undo
that something waits for the assignment. Time is linear in the nodes and edges of the graph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from flowengine.ir.graph import Graph, Node
from flowengine.passes.context import PassContext

#: What stands for a feed and does nothing else; PlaceholderWithDefault is not one: it runs.
_PLACEHOLDERS: Final = frozenset({"Placeholder", "PlaceholderV2"})


def prune(graph: Graph, context: PassContext) -> Graph:
    """The part of the graph that the request runs, in construction order, with nodes shared.

    Raises NotFoundError for a target or an input that the graph does not have.
    """
    feeds = frozenset(context.feeds)
    fed = {port.node for port in feeds}
    supplied = {name for name in fed if _is_placeholder(graph, name)}
    stack = [port.node for port in context.fetches if port not in feeds]
    stack += context.targets
    kept: set[str] = set()
    while stack:
        name = stack.pop()
        if name in kept:
            continue
        kept.add(name)
        node = graph[name]
        # Few nodes are fed: their names tell sooner than their ports.
        stack += [port.node for port in node.inputs if port.node not in fed or port not in feeds]
        if node.control_inputs:
            stack += [control for control in node.control_inputs if control not in supplied]
    if not supplied and len(kept) == len(graph):
        return graph
    return graph.rewritten(_without(node, supplied) for node in graph if node.name in kept)


def _is_placeholder(graph: Graph, name: str) -> bool:
    node = graph.nodes.get(name)
    return node is not None and node.op in _PLACEHOLDERS


def _without(node: Node, supplied: set[str]) -> Node:
    if not node.control_inputs or supplied.isdisjoint(node.control_inputs):
        return node
    return replace(node, control_inputs=tuple(c for c in node.control_inputs if c not in supplied))
