"""Cut a block: its nodes could run as one, but one body would be too long.

    a b c d e f  ->  a b c | d e f

A pure function of the block, of its members' measured times, and of the limits of one body. A block is cut
along its own topological order, so in any case no piece waits for a later one, no path leaves a piece and
returns to it, and all pieces are live or dead as the block is. A conditional is never divided: no dead token
crosses a boundary.

A node that is worth a thread of its own, or that a provider has claimed, is not a member of a block but a
token source (`tokens.py`): nodes that do not need it run beside it. Without learned times no node is worth a
thread, and blocks are cut by count alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flowengine.ir.graph import OutputPort
from flowengine.passes.blocks.region_units import Unit


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """The limits of one body: its number of members, and the microseconds that they take together."""

    members: int
    microseconds: float

    def has_room(self, members: int, microseconds: float, cost: float) -> bool:
        """Return whether a body that has so much already accepts another unit; an empty one accepts any."""
        return not members or (members < self.members and microseconds + cost <= self.microseconds)


#: A body that cannot be suspended: 1,200 small kernels take 0.3 ms, and a step can be cancelled between two.
REGION_LIMITS: Final = BodyLimits(1200, 1000.0)
#: A body that can be suspended, but keeps all outputs of its layers until it is over.
SEQUENCE_LIMITS: Final = BodyLimits(1 << 30, 100_000.0)

#: A body for a thread that has nothing else to do: the waiting task can be cancelled, the body cannot.
WHOLE_LIMITS: Final = BodyLimits(1200, float("inf"))


def cut(block: Sequence[Unit], costs: Mapping[str, float], limits: BodyLimits) -> list[list[Unit]]:
    """Return the pieces of a block, whose units are in topological order.

    costs   {unit: microseconds}, of measured units; any other counts as small

    A piece exceeds the limits only if one conditional, or one unit, does.
    """
    remaining: dict[OutputPort, int] = {}
    for unit in block:
        for pred in predicates(unit):
            remaining[pred] = remaining.get(pred, 0) + 1
    pieces: list[list[Unit]] = []
    open_predicates: set[OutputPort] = set()
    spent = 0.0
    for unit in block:
        cost = costs.get(unit.name, 0.0)
        if not pieces or not (open_predicates or limits.has_room(len(pieces[-1]), spent, cost)):
            pieces.append([])
            spent = 0.0
        spent += cost
        pieces[-1].append(unit)
        for pred in predicates(unit):
            remaining[pred] -= 1
            if remaining[pred]:
                open_predicates.add(pred)
            else:
                open_predicates.discard(pred)
    return pieces


def predicates(unit: Unit) -> set[OutputPort]:
    """Return the predicates of a unit: those of its conditions, and the one that it opens or closes."""
    found = {pred for pred, _ in unit.conditions}
    if unit.predicate is not None:
        found.add(unit.predicate)
    if unit.chooser is not None:
        found.add(unit.chooser[0])
    return found


__all__ = ["REGION_LIMITS", "SEQUENCE_LIMITS", "WHOLE_LIMITS", "BodyLimits", "cut"]
