"""The trace of a step that several processes ran: the parts of its tasks, on the caller's clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter, time

from flowengine.devices.launch_record import LaunchRecord
from flowengine.runtime.tracing.clock_alignment import ClockOffset
from flowengine.runtime.tracing.events import TraceEvent


@dataclass(frozen=True, slots=True)
class TracedTask:
    """A task's part of a traced step.

    outcome        "ended"; "failed: ..." and "cancelled", of a part whose events go up to then; "lost: ...",
                   of a task whose events did not come back; "did not begin"
    clock_offset   the seconds that the clock of the task shows more than the caller's; the events have the
                   caller's times
    clock_error    how far these times may be off, in either direction: half of the shortest round trip
    events         the number of its events that the trace has

    >>> fe.TracedTask("ended", 0.25, 0.0001, 12).clock_error
    0.0001
    """

    outcome: str
    clock_offset: float
    clock_error: float
    events: int


class JointTrace:
    """The parts of a step, each with the offset of its clock. It makes events on one clock of them on demand.

    began     the start of the step, by the caller's `perf_counter`; `epoch` the same in seconds since 1970
    tasks     {name of a task: its part}
    """

    def __init__(
        self, began: float, events_max: int, line_of: Callable[[str, str], str] = lambda name, op: ""
    ) -> None:
        """`line_of` returns the line of the program that built a node, by its name and op."""
        self.began = began
        self._clocks_apart = time() - perf_counter()
        self._dropped = 0
        self.tasks: dict[str, TracedTask] = {}
        self._events_max = events_max
        self._line_of = line_of
        #: (the start of a part by the caller's clock, its events from then on) of each part
        self._parts: list[tuple[float, Sequence[TraceEvent]]] = []
        self._events: tuple[TraceEvent, ...] | None = None

    @property
    def epoch(self) -> float:
        """Return the start of the step in seconds since 1970."""
        return self._clocks_apart + self.began

    @property
    def dropped(self) -> int:
        """Return the number of events that found no room, at their tasks or here."""
        return self._dropped + max(0, sum(each.events for each in self.tasks.values()) - self._events_max)

    def add(
        self,
        task: str,
        outcome: str,
        offset: ClockOffset,
        began: float = 0.0,
        events: Sequence[TraceEvent] = (),
        dropped: int = 0,
    ) -> None:
        """Add the part of a task.

        offset    of its clock from the caller's
        began     the start of its part by its own clock, from which the times of its events count
        dropped   how many events it had no room for
        """
        self._parts.append((began - offset.seconds, events))
        self._dropped += dropped
        self.tasks[task] = TracedTask(outcome, offset.seconds, offset.error, len(events))

    def events(self, launches: Sequence[LaunchRecord] = ()) -> tuple[TraceEvent, ...]:
        """Return the events of all tasks, in the order in which they began, from the start of the step.

        launches   are among the events of their tasks already
        """
        if self._events is None:
            # A clock that is off may place an event before the step.
            self.began = min(
                [self.began, *(start + event.began for start, part in self._parts for event in part)]
            )
            found = [
                _moved(event, start - self.began, self._line_of(event.name, event.op))
                for start, part in self._parts
                for event in part
            ]
            found.sort(key=lambda event: (event.began, -event.ended))
            self._events = tuple(found[: self._events_max])
            self._parts = []
        return self._events


def _moved(event: TraceEvent, seconds: float, line: str) -> TraceEvent:
    return TraceEvent(
        event.kind,
        event.name,
        event.op,
        event.device,
        event.thread,
        event.began + seconds,
        event.ended + seconds,
        None if event.ready is None else event.ready + seconds,
        event.tag,
        event.members,
        event.outputs,
        line or event.line,
        event.detail,
    )


__all__ = ["JointTrace", "TracedTask"]
