"""The critical path of a traced step: the chain of work and waits that its end waited for.

It is followed backwards from the end: the event that ended last by then, its beginning, the time when its
last input was there, the event that ended last by that time, on whatever thread. Between the last input and
the beginning the item waited for what a wait names, or was queued behind others. Time that no event
covers is the engine's own: scheduling, planning, other steps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flowengine.runtime.tracing.events import WAITS, WORK, TraceEvent
from flowengine.runtime.tracing.profile import undivided

#: Times that differ by less are one moment.
_SAME: Final = 1e-7


@dataclass(frozen=True, slots=True)
class PathPart:
    """One part of the critical path.

    kind      "work", "wait", "queued" (it was ready, and others ran) or "engine"
    name      of the node or block, or the reason of a wait
    began, ended   seconds from the start of the step
    """

    kind: str
    name: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """Return its length."""
        return self.ended - self.began


def critical_path(events: Sequence[TraceEvent]) -> list[PathPart]:
    """Return the parts of the path from the start of the step to its end, without gaps."""
    leaves = [event for event in undivided(events) if event.kind in WORK or event.kind == "node"]
    # A wait of the step covers the items that it waited for, which are named in its reason.
    leaves += [event for event in events if event.kind in WAITS and event.kind != "recv"]
    waits = [event for event in events if event.kind == "wait"]
    leaves.sort(key=lambda event: event.ended)
    ends = [event.ended for event in leaves]
    now = max((event.ended for event in events), default=0.0)
    path: list[PathPart] = []
    while now > _SAME:
        index = bisect_right(ends, now + _SAME) - 1
        while index >= 0 and leaves[index].began >= now - _SAME:
            index -= 1
        if index < 0:
            path.append(PathPart("engine", "before the first node", 0.0, now))
            break
        event = leaves[index]
        if event.ended < now - _SAME:
            path.append(PathPart("engine", "scheduling", event.ended, now))
            now = event.ended
        path.append(PathPart("wait" if event.kind in WAITS else "work", event.name, event.began, now))
        now = event.began
        if event.kind not in WAITS and event.queued > _SAME:
            ready = max(0.0, event.ready or 0.0)
            path += _queued(event, ready, now, waits)
            now = ready
    path.reverse()
    return path


def _queued(event: TraceEvent, ready: float, began: float, waits: Sequence[TraceEvent]) -> list[PathPart]:
    """Return the parts between the last input of an item and its beginning, the latest first.

    Each wait of the item, or of the whole step, becomes a part of its own.
    """
    parts: list[PathPart] = []
    now = began
    for wait in sorted(waits, key=lambda each: -each.ended):
        if wait.detail.get("node", event.name) != event.name:
            continue  # of another item
        ended, since = min(now, wait.ended), max(ready, wait.began)
        if ended - since <= _SAME:
            continue
        if now - ended > _SAME:
            parts.append(PathPart("queued", event.name, ended, now))
        parts.append(PathPart("wait", wait.name, since, ended))
        now = since
    if now - ready > _SAME:
        parts.append(PathPart("queued", event.name, ready, now))
    return parts


__all__ = ["PathPart", "critical_path"]
