"""Events of the members of claims: a claim is one call of a library, and its program has their times."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from flowengine.kernels.member_times import MemberTime
from flowengine.kernels.provider import every_member, program_of
from flowengine.runtime.tracing.events import TraceEvent

#: The kinds of events that a claim may be; one of a block is the block's.
_CLAIMS: Final = frozenset({"kernel", "node", "body"})


class MemberRows:
    """The times of members on one thread, as `MEMBER_TIMES` takes them.

    rows   in the order in which they ended
    """

    __slots__ = ("_has_room", "rows")

    def __init__(self, has_room: Callable[[], bool]) -> None:
        """`has_room` says whether the trace takes one more event, and counts it."""
        self._has_room = has_room
        self.rows: list[MemberTime] = []

    def append(self, row: MemberTime, /) -> None:
        """Add a row, if there is room."""
        if self._has_room():
            self.rows.append(row)

    def __len__(self) -> int:
        return len(self.rows)


def is_claim(event: TraceEvent) -> bool:
    """Return whether an event is the call of a claim."""
    return bool(event.members) and event.kind in _CLAIMS and event.op != "block"


def member_events(
    claims: Sequence[TraceEvent], rows: Mapping[tuple[str, str], MemberRows], start: float
) -> Iterator[TraceEvent]:
    """Yield an event for each row that lies within the event of a claim.

    rows    {(device, thread): the times of its members}
    start   the time from which the events' times count
    """
    begins = {place: [row[1] - start for row in found.rows] for place, found in rows.items()}
    for claim in claims:
        place = (claim.device, claim.thread)
        if place in begins:
            mine = rows[place].rows
            for number in range(bisect_left(begins[place], claim.began), len(mine)):
                if mine[number][2] - start > claim.ended:
                    break
                yield _event(claim, mine[number], start)


def _event(claim: TraceEvent, row: MemberTime, start: float) -> TraceEvent:
    nodes, began, ended = row
    first = nodes[0]
    names = {node.name for node in nodes}
    for node in nodes:
        body = program_of(node.attrs)  # a claim within this one, computed by the same call
        if body is not None:
            names |= every_member(body)
    return TraceEvent(
        kind="node",
        name=first.name,
        op=first.op,
        device=claim.device,
        thread=claim.thread,
        began=began - start,
        ended=ended - start,
        tag=claim.tag,
        members=tuple(sorted(names)) if len(names) > 1 else (),
        outputs=claim.outputs if first.name == claim.name else (),
        line=first.creation_site,
        detail={"block": claim.name, "claim": True},
    )


__all__ = ["MemberRows", "is_claim", "member_events"]
