"""Values that pass between a host and the process in a box through memory that both map.

One segment a direction. Who writes into it decides what lies where, and says so in the message that would
else carry the value; the reader says when it needs a place no more. What fits nowhere goes with the message,
as strings and small values do.

    box   ──  place  ──►  host     the host copies the bytes before it looks at anything
    host  ──  place  ──►  box      the process computes on them where they are
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.core.buffers import empty
from flowengine.core.work_pieces import Pieces
from flowengine.sandbox.shared_memory import Ranges, Segment, leased
from flowengine.transport.errors import RemoteProtocolError

#: Values of more bytes than this pass so.
PASSED_MIN: Final = 64 << 10
#: Written pages without a value are kept up to this part of what the graph may take, in each direction: to
#: have fresh ones from the system takes ten times as long as to copy into them.
_IDLE_PART: Final = 1 / 8
_IDLE_MAX: Final = 128 << 20
#: What is copied at once.
_PIECE_BYTES: Final = 4 << 20


def idle_bytes(memory_bytes: int) -> int:
    """Return the bytes of written but empty pages that each direction keeps."""
    return min(int(memory_bytes * _IDLE_PART), _IDLE_MAX)


def may_pass(value: Value) -> bool:
    """Whether a value is large enough, and such that its bytes are all of it."""
    return isinstance(value, np.ndarray) and value.nbytes > PASSED_MIN and not value.dtype.hasobject


class OutgoingValues(NamedTuple):
    """Values that are about to be sent.

    beside   those that go with the message
    places   for each value None, or [offset, size, size, ...] of where it lies; empty where all go along
    copies   what is to be copied before the message goes: (where to, what)
    """

    beside: list[Value]
    places: list[list[int] | None]
    copies: list[tuple[Array, Array]]


class IncomingValues(NamedTuple):
    """Values that have come.

    values    all of them; those of `copies` once they are copied
    offsets   the places that are free again then
    copies    as in `OutgoingValues`
    """

    values: list[Value]
    offsets: list[int]
    copies: list[tuple[Array, Array]]


def copying(copies: Iterable[tuple[Array, Array]]) -> Pieces[None]:
    """Copy what is to be copied, in pieces of about a millisecond."""
    for there, value in copies:
        if value.nbytes <= _PIECE_BYTES or not value.flags.c_contiguous:
            np.copyto(there, value)
            continue
        to, what = there.reshape(-1), value.reshape(-1)
        step = _PIECE_BYTES // value.itemsize
        for start in range(0, what.size, step):
            to[start : start + step] = what[start : start + step]
            yield


class Passage:
    """Both directions, as one of the two processes has them.

    out, into   the segment that this process writes, and the one that it reads
    idle_bytes  what is kept of written pages that hold nothing
    """

    def __init__(self, out: Segment, into: Segment, idle_bytes: int) -> None:
        self._out = out
        self._into = into
        self._idle_bytes = idle_bytes
        self._ranges = Ranges(out.size)
        #: Places that were read here and are free again; the other side has not been told.
        self._done: list[int] = []
        #: {place that arrays of this process lie in: bytes}
        self._lent: dict[int, int] = {}

    @property
    def charged_bytes(self) -> int:
        """The bytes that both segments hold, without pages that may be kept without a value."""
        written, read = self._out.resident_bytes, self._into.resident_bytes
        idle = written - self._ranges.used_bytes
        return written + read - min(idle, self._idle_bytes) - min(read, self._idle_bytes)

    @property
    def lent_bytes(self) -> int:
        """The bytes in the other side's segment that arrays of this process refer to."""
        return sum(self._lent.values()) - sum(self._lent.get(offset, 0) for offset in tuple(self._done))

    @property
    def has_done(self) -> bool:
        """Whether the other side is to be told of places that are free again."""
        return bool(self._done)

    @property
    def used_bytes(self) -> int:
        """The bytes that the other side has yet to read, or still uses."""
        return self._ranges.used_bytes

    def sending(self, values: Sequence[Value], room: int) -> OutgoingValues:
        """Find places for the large ones, of together at most `room` bytes. `copying` comes next."""
        beside: list[Value] = []
        places: list[list[int] | None] = []
        copies: list[tuple[Array, Array]] = []
        for value in values:
            offset = None
            if may_pass(value) and value.nbytes <= room:
                offset = self._ranges.take(value.nbytes)
            if offset is None:
                beside.append(value)
                places.append(None)
            else:
                room -= value.nbytes
                places.append([offset, *value.shape])
                copies.append((self._out.view(offset, value.shape, value.dtype), value))
        return OutgoingValues(beside, places if copies else [], copies)

    def withdraw(self, sending: OutgoingValues) -> None:
        """It was not sent."""
        self.released(each[0] for each in sending.places if each is not None)

    def released(self, offsets: Iterable[int]) -> None:
        """The other side needs these no more. RemoteProtocolError for one that it was not given."""
        try:
            for offset in offsets:
                self._ranges.give_back(offset)
        except (KeyError, TypeError):
            raise RemoteProtocolError("the sandbox gives memory back that it was not given") from None
        self._trim()

    def _trim(self) -> None:
        """Give pages back that hold nothing, where they are too many."""
        if self._out.resident_bytes - self._ranges.used_bytes > self._idle_bytes:
            for offset, size in self._ranges.gaps():
                self._out.empty(offset, size)

    def take_done(self) -> list[int]:
        """Places that the other side may use again; each is told once."""
        done = self._done.copy()
        del self._done[: len(done)]  # another thread may append meanwhile
        for offset in done:
            self._lent.pop(offset, None)
        return done

    def settle_read(self) -> list[int]:
        """Nothing is on its way: all that was written here has been read. Places that arrays here lie in."""
        self.take_done()
        self.settle_written(())
        return sorted(self._lent)

    def settle_written(self, held: Iterable[int]) -> None:
        """Nothing is on its way: of all that was written here, only these places are in use.

        RemoteProtocolError where that cannot be.
        """
        try:
            self._ranges.keep(held)
        except (KeyError, TypeError):
            raise RemoteProtocolError("the sandbox holds memory that it was not given") from None
        self._trim()

    def receiving(
        self, places: Sequence[Any], beside: Iterable[Value], dtypes: Sequence[Any]
    ) -> IncomingValues:
        """Return the received values of these dtypes, and the copies to make before anything looks at them.

        `received` comes next. RemoteProtocolError for places that are none, or overlap.
        """
        values = self._views(places, beside, dtypes)
        _check_apart(sorted(each for each in map(_extent, values, places) if each[1]))
        copies, offsets = [], []
        for index, place in enumerate(places):
            if place is not None:
                there = values[index]
                values[index] = own = empty(there.shape, there.dtype)
                copies.append((own, there))
                offsets.append(place[0])
        return IncomingValues(values, offsets, copies)

    def received(self, offsets: Iterable[int]) -> None:
        """Mark these places as free: their values were copied, or nobody wants them."""
        self._done.extend(offsets)

    def lent(
        self,
        places: Sequence[Any],
        beside: Iterable[Value],
        dtypes: Sequence[Any],
        book: Callable[[Any, int], None] | None = None,
    ) -> list[Value]:
        """Return the received values in place.

        A place is free again when the last reference to its array is gone.

        book   as in `leased`
        """
        values = self._views(places, beside, dtypes)
        for index, place in enumerate(places):
            if place is not None:
                value: Any = values[index]
                self._lent[place[0]] = value.nbytes
                values[index] = leased(value, place[0], self._done, book)
        return values

    def _views(self, places: Sequence[Any], beside: Iterable[Value], dtypes: Sequence[Any]) -> list[Value]:
        rest = iter(beside)
        if len(places) != len(dtypes):
            raise RemoteProtocolError(f"the sandbox says of {len(places)} values where they lie")
        try:
            views = [
                next(rest) if place is None else self._view(place, dtype)
                for place, dtype in zip(places, dtypes, strict=True)
            ]
        except (StopIteration, RuntimeError, TypeError, ValueError):
            raise RemoteProtocolError("the sandbox speaks of memory in which no value lies") from None
        if next(rest, None) is not None:
            raise RemoteProtocolError("the sandbox sent more values than it speaks of")
        return views

    def _view(self, place: Any, dtype: Any) -> Array:
        if type(place) is not list or not place or not all(type(each) is int and each >= 0 for each in place):
            raise ValueError
        offset, *dims = place
        return self._into.view(offset, dims, dtype)

    def close(self) -> None:
        """Let go of both segments; arrays that lie there keep what they need."""
        self._out.close()
        self._into.close()


def _extent(value: Value, place: Any) -> tuple[int, int]:
    return (0, 0) if place is None else (place[0], math.prod(value.shape) * value.dtype.itemsize)


def _check_apart(extents: Sequence[tuple[int, int]]) -> None:
    end = 0
    for offset, size in extents:
        if offset < end:
            raise RemoteProtocolError("the sandbox says of two values that they lie at one place")
        end = offset + size


__all__ = ["PASSED_MIN", "IncomingValues", "OutgoingValues", "Passage", "copying", "idle_bytes", "may_pass"]
