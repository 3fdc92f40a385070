"""The recurrences of a loop: nodes on a path from themselves to themselves.

A value that comes around once an iteration pays every transfer on its way once an iteration, one after
another; so placement keeps its path on one device. The rest of a loop, which feeds a recurrence or uses its
values, runs ahead or behind on any device. Strongly connected components by Tarjan's algorithm, without
recursion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flowengine.ir.graph import NodeGraph
from flowengine.ir.names import NEXT_ITERATION_OPS
from flowengine.ir.traverse import sources


def recurrences(graph: NodeGraph) -> Iterator[Sequence[str]]:
    """Return the names of the nodes of each recurrence, with back edges of loops.

    Linear in nodes and edges.
    """
    roots = [node.name for node in graph if node.op in NEXT_ITERATION_OPS]
    if not roots:
        return
    nodes = graph.nodes
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for root in roots:
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = []
        _enter(root, index, low, path, on_path)
        work.append((root, iter(sources(nodes[root]))))
        while work:
            name, before = work[-1]
            for source in before:
                if source not in nodes:
                    continue
                if source not in index:
                    _enter(source, index, low, path, on_path)
                    work.append((source, iter(sources(nodes[source]))))
                    break
                if source in on_path:
                    low[name] = min(low[name], index[source])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[name])
                if low[name] == index[name]:
                    found = [path.pop()]
                    while found[-1] != name:
                        found.append(path.pop())
                    on_path.difference_update(found)
                    if len(found) > 1:
                        yield found


def _enter(name: str, index: dict[str, int], low: dict[str, int], path: list[str], on_path: set[str]) -> None:
    index[name] = low[name] = len(index)
    path.append(name)
    on_path.add(name)
