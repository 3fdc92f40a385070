"""The critical path of a traced step: the chain of work and waits that its end waited for.

It is followed backwards from the end: the event that ended last by then, its beginning, the time when its
last input was there, the event that ended last by that time, on whatever thread of the device; from a Recv it
goes to the Send on the other device. Between the last input and the beginning the item waited for what a
wait names, or was queued behind others. Time that no event covers is the engine's own: scheduling, planning,
other steps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flowengine.runtime.tracing.events import WAITS, WORK, Tag, TraceEvent
from flowengine.runtime.tracing.profile import undivided

#: Times that differ by less are one moment.
_SAME: Final = 1e-7


@dataclass(frozen=True, slots=True)
class PathPart:
    """One part of the critical path.

    kind      "work", "wait", "queued" (it was ready, and others ran) or "engine"
    name      of the node or block, or the reason of a wait
    began, ended   seconds from the start of the step
    device    the complete name of the device
    """

    kind: str
    name: str
    began: float
    ended: float
    device: str = ""

    @property
    def seconds(self) -> float:
        """Return its length."""
        return self.ended - self.began


def critical_path(events: Sequence[TraceEvent]) -> list[PathPart]:
    """Return the parts of the path from the start of the step to its end, without gaps.

    It goes from device to device, and from task to task, where a Recv had its value from a Send there.
    """
    devices = _devices(events)
    waits = [event for event in events if event.kind == "wait"]
    last = max(events, key=lambda event: event.ended, default=None)
    now, device = (0.0, "") if last is None else (last.ended, last.device)
    path: list[PathPart] = []
    while now > _SAME:
        found = devices[device].last(now) if device in devices else None
        if found is None:
            path.append(PathPart("engine", "before the first node", 0.0, now, device))
            break
        event, ended, reason = found
        if ended < now - _SAME:
            path.append(PathPart("wait" if reason else "engine", reason or "scheduling", ended, now, device))
            now = ended
        device = event.device
        kind, name = ("wait" if event.kind in WAITS else "work"), event.detail.get("waits_for", event.name)
        path.append(PathPart(kind, name, event.began, now, device))
        now = event.began
        if event.kind not in WAITS and event.queued > _SAME:
            ready = max(0.0, event.ready or 0.0)
            path += _queued(event, ready, now, waits)
            now = ready
    path.reverse()
    return path


def _devices(events: Sequence[TraceEvent]) -> dict[str, _DeviceEvents]:
    """Return {device: its events that a path may have}."""
    sends = {_transfer(event, event.detail["to"]): event for event in events if event.kind == "send"}
    held_up = {
        event.device: event for event in events if event.kind in ("async", "recv") and _is_unfinished(event)
    }
    found: dict[str, list[tuple[float, TraceEvent, TraceEvent]]] = {}
    for event in undivided(events):
        if event.kind in WORK or event.kind == "node":
            found.setdefault(event.device, []).append((event.ended, event, event))
    for event in events:
        if event.kind in WAITS:
            # A wait of the step covers the items that it waited for, which are named in its reason.
            source = sends.get(_transfer(event, event.device)) if event.kind == "recv" else event
            if source is None and _is_unfinished(event):
                source = _cause(event, held_up)
            if source is not None:
                found.setdefault(event.device, []).append((event.ended, event, source))
    return {device: _DeviceEvents(rows) for device, rows in found.items()}


def _is_unfinished(event: TraceEvent) -> bool:
    return "unfinished" in event.detail


def _cause(event: TraceEvent, held_up: Mapping[str, TraceEvent]) -> TraceEvent:
    """Return the event that an unfinished Recv waited for in the end, if its value was never sent.

    It goes from device to device, as long as the sender waits for a Recv, too.

    held_up   {device: an event that it had not ended when the step did}
    """
    seen = {event.device}
    while event.kind == "recv":
        behind = held_up.get(event.detail.get("from", ""))
        if behind is None or behind.device in seen:
            break
        event = behind
        seen.add(event.device)
    return event


class _DeviceEvents:
    """The events of a device in the order in which they ended, each with the one before it on a path.

    That one is the Send of a Recv, and of any other event the event itself.
    """

    def __init__(self, rows: list[tuple[float, TraceEvent, TraceEvent]]) -> None:
        rows.sort(key=lambda row: row[0])
        self._rows = rows
        self._ends = [ended for ended, _, _ in rows]

    def last(self, now: float) -> tuple[TraceEvent, float, str] | None:
        """Return the event that ended last by a moment, and began before it.

        Beside it, its end, or the moment itself if it ended later; and the reason of a wait from then on.
        """
        index = bisect_right(self._ends, now + _SAME) - 1
        while index >= 0 and self._rows[index][2].began >= now - _SAME:
            index -= 1
        if index < 0:
            return None
        _, event, source = self._rows[index]
        if event.kind == "wait":
            event, source = self._waker(index, now)
        if event.kind == "recv" and source is not event:
            reason = f"Recv of {event.detail['edge']} from {source.device}"
            return source, min(source.ended, now), reason
        return event, event.ended, ""

    def _waker(self, index: int, now: float) -> tuple[TraceEvent, TraceEvent]:
        """Return the Recv that ended a wait, and its Send; the wait itself if something else ended it."""
        wait = self._rows[index][1]
        for ended, event, source in (self._rows[place] for place in range(index - 1, -1, -1)):
            if ended < wait.began:
                break
            if event.kind in ("async", "recv") and source.began < now - _SAME:
                return (event, source) if event.kind == "recv" else (wait, wait)
        return wait, wait


def _transfer(event: TraceEvent, to: str) -> tuple[str, str, Tag]:
    """Return the key that both ends of a transfer have."""
    return event.detail["edge"], to, event.tag


def _queued(event: TraceEvent, ready: float, began: float, waits: Sequence[TraceEvent]) -> list[PathPart]:
    """Return the parts between the last input of an item and its beginning, the latest first.

    Each wait of the item, or of the whole step at its device, becomes a part of its own.
    """
    parts: list[PathPart] = []
    now, device = began, event.device
    for wait in sorted(waits, key=lambda each: -each.ended):
        if wait.device != device or wait.detail.get("node", event.name) != event.name:
            continue  # of another item
        ended, since = min(now, wait.ended), max(ready, wait.began)
        if ended - since <= _SAME:
            continue
        if now - ended > _SAME:
            parts.append(PathPart("queued", event.name, ended, now, device))
        parts.append(PathPart("wait", wait.name, since, ended, device))
        now = since
    if now - ready > _SAME:
        parts.append(PathPart("queued", event.name, ready, now, device))
    return parts


__all__ = ["PathPart", "critical_path"]
