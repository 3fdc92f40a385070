"""When a card did what it was given: an event before and one behind, read once the work between is done.

It records no events for work without a request to note it. Times of a step are the host's time when its first
event was recorded, plus the seconds since that event: differences within a step are exact, and those between
steps are not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Final

from flowengine.devices.launch_record import LaunchRecord
from flowengine.devices.ordering import StreamEvent

_STREAMS: Final = ("compute", "copy in", "copy out")
#: So many steps that noted something go on with the event that they began with.
_STEPS_KEPT: Final = 8


class _Sink:
    """The list for the records of one step, and the event that its times are counted from."""

    __slots__ = ("base", "began", "launches")

    def __init__(self, launches: list[LaunchRecord], base: Any) -> None:
        self.launches = launches
        self.base = base
        self.began = perf_counter()


class TimedLaunch:
    """A piece of work with the events around it.

    over   the event of the device's streams after which both have happened; None: not launched yet
    """

    __slots__ = ("before", "behind", "node", "over", "sink", "stream", "what")

    def __init__(self, sink: _Sink, node: str, stream: int, what: str, before: Any) -> None:
        self.sink, self.node = sink, node
        self.stream, self.what = stream, what
        self.before, self.behind = before, None
        self.over: StreamEvent | None = None


class CudaTimes:
    """The launch times of one device. `note` covers its own thread's launches; many threads may call it."""

    def __init__(self, device: str, cupy: Any) -> None:
        """`device` is the complete name, `cupy` CuPy's module."""
        self._device = device
        self._cupy = cupy
        self._wanted = threading.local()
        #: {id of a list of records: its sink}, of the last steps and of all with unfinished work.
        self._sinks: dict[int, _Sink] = {}
        #: The launches that are not known to be done, in the order of their ends.
        self._under_way: list[TimedLaunch] = []
        self._lock = threading.Lock()

    def note(self, launches: list[LaunchRecord] | None, node: str) -> None:
        """See `TimedDevice`."""
        self._wanted.sink = None if launches is None else (launches, node)

    @property
    def is_wanted(self) -> bool:
        """Whether the launches of this thread are recorded."""
        return getattr(self._wanted, "sink", None) is not None

    def begin(self, stream: int, what: str, on: Any) -> TimedLaunch | None:
        """Record that work begins on a stream of CuPy on the current GPU; None if nothing is recorded."""
        wanted = getattr(self._wanted, "sink", None)
        if wanted is None:
            return None
        launches, node = wanted
        before = self._event(on)
        with self._lock:
            return TimedLaunch(self._sink_of(launches, before), node, stream, what, before)

    def end(self, work: TimedLaunch, on: Any) -> None:
        """It ends there."""
        work.behind = self._event(on)
        with self._lock:
            self._under_way.append(work)

    @contextmanager
    def around(self, stream: int, what: str, on: Any) -> Iterator[None]:
        """Record everything that is launched inside as one piece of work."""
        work = self.begin(stream, what, on)
        yield
        if work is not None:
            self.end(work, on)

    def ends_by(self, event: StreamEvent) -> None:
        """An event is about to be recorded: what has ended on its stream until now is over with it."""
        if self._under_way:
            with self._lock:
                for work in self._under_way:
                    if work.over is None and work.stream == event.stream:
                        work.over = event

    def read(self, is_over: Callable[[StreamEvent], bool]) -> None:
        """Tell of all work that is over."""
        if not self._under_way:
            return
        with self._lock:
            done, rest = list[TimedLaunch](), list[TimedLaunch]()
            for work in self._under_way:
                (done if work.over is not None and is_over(work.over) else rest).append(work)
            self._under_way = rest
            records = [(work.sink, self._record(work)) for work in done]
            for sink, record in sorted(records, key=lambda each: each[1].began):
                sink.launches.append(record)

    def _sink_of(self, launches: list[LaunchRecord], event: Any) -> _Sink:
        """Return the sink for a step's records.

        Sinks of some earlier steps are kept, because their records may still come.
        """
        found = self._sinks.get(id(launches))
        if found is None:
            found = self._sinks[id(launches)] = _Sink(launches, event)
            wanted = {id(work.sink) for work in self._under_way}
            for key, sink in list(self._sinks.items())[:-_STEPS_KEPT]:
                if id(sink) not in wanted:
                    del self._sinks[key]
        return found

    def _record(self, work: TimedLaunch) -> LaunchRecord:
        base, start = work.sink.base, work.sink.began
        began = start + self._milliseconds(base, work.before) / 1e3
        ended = began + self._milliseconds(work.before, work.behind) / 1e3
        return LaunchRecord(work.node, work.what, self._device, _STREAMS[work.stream], began, ended)

    def _milliseconds(self, one: Any, other: Any) -> float:
        return 0.0 if one is other else float(self._cupy.cuda.get_elapsed_time(one, other))

    def _event(self, stream: Any) -> Any:
        made = self._cupy.cuda.Event(block=True, disable_timing=False)
        made.record(stream)
        return made


__all__ = ["CudaTimes", "TimedLaunch"]
