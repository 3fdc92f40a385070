"""Delay each Recv until its tensor is used soon (white paper 5.2).

    n -> m -> c <- Recv          ->          n -> m -> c <- Recv, and n -control-> Recv

A Recv without inputs would run at the beginning of its partition and hold a tensor in the device's memory
that is used at the end. So it gets a control edge from a node of its own device and frame that all its
consumers wait for in any case: the latest one that leaves a little time for the transfer.

Every consumer of the tensor waits for that node anyway, so nothing starts later because of it and nothing new
can wait for itself: the order of the uncut graph stays possible. A Merge does not wait for all its inputs, so
a Recv that feeds one, or the control loop of its frame, stays unchanged. Linear time: each look back is
bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Final

from flowengine.ir import traverse
from flowengine.ir.frames import FramePath, assign_frames, output_frame
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import MERGE_OPS, RECEIVE_OPS, TRANSFER_OPS
from flowengine.ir.traits import HandsOn
from flowengine.passes.context import PassContext
from flowengine.passes.cut.partition import PartitionedGraph

#: Levels between the awaited node and the consumer, which run during the transfer.
SLACK: Final = 1
#: The number of ancestors of a consumer that are examined.
_LOOK_BACK: Final = 256


def schedule_receives(cut: PartitionedGraph, context: PassContext) -> PartitionedGraph:
    """Return the same partitions, with control edges to their Recvs."""
    parts = [
        replace(part, graph=_scheduled(part.graph, [context.feeds[index] for index in part.feeds]))
        for part in cut.partitions
    ]
    return replace(cut, partitions=tuple(parts))


def _scheduled(graph: NodeGraph, feeds: Sequence[OutputPort]) -> NodeGraph:
    consumers: dict[str, list[Node]] = {node.name: [] for node in graph if node.op in RECEIVE_OPS}
    if not consumers:
        return graph
    for node in graph:
        for name in {port.node for port in node.inputs} | set(node.control_inputs):
            if name in consumers:
                consumers[name].append(node)
    frames = assign_frames(graph, frozenset(feeds))
    levels = _levels(graph)
    # They move with their Recvs, so the time when they run is unknown.
    owners = {node.name for found in consumers.values() for node in found if node.has(HandsOn)}
    followers = _followers(graph, consumers)
    added: dict[str, str] = {}
    for name in consumers:
        waited = _waited_for(graph, name, owners, followers[name], frames, levels)
        if waited is not None:
            added[name] = waited
    if not added:
        return graph
    return graph.rewritten(
        replace(node, control_inputs=(*node.control_inputs, added[node.name])) if node.name in added else node
        for node in graph
    )


def _followers(graph: NodeGraph, consumers: Mapping[str, list[Node]]) -> dict[str, list[Node]]:
    """Map each Recv to the nodes that wait for it.

    They are its consumers; in the place of an Identity that owns control edges, its consumers.
    """
    owners: dict[str, list[Node]] = {}
    for found in consumers.values():
        for node in found:
            if node.has(HandsOn):
                owners[node.name] = []
    for node in graph:
        for name in node.control_inputs:
            if name in owners:
                owners[name].append(node)
        for port in node.inputs:
            if port.node in owners:
                owners[port.node].append(node)
    return {
        name: [
            follower
            for node in found
            for follower in (owners[node.name] if owners.get(node.name) else [node])
        ]
        for name, found in consumers.items()
    }


def _levels(graph: NodeGraph) -> dict[str, int]:
    """Return the number of nodes on the longest path to each, without back edges."""
    levels: dict[str, int] = {}
    for name in traverse.topological_order(graph.nodes):
        before = traverse.forward_sources(graph.nodes[name], graph.nodes)
        levels[name] = 1 + max((levels.get(source, 0) for source in before), default=-1)
    return levels


def _waited_for(
    graph: NodeGraph,
    receive: str,
    owners: set[str],
    followers: Sequence[Node],
    frames: Mapping[str, FramePath],
    levels: Mapping[str, int],
) -> str | None:
    """Return the latest node that a Recv may wait for, or None; none of the `owners` of control edges."""
    frame = frames.get(receive)
    if not followers or frame is None or any(n.op in MERGE_OPS or n.name not in levels for n in followers):
        return None
    bound = min(levels[node.name] for node in followers) - 1 - SLACK
    everywhere: set[str] | None = None
    for follower in followers:
        found = _ancestors(graph, follower, levels)
        everywhere = found if everywhere is None else everywhere & found
        if not everywhere:
            return None
    best: str | None = None
    # By name: the order of a set differs between processes, which would choose differently among equally late
    # nodes.
    for name in sorted(everywhere or ()):
        node = graph.nodes[name]
        if (
            levels[name] > (0 if best is None else levels[best])
            and levels[name] <= bound
            and name not in owners
            and node.op not in TRANSFER_OPS
            and name in frames
            and output_frame(node, frames[name]) == frame
        ):
            best = name
    return best


def _ancestors(graph: NodeGraph, follower: Node, levels: Mapping[str, int]) -> set[str]:
    """Return the latest of the nodes that a node waits for; none that only a Merge may have waited for."""
    found: set[str] = set()
    queue: list[tuple[int, str]] = []

    def push(node: Node) -> None:
        if node.op in MERGE_OPS:
            return
        for name in traverse.forward_sources(node, graph.nodes):
            if name not in found and name in levels:
                found.add(name)
                heappush(queue, (-levels[name], name))

    push(follower)
    while queue and len(found) < _LOOK_BACK:
        push(graph.nodes[heappop(queue)[1]])
    return found


__all__ = ["SLACK", "schedule_receives"]
