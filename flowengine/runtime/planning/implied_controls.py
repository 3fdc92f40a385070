"""Implied control edges: they say no more than other edges of a plan, so its steps run without them.

    a ──► b, a ──^──► b            the value of `a` says that `a` has run, and whether it was dead
    a ──► b ──► c, a ──^──► c      `c` waits for `b`, which waits for `a`; and it is dead if they are

Partitioning makes many of these: a Recv passes its value to an item that a control edge also orders after it.
Counting such an edge down costs a step as much as a tenth of a small kernel.

An edge is implied if its target is reached through at most one item in between, and if that item is dead when
the source is: an item of control flow decides that for itself, and an item that runs dead does not pass it
on. All three are in one frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from flowengine.runtime.planning.items import Item, Kind

#: Kinds that are dead if any input is, and alive otherwise.
_PLAIN: Final = frozenset(
    {
        Kind.UNARY,
        Kind.BINARY,
        Kind.GENERAL,
        Kind.FORWARD,
        Kind.ASYNC,
        Kind.TRIGGER,
        Kind.CONSTANT,
        Kind.CALL,
        Kind.REGION,
    }
)
#: Kinds whose control edges are dead exactly if all of their outputs are: not those of a Switch, nor of items
#: that lead from frame to frame.
_SOURCES: Final = _PLAIN | {Kind.RECEIVE}
#: An item with more control edges than this keeps them all: checking each would take long.
_EDGES_MAX: Final = 16


def drop_implied_controls(items: Iterable[Item]) -> None:
    """Remove the implied control edges of the items of a plan, and adjust the counts of their targets."""
    for item in items:
        control = item.control
        if control is None or item.kind not in _SOURCES or len(control) > _EDGES_MAX:
            continue
        implied = _reached(item)
        kept = tuple(edge for edge in control if edge[1] not in implied)
        if len(kept) == len(control):
            continue
        for local, target in control:
            if target in implied:
                target.frame.pending[local] -= 1
        item.control = kept or None
        item.has_rare_edges = bool(kept or item.merge_edges or item.passing or item.control_merges)


def _reached(item: Item) -> set[Item]:
    """Return the items that take a value of this one, or wait for one that does, or that waits for it."""
    frame = item.frame
    reached = {target for edges in item.edges for _, _, target in edges if target.frame is frame}
    between = reached | {target for _, target in item.control or ()}
    if len(between) > _EDGES_MAX:
        return reached
    for each in between:
        if each.kind in _PLAIN and not each.runs_dead and each.frame is frame:
            reached.update(target for edges in each.edges for _, _, target in edges if target.frame is frame)
            reached.update(target for _, target in each.control or () if target.frame is frame)
    return reached


__all__ = ["drop_implied_controls"]
