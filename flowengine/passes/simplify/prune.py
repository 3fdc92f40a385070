"""Prune: keep the nodes that a fetch or target needs, cut at the feeds (white paper 4.2).

    graph, feeds F, fetches and targets T  ->  the nodes reached from T against the edges, where a data
    edge that comes from a port of F is not followed

A node stays although one of its outputs is fed if another output, or the node itself, is needed. Control
edges out of a fed placeholder vanish, because a feed exists before the step. Out of any other fed node they
stay, and so does the node: feeding the result of an Assign does not cancel that nodes wait for the
assignment. Time is linear in the nodes and edges of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from flowengine.ir.graph import Node, NodeGraph
from flowengine.passes.context import PassContext


def prune(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """Return the part of the graph that the request runs, in construction order, with nodes shared.

    Raises NotFoundError for a target or an input that the graph lacks.
    """
    feeds = frozenset(context.feeds)
    fed = {port.node for port in feeds}
    supplied = {name for name in fed if _is_placeholder(graph, name)}
    wanted = {port.node for port in context.fetches if port not in feeds}
    wanted.update(context.targets)

    def before(node: Node) -> Iterator[str]:
        for port in node.inputs:
            # Few nodes are fed, so their names answer faster than their ports.
            if port.node not in fed or port not in feeds:
                yield port.node
        for control in node.control_inputs:
            if control not in supplied:
                yield control

    kept = _backwards(graph, wanted, before) or _walked(graph, wanted, before)
    if not supplied:
        if len(kept) == len(graph):
            return graph
        return graph.rewritten([node for node in graph if node.name in kept])
    return graph.rewritten([_without(node, supplied) for node in graph if node.name in kept])


def _backwards(
    graph: NodeGraph, wanted: set[str], before: Callable[[Node], Iterable[str]]
) -> set[str] | None:
    """Return the needed nodes and all before them, if each was constructed after its sources; else None.

    One look at each node, in the order in which they lie in memory.
    """
    kept = set(wanted)
    found = 0
    for node in reversed(list(graph)):
        if node.name in kept:
            found += 1
            kept.update(before(node))
    return kept if found == len(kept) else None


def _walked(graph: NodeGraph, wanted: Iterable[str], before: Callable[[Node], Iterable[str]]) -> set[str]:
    """Return the same for any order. Raises NotFoundError for nodes that the graph lacks."""
    stack = list(wanted)
    kept: set[str] = set()
    while stack:
        name = stack.pop()
        if name not in kept:
            kept.add(name)
            stack += before(graph[name])
    return kept


def _is_placeholder(graph: NodeGraph, name: str) -> bool:
    node = graph.nodes.get(name)
    return node is not None and node.is_placeholder


def _without(node: Node, supplied: set[str]) -> Node:
    if not node.control_inputs or supplied.isdisjoint(node.control_inputs):
        return node
    return replace(node, control_inputs=tuple(c for c in node.control_inputs if c not in supplied))
