"""The cost of planning per node, for graphs of 1,000 and of 100,000 nodes: it should be the same."""

from __future__ import annotations

import gc
from time import process_time

import flowengine as fe

#: Nodes of the small and of the large graph.
SMALL, LARGE = 1_000, 100_000
#: How much more a node of the large graph may cost: its tables do not fit into caches.
LIMIT = 1.5


def ladder(nodes: int) -> fe.Graph:
    """Ten lanes of additions and tanh, which are joined at the end."""
    g = fe.Graph()
    x = g.placeholder("float32", [4], name="x")
    ends = []
    for lane in range(10):
        y = g.ops.Add(x, float(lane))
        for _ in range(nodes // 20):
            y = g.ops.Tanh(g.ops.Add(y, x))
        ends.append(y)
    g.ops.AddN(ends, name="y")
    return g


def seconds_a_node(graph: fe.Graph) -> float:
    """Processor time of one plan for each node."""
    gc.collect()
    session = fe.Session(graph)
    started = process_time()
    session.make_callable("y:0", ["x:0"])
    return (process_time() - started) / len(graph)


def flatness(rounds: int = 3) -> tuple[float, float]:
    """(seconds a node of the large graph, of the small one), the least of some rounds."""
    large, small = ladder(LARGE), ladder(SMALL)
    seconds_a_node(small)  # imports and caches
    of_small = min(seconds_a_node(small) for _ in range(5 * rounds))
    of_large = min(seconds_a_node(large) for _ in range(rounds))
    return of_large, of_small
