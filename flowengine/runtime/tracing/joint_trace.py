"""The trace of a step that several processes ran: the parts of its tasks, on the caller's clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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
    """The parts of a step, each with the offset of its clock; made into events on one clock as they come.

    began     the start of the step, by the caller's `perf_counter`; `epoch` the same in seconds since 1970
    dropped   the number of events that found no room
    tasks     {name of a task: its part}
    """

    def __init__(self, began: float, events_max: int) -> None:
        self.began = began
        self._clocks_apart = time() - perf_counter()
        self.dropped = 0
        self.tasks: dict[str, TracedTask] = {}
        self._events_max = events_max
        #: The events, with times of the caller's `perf_counter`.
        self._parts: list[TraceEvent] = []
        self._events: tuple[TraceEvent, ...] | None = None

    @property
    def epoch(self) -> float:
        """Return the start of the step in seconds since 1970."""
        return self._clocks_apart + self.began

    def add(
        self,
        task: str,
        outcome: str,
        offset: ClockOffset,
        began: float = 0.0,
        events: Iterable[TraceEvent] = (),
        dropped: int = 0,
    ) -> None:
        """Add the part of a task.

        offset    of its clock from the caller's
        began     the start of its part by its own clock, from which the times of its events count
        dropped   how many events it had no room for
        """
        start = began - offset.seconds
        found = [_moved(event, start) for event in events]
        self._parts += found
        self.dropped += dropped
        self.tasks[task] = TracedTask(outcome, offset.seconds, offset.error, len(found))
        self._events = None

    def events(self, launches: Sequence[LaunchRecord] = ()) -> tuple[TraceEvent, ...]:
        """Return the events of all tasks, in the order in which they began, from the start of the step.

        launches   are among the events of their tasks already
        """
        if self._events is None:
            self._parts.sort(key=lambda event: (event.began, -event.ended))
            self.dropped += max(0, len(self._parts) - self._events_max)
            del self._parts[self._events_max :]
            # A clock that is off may place an event before the step.
            self.began = min([self.began, *(event.began for event in self._parts[:1])])
            self._events = tuple(_moved(event, -self.began) for event in self._parts)
        return self._events


def _moved(event: TraceEvent, seconds: float) -> TraceEvent:
    return replace(
        event,
        began=event.began + seconds,
        ended=event.ended + seconds,
        ready=None if event.ready is None else event.ready + seconds,
    )


__all__ = ["JointTrace", "TracedTask"]
