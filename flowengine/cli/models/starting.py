"""Iterators and tables at the start of a run: the nodes that make and fill them, found by what they take.

    MakeIterator(dataset, iterator)       InitializeTableV2(table, keys, values)

A checkpoint of variables holds neither, so they run at every start: of a fresh run, and of one that resumes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from flowengine.core.names import parse_tensor_name
from flowengine.graphs.reading import needed_by
from flowengine.ir.graph import Node, NodeGraph
from flowengine.ir.traits import HandsOn, Starts

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


def starters_of(graph: NodeGraph, handle: str) -> list[str]:
    """The nodes that fill what a node is the handle of, in the order of the graph."""
    return [node.name for node in graph if handle in _started_by(graph, node)]


def handles_of(graph: NodeGraph, name: str) -> list[str]:
    """The nodes whose handles a node takes, past those that only hand them on; none for an unknown node."""
    node = graph.nodes.get(name)
    return [] if node is None else [_origin(graph, port.node) for port in node.inputs]


def starting(
    graph: Graph, wanted: Iterable[str], inits: Iterable[str], fed: Iterable[str], tables: Collection[str]
) -> list[str]:
    """The nodes to run at each start, so that the wanted ones find their iterators and tables.

    wanted   nodes that steps run
    inits    nodes that the user has run at the start: what they fill is left to them
    fed      tensors that have a value
    tables   the initializers of tables that a MetaGraphDef lists

    An iterator that several nodes start is left to the user, as is one whose dataset wants an input.
    """
    given = {parse_tensor_name(each)[0] for each in fed}
    reached, by_user = needed_by(graph, wanted), needed_by(graph, inits)
    listed = {name for name in needed_by(graph, tables) if graph[name].has(Starts)}
    started: dict[str, list[str]] = {}
    for node in graph:
        for handle in _started_by(graph, node):
            started.setdefault(handle, []).append(node.name)
    found = []
    for handle, starters in started.items():
        if handle not in reached or not by_user.isdisjoint(starters):
            continue
        known = [name for name in starters if name in listed]
        name = known[0] if known else starters[0]
        is_certain = bool(known) or (len(starters) == 1 and _is_iterator(graph[name]))
        needs = needed_by(graph, [name])
        if is_certain and not any(graph[each].is_placeholder and each not in given for each in needs):
            found.append(name)
    return found


def _is_iterator(node: Node) -> bool:
    """Whether a node that starts something takes a dataset for it."""
    started = node.trait(Starts)
    return started is not None and any(dtype.name == "variant" for dtype in node.input_types())


def _started_by(graph: NodeGraph, node: Node) -> Iterator[str]:
    trait = node.trait(Starts)
    if trait is None or node.op_def is None:
        return
    for arg, port in zip(node.op_def.inputs, node.inputs, strict=False):
        if arg.name in trait.names:
            yield _origin(graph, port.node)


def _origin(graph: NodeGraph, name: str) -> str:
    """The node whose value a node hands on."""
    node = graph.nodes.get(name)
    while node is not None and node.has(HandsOn) and node.inputs:
        name = node.inputs[0].node
        node = graph.nodes.get(name)
    return name


__all__ = ["handles_of", "starters_of", "starting"]
