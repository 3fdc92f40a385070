"""Seeds of random nodes: TensorFlow's rule, by which a graph's seed and a node's own become the node's two.

Without either seed, a node draws other values in each session. With one of them, the values are the same in
each session; a node without its own seed then derives one from the number of nodes before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

#: The graph's seed where only a node has one.
DEFAULT_GRAPH_SEED: Final = 87654321
_LARGEST: Final = 2**31 - 1


def seeds_for(graph: Graph, seed: int | None = None) -> tuple[int, int]:
    """The attributes `seed` and `seed2` of the next random node, which is given this seed or none."""
    if graph.seed is None:
        if seed is None:
            return 0, 0
        first, second = DEFAULT_GRAPH_SEED, seed
    else:
        first, second = graph.seed, len(graph) if seed is None else seed
    first, second = first % _LARGEST, second % _LARGEST
    # Both zero would mean no seed at all.
    return (0, _LARGEST) if (first, second) == (0, 0) else (first, second)
