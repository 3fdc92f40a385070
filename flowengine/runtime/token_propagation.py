"""Propagation of tokens to the items of an iteration, whose missing inputs are counted down in its tables.

A function here delivers along edges that lie within one iteration, puts the items that became ready on the
heap, and returns their number. `state.py` handles the other effects of a token, at a Merge that forwards it
at once or at the edge of a frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush
from typing import Any, TypeAlias

from flowengine.runtime.frames import IterationState
from flowengine.runtime.planning.items import Edge, Item, MergeEdge

#: (construction order, serial of the iteration, item, iteration): smallest runs first, never ties.
ReadyEntry: TypeAlias = tuple[int, int, Item, IterationState]


def deliver(ready: list[ReadyEntry], edges: Sequence[Edge], target: IterationState, value: Any) -> int:
    """Deliver a live value to all items at the end of some edges."""
    pending = target.pending
    entries = target.entries
    count = 0
    for local, entry, consumer in edges:
        entries[entry] = value
        left = pending[local] - 1
        pending[local] = left
        if not left:
            heappush(ready, (consumer.order, target.serial, consumer, target))
            count += 1
    return count


def deliver_dead(ready: list[ReadyEntry], edges: Sequence[Edge], target: IterationState) -> int:
    """Deliver a dead token to all items at the end of some edges: they are dead."""
    dead = target.dead
    if dead is None:
        dead = target.dead = set()
    pending = target.pending
    count = 0
    for local, _, consumer in edges:
        dead.add(local)
        left = pending[local] - 1
        pending[local] = left
        if not left:
            heappush(ready, (consumer.order, target.serial, consumer, target))
            count += 1
    return count


def deliver_dead_to_merges(
    ready: list[ReadyEntry], merges: Sequence[MergeEdge], target: IterationState
) -> int:
    """Deliver a dead token to Merges.

    A Merge is dead when all its data inputs are, or at once if the dead one comes from an Enter.
    """
    count = 0
    for merge, _, from_enter in merges:
        seen = target.dead_inputs
        if seen is None:
            seen = target.dead_inputs = {}
        number = seen.get(merge.local, 0) + 1
        seen[merge.local] = number
        if target.entries[merge.start + 1] is None and (from_enter or number == merge.merge_inputs):
            # No live input can come any more: entries stay DEAD, which `finish_merge` passes on.
            count += count_down(ready, merge, target)
    return count


def deliver_control(ready: list[ReadyEntry], item: Item, target: IterationState) -> int:
    """Count down the items that only waited for an item that has run."""
    count = 0
    if item.control is not None:
        pending = target.pending
        for local, consumer in item.control:
            pending[local] = left = pending[local] - 1
            if not left:
                heappush(ready, (consumer.order, target.serial, consumer, target))
                count += 1
    if item.control_merges is not None:
        for merge in item.control_merges:
            count += count_down(ready, merge, target)
    return count


def count_down(ready: list[ReadyEntry], consumer: Item, target: IterationState) -> int:
    """Count down one input of an item."""
    left = target.pending[consumer.local] - 1
    target.pending[consumer.local] = left
    if left:
        return 0
    heappush(ready, (consumer.order, target.serial, consumer, target))
    return 1
