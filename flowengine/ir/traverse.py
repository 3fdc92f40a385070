"""Walks over a graph: topological order, reachability, cycles. All are linear and none recurses.

Only the back edges of loops, from a NextIteration into a Merge, may close a cycle; every walk here cuts
them. Edges to nodes that do not exist are passed over, so that the walks serve graphs that are being
checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from flowengine.ir.graph import Node
from flowengine.ir.names import MERGE_OPS, NEXT_ITERATION_OPS


def sources(node: Node) -> Iterator[str]:
    """The names of the nodes that this one depends on, with repetitions, control inputs last."""
    for port in node.inputs:
        yield port.node
    yield from node.control_inputs


def forward_sources(node: Node, nodes: Mapping[str, Node]) -> list[str]:
    """As `sources`, without back edges and without names that are not in the graph."""
    found = [port.node for port in node.inputs if port.node in nodes]
    if node.op in MERGE_OPS:
        found = [name for name in found if nodes[name].op not in NEXT_ITERATION_OPS]
    if node.control_inputs:
        found.extend(name for name in node.control_inputs if name in nodes)
    return found


def topological_order(nodes: Mapping[str, Node]) -> list[str]:
    """Names so ordered that each comes after what it depends on; the same for the same graph.

    Nodes on a cycle that is no loop, and all behind one, are left out.
    """
    if _is_ordered(nodes):
        return list(nodes)
    waiting: dict[str, int] = {}
    consumers: dict[str, list[str]] = {}
    order: list[str] = []
    for name, node in nodes.items():
        before = forward_sources(node, nodes)
        if before:
            waiting[name] = len(before)
            for source in before:
                consumers.setdefault(source, []).append(name)
        else:
            order.append(name)
    for name in order:  # grows while it is walked
        for consumer in consumers.get(name, ()):
            left = waiting[consumer] - 1
            if left:
                waiting[consumer] = left
            else:
                del waiting[consumer]
                order.append(consumer)
    return order


def _is_ordered(nodes: Mapping[str, Node]) -> bool:
    """Whether the order of construction will do, as it does for nearly every graph that a client wrote."""
    seen: set[str] = set()
    for name, node in nodes.items():
        for port in node.inputs:
            source = port.node
            if source not in seen and source in nodes and not _is_back_edge(node, nodes[source]):
                return False
        for source in node.control_inputs:
            if source not in seen and source in nodes:
                return False
        seen.add(name)
    return True


def _is_back_edge(node: Node, source: Node) -> bool:
    return node.op in MERGE_OPS and source.op in NEXT_ITERATION_OPS


def reachable(
    nodes: Mapping[str, Node], roots: Iterable[str], before: Callable[[Node], Iterable[str]] = sources
) -> set[str]:
    """The roots and all that they depend on, over back edges too; unknown names are passed over."""
    found: set[str] = set()
    stack = [name for name in roots if name in nodes]
    while stack:
        name = stack.pop()
        if name in found:
            continue
        found.add(name)
        stack.extend(s for s in before(nodes[name]) if s not in found and s in nodes)
    return found


def cycles(nodes: Mapping[str, Node]) -> list[list[str]]:
    """Each knot of nodes that depend on one another, back edges of loops apart, as one of its cycles.

    A knot is a strongly connected component (Tarjan's algorithm, on an explicit stack); of it one cycle
    is given, in the direction of the data.
    """
    ordered = set(topological_order(nodes))
    if len(ordered) == len(nodes):
        return []
    rest = {name: node for name, node in nodes.items() if name not in ordered}
    edges = {name: forward_sources(node, rest) for name, node in rest.items()}
    return [_one_cycle(knot, edges) for knot in _knots(edges)]


def _knots(edges: Mapping[str, list[str]]) -> Iterator[set[str]]:
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    work: list[tuple[str, Iterator[str]]] = []

    def enter(name: str) -> None:
        index[name] = low[name] = len(index)
        path.append(name)
        on_path.add(name)
        work.append((name, iter(edges[name])))

    for root in edges:
        if root not in index:
            enter(root)
        while work:
            name, following = work[-1]
            for source in following:
                if source not in index:
                    enter(source)
                    break
                if source in on_path:
                    low[name] = min(low[name], index[source])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[name])
                if low[name] == index[name]:
                    knot: set[str] = set()
                    while name not in knot:
                        knot.add(path.pop())
                    on_path.difference_update(knot)
                    if len(knot) > 1 or name in edges[name]:
                        yield knot


def _one_cycle(knot: set[str], edges: Mapping[str, list[str]]) -> list[str]:
    """Walk against the data from any node of the knot until one comes twice."""
    name = min(knot)
    seen: dict[str, int] = {}
    walked: list[str] = []
    while name not in seen:
        seen[name] = len(walked)
        walked.append(name)
        name = next(source for source in edges[name] if source in knot)
    cycle = walked[seen[name] :]
    cycle.reverse()
    start = cycle.index(min(cycle))
    return [*cycle[start:], *cycle[: start + 1]]
