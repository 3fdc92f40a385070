"""The order of work on a device's streams: bookkeeping of the accesses to memory.

A *stream* does its work in order, and independently of other streams. For each block of memory, `Ordering`
keeps the last write and the reads since, each as an *event*: the end of one piece of work. It returns the
events for which a piece of work must wait, and those for which memory must wait before it is used again. It
runs nothing, and has no clock and no arrays.

    ordering = Ordering()
    copied = ordering.launch(COPIES, writes=["x"])
    product = ordering.launch(COMPUTE, reads=["x"], writes=["y"])
    assert product.waits == (copied.event,)
    assert ordering.launch(COMPUTE, reads=["x"]).waits == ()     # what the stream has waited for stays done

It leaves out events that are implied: by the order of the stream, by events for which the stream has waited
before, by another event in the result, or because the host knows them to be done.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

_NOTHING: Final[Mapping[int, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """The end of one piece of work.

    stream     the stream that does it
    position   the number of pieces that the stream has done by then, including this one
    before     {another stream: the position that it has reached by then at least}
    """

    stream: int
    position: int
    before: Mapping[int, int] = field(compare=False, repr=False)

    def implies(self, other: StreamEvent) -> bool:
        """Whether the other event has happened when this one has."""
        if other.stream == self.stream:
            return other.position <= self.position
        return self.before.get(other.stream, 0) >= other.position


class Launch(NamedTuple):
    """A piece of work: the event at its end, and what its stream must wait for before it."""

    event: StreamEvent
    waits: tuple[StreamEvent, ...]


class _BlockRecord:
    """The accesses to a block for which later ones must wait.

    write   the last write
    reads   {stream: its last read since}
    """

    __slots__ = ("reads", "write")

    def __init__(self) -> None:
        self.write: StreamEvent | None = None
        self.reads: dict[int, StreamEvent] = {}


class Ordering:
    """The order of all accesses to the memory of one device, or of several that share streams.

    Streams are numbers, blocks of memory any keys. Not for use from two threads at once.
    """

    def __init__(self) -> None:
        self._last: dict[int, StreamEvent] = {}
        #: {stream: {another stream: the position that all later work comes after}}; replaced only
        self._before: dict[int, Mapping[int, int]] = {}
        #: {stream: the position that the host knows it to have reached}
        self._done: dict[int, int] = {}
        self._blocks: dict[Hashable, _BlockRecord] = {}

    def launch(self, stream: int, reads: Iterable[Hashable] = (), writes: Iterable[Hashable] = ()) -> Launch:
        """Enter work that reads and writes these blocks as the next of a stream; a block may be in both."""
        read = [self._history(block) for block in reads]
        written = [self._history(block) for block in writes]
        waits = self._missing(stream, _conflicts(read, written))
        for event in waits:
            self.wait(stream, event)
        last = self._last.get(stream)
        event = StreamEvent(
            stream, 1 if last is None else last.position + 1, self._before.get(stream, _NOTHING)
        )
        self._last[stream] = event
        for history in read:
            history.reads[stream] = event
        for history in written:
            history.write = event
            history.reads.clear()
        return Launch(event, waits)

    def wait(self, stream: int, event: StreamEvent) -> None:
        """A stream waits for an event before all that it is given from now on."""
        before = dict(self._before.get(stream, _NOTHING))
        for other, position in (*event.before.items(), (event.stream, event.position)):
            if other != stream and position > before.get(other, 0):
                before[other] = position
        self._before[stream] = before

    def complete(self, event: StreamEvent) -> None:
        """The host has seen that an event has happened."""
        for stream, position in (*event.before.items(), (event.stream, event.position)):
            if position > self._done.get(stream, 0):
                self._done[stream] = position

    def is_complete(self, event: StreamEvent) -> bool:
        """Whether the host knows that an event has happened, by itself or by others."""
        return self._done.get(event.stream, 0) >= event.position

    def host_waits(
        self, reads: Iterable[Hashable] = (), writes: Iterable[Hashable] = ()
    ) -> tuple[StreamEvent, ...]:
        """Return the events that must be complete before the host reads and writes these blocks itself."""
        read = [history for block in reads if (history := self._blocks.get(block)) is not None]
        written = [history for block in writes if (history := self._blocks.get(block)) is not None]
        return self._missing(None, _conflicts(read, written))

    def release(self, block: Hashable, stream: int | None = None) -> tuple[StreamEvent, ...]:
        """Forget a block; return the events that must happen before work of a stream uses its memory again.

        Without a stream, before any work, the host's included, uses it again.
        """
        history = self._blocks.pop(block, None)
        return () if history is None else self._missing(stream, _conflicts((), (history,)))

    def unfinished(self) -> tuple[StreamEvent, ...]:
        """The last event of each stream whose end the host has not seen: what the end of a step awaits."""
        return self._missing(None, self._last.values())

    def _history(self, block: Hashable) -> _BlockRecord:
        history = self._blocks.get(block)
        if history is None:
            history = self._blocks[block] = _BlockRecord()
        return history

    def _missing(self, stream: int | None, events: Iterable[StreamEvent]) -> tuple[StreamEvent, ...]:
        """Those of the events that nothing implies for later work of a stream, or for the host."""
        before = _NOTHING if stream is None else self._before.get(stream, _NOTHING)
        done = self._done
        wanted: list[StreamEvent] = []
        for event in events:
            other = event.stream
            known = max(before.get(other, 0), done.get(other, 0))
            if other == stream or known >= event.position or any(w.implies(event) for w in wanted):
                continue
            wanted = [w for w in wanted if not event.implies(w)]
            wanted.append(event)
        return tuple(wanted)


def _conflicts(read: Iterable[_BlockRecord], written: Iterable[_BlockRecord]) -> Iterable[StreamEvent]:
    for history in read:
        if history.write is not None:
            yield history.write
    for history in written:
        if history.write is not None:
            yield history.write
        yield from history.reads.values()


__all__ = ["Launch", "Ordering", "StreamEvent"]
