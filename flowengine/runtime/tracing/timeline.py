"""The timeline of a step as Trace Event JSON, which Perfetto and chrome://tracing draw.

A task is a process. Each device of it has tracks for its threads and streams; a turn contains the items that
ran in it, a block its members. Waits, and items that no thread runs (kernels that may wait, Recvs, calls),
overlap freely, so they are distributed over as many tracks as they need.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.runtime.tracing.events import TraceEvent
from flowengine.runtime.tracing.joint_trace import TracedTask

#: Kinds that have no thread: the titles of their tracks.
_FREE: Final = {"wait": "waits", "async": "kernels that may wait", "recv": "Recv", "call": "calls"}
#: The category of arrows, and of the slices to which they lead; no kind of event.
_TRANSFER: Final = "transfer"


def timeline(
    events: Sequence[TraceEvent], dropped: int = 0, tasks: Mapping[str, TracedTask] = MappingProxyType({})
) -> str:
    """Return the events as JSON.

    dropped   how many more there were, which the file says
    tasks     {name of a task: its part} of a step over several tasks; the file has their outcomes and clocks
    """
    tracks = _Tracks()
    found = [_slice(event, *tracks.of(event)) for event in events]
    flows = list(_flows(events, tracks))
    text: dict[str, Any] = {"traceEvents": [*tracks.names(), *found, *flows], "displayTimeUnit": "ms"}
    other: dict[str, Any] = {"dropped_events": dropped} if dropped else {}
    if tasks:
        other["tasks"] = {
            task: {
                "outcome": part.outcome,
                "clock_offset_us": _microseconds(part.clock_offset),
                "clock_error_us": _microseconds(part.clock_error),
                "events": part.events,
            }
            for task, part in tasks.items()
        }
    if other:
        text["otherData"] = other
    return json.dumps(text)


class _Tracks:
    """The numbers of processes and tracks."""

    def __init__(self) -> None:
        self._processes: dict[str, int] = {}
        #: {(process, device, title): number}
        self._tracks: dict[tuple[int, str, str], int] = {}
        #: {(device, kind): the end of the last event of each of its tracks}
        self._ends: dict[tuple[str, str], list[float]] = {}
        self._placed: dict[int, tuple[int, int]] = {}

    def of(self, event: TraceEvent) -> tuple[int, int]:
        """Return the process and the track of an event; asked in order of their beginning."""
        placed = self._placed.get(id(event))
        if placed is None:
            process = self._processes.setdefault(_parts(event.device)[0], len(self._processes))
            placed = self._placed[id(event)] = (process, self._track(process, event))
        return placed

    def _track(self, process: int, event: TraceEvent) -> int:
        title = _FREE.get(event.kind)
        if title is None:
            title = event.thread or "step"
        else:
            ends = self._ends.setdefault((event.device, title), [])
            free = next((index for index, end in enumerate(ends) if end <= event.began), len(ends))
            if free == len(ends):
                ends.append(0.0)
            ends[free] = event.ended
            title = f"{title} {free + 1}" if free else title
        return self._tracks.setdefault((process, event.device, title), len(self._tracks))

    def names(self) -> Iterator[dict[str, Any]]:
        for name, process in self._processes.items():
            yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": _title(name)}}
        for (process, device, title), track in self._tracks.items():
            args = {"name": f"{_parts(device)[1]} {title}".lstrip(), "device": device, "thread": title}
            yield {"ph": "M", "name": "thread_name", "pid": process, "tid": track, "args": args}


def _slice(event: TraceEvent, process: int, track: int) -> dict[str, Any]:
    details: dict[str, Any] = {"op": event.op, **event.detail}
    if event.tag:
        details["iteration"] = " ".join(f"{frame}:{number}" for frame, number in event.tag)
    if event.ready is not None:
        details["queued_us"] = round(1e6 * event.queued, 3)
    if event.members:
        details["members"] = ", ".join(event.members)
    if event.outputs:
        known = [each for each in event.outputs if each is not None]
        details["outputs"] = ", ".join(f"{dtype}{list(shape)}" for dtype, shape, _ in known)
        details["bytes"] = event.output_bytes
    return {
        "ph": "X",
        "name": event.name,
        "cat": event.kind,
        "pid": process,
        "tid": track,
        "ts": _microseconds(event.began),
        "dur": round(_microseconds(event.ended) - _microseconds(event.began), 3),
        "args": details,
    }


def _flows(events: Iterable[TraceEvent], tracks: _Tracks) -> Iterator[dict[str, Any]]:
    """Yield an arrow from each Send to the Recv that took its value.

    Perfetto lets an arrow lead from the slice that begins first to the other. A Recv that began before its
    Send therefore contains a slice for the transfer, to which the arrow leads.
    """
    sent: dict[tuple[Any, ...], list[TraceEvent]] = {}
    events = list(events)
    for event in events:
        if event.kind == "send":
            sent.setdefault((event.detail["edge"], event.detail["to"], event.tag), []).append(event)
    number = 0
    for event in events:
        if event.kind != "recv" or "unfinished" in event.detail:
            continue
        sends = sent.get((event.detail["edge"], event.device, event.tag))
        if not sends:
            continue
        number += 1
        source = sends.pop(0) if len(sends) > 1 else sends[0]
        common = {"name": "transfer", "cat": _TRANSFER, "id": number}
        process, track = tracks.of(source)
        began = _microseconds(source.began)
        yield {**common, "ph": "s", "pid": process, "tid": track, "ts": began}
        process, track = tracks.of(event)
        ended = _microseconds(event.ended)
        if _microseconds(event.began) <= began:
            # One tick of Perfetto's later than the Send, so that it is the later one.
            since = min(began + 0.001, ended)
            place = {"ph": "X", "pid": process, "tid": track, "ts": since, "dur": round(ended - since, 3)}
            yield {"name": "transfer", "cat": _TRANSFER, **place}
        yield {**common, "ph": "f", "bp": "e", "pid": process, "tid": track, "ts": ended}


def read_timeline(text: str | bytes) -> list[TraceEvent]:
    """Return the events of a file that `timeline` has written, in order of their beginning.

    Raises InvalidArgumentError for other text. Types and shapes of outputs, and lines, are not read back.
    """
    try:
        document = json.loads(text)
        rows = document["traceEvents"]
        tracks = {
            (row["pid"], row["tid"]): (str(row["args"]["device"]), str(row["args"]["thread"]))
            for row in rows
            if row["name"] == "thread_name"
        }
        found = [_event(row, tracks) for row in rows if row["ph"] == "X" and row["cat"] != _TRANSFER]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidArgumentError(
            f"this is no timeline of a step, as `run --trace FILE` writes it: {type(error).__name__}: {error}"
        ) from None
    found.sort(key=lambda event: (event.began, -event.ended))
    return found


def read_tasks(text: str | bytes) -> dict[str, TracedTask]:
    """Return {task: its part} of a file that `timeline` has written of several tasks; {} for one of one task.

    Raises InvalidArgumentError for other text.
    """
    try:
        rows = json.loads(text).get("otherData", {}).get("tasks", {})
        return {
            str(task): TracedTask(
                str(row["outcome"]),
                1e-6 * row["clock_offset_us"],
                1e-6 * row["clock_error_us"],
                int(row["events"]),
            )
            for task, row in rows.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(
            f"the tasks of this timeline are unreadable: {type(error).__name__}: {error}"
        ) from None


def _event(row: dict[str, Any], tracks: dict[tuple[int, int], tuple[str, str]]) -> TraceEvent:
    device, thread = tracks[row["pid"], row["tid"]]
    detail = dict(row["args"])
    began = 1e-6 * row["ts"]
    queued = detail.pop("queued_us", None)
    members = detail.pop("members", "")
    return TraceEvent(
        kind=row["cat"],
        name=row["name"],
        op=detail.pop("op"),
        device=device,
        thread=thread,
        began=began,
        ended=began + 1e-6 * row["dur"],
        ready=None if queued is None else began - 1e-6 * queued,
        members=tuple(members.split(", ")) if members else (),
        detail=detail,
    )


def _parts(device: str) -> tuple[str, str]:
    """Return the task and the rest of a device's complete name, such as "/job:ps/task:0" and "CPU:0"."""
    task, _, rest = device.partition("/device:")
    return task, rest


def _title(task: str) -> str:
    """Return a task's name for people: Perfetto would show only what follows its last slash."""
    return task.strip("/").replace("/", " ") or "step"


def _microseconds(seconds: float) -> float:
    return round(1e6 * seconds, 3)


__all__ = ["read_tasks", "read_timeline", "timeline"]
