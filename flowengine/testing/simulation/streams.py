"""Streams over the simulated network: what `sim://host` addresses are reached by.

    sim://worker0:1        the host `worker0`, whoever of the simulated hosts dials

A stream belongs to the host whose task opened it. When the host crashes, its ends of all streams fail at
once and send no more; the other ends notice what a network lets them notice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Final, Protocol

import trio

from flowengine.core.errors import FailedPreconditionError, UnavailableError
from flowengine.testing.simulation.network import Network, SimulatedWire
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.streams.schemes import Scheme, register_scheme
from flowengine.transport.wire.placing import place_pieces

SCHEME: Final = "sim"

#: What a host waits for an answer to each of its attempts to connect, as operating systems do.
_ATTEMPT_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)

_RESET: Final = "it was reset by the other side"


class HostView(Protocol):
    """The host that a task runs on, as streams see it."""

    name: str
    network: Network
    #: Whether the machine answers: it may have no process, and the process may not listen.
    is_up: bool
    listeners: dict[str, SimulatedListener]
    streams: dict[SimulatedStream, None]

    def other(self, name: str) -> HostView | None:
        """The host of this name."""


#: The host of the running task.
current_place: ContextVar[HostView] = ContextVar("current_place")


class SimulatedStream:
    """One end of a connection between two hosts."""

    is_authenticated = False

    def __init__(self, owner: HostView, outgoing: SimulatedWire, incoming: SimulatedWire) -> None:
        self._owner = owner
        self._outgoing = outgoing
        self._incoming = incoming
        self._network = outgoing.network
        self.address = f"{SCHEME}://{outgoing.direction[1]}"
        self.bytes_copied = 0
        self._pieces: deque[memoryview] = deque()
        self._is_ended = False
        self._is_closed = False
        #: Why nothing goes any more.
        self._fault = ""
        self._other: SimulatedStream | None = None
        #: What this end has sent that the other has not read.
        self._under_way = 0
        #: What the other has read and this end does not know of yet, and whether word of it is under way.
        self._read = 0
        self._is_acknowledged = False
        self._readers = trio.lowlevel.ParkingLot()
        self._writers = trio.lowlevel.ParkingLot()
        incoming.arrived = self._arrived
        owner.streams[self] = None

    def __repr__(self) -> str:
        return f"<SimulatedStream {self._outgoing.name}>"

    @property
    def peer(self) -> str:
        """The host at the other end."""
        return self._outgoing.direction[1]

    def meet(self, other: SimulatedStream) -> None:
        """The two ends of one connection."""
        self._other, other._other = other, self

    # -- keeps `flowengine.transport.streams.schemes.ByteStream` --------------------------------------------

    async def receive_into(self, buffers: Sequence[memoryview]) -> int:
        while True:
            # What came before the link broke is still read.
            if not self._pieces or self._is_closed:
                self._check()
            count = self._take(buffers)
            if count or self._is_ended:
                self.bytes_copied += count
                return count
            await self._readers.park()

    def _take(self, buffers: Sequence[memoryview]) -> int:
        done = place_pieces(buffers, self._pieces)
        if done and self._other is not None:
            self._other._was_read(done, self._incoming)
        return done

    async def send_some(self, buffers: Sequence[memoryview | bytes]) -> int:
        while True:
            count = self.send_nowait(buffers)
            if count:
                return count
            await self._writers.park()

    def send_nowait(self, buffers: Sequence[memoryview | bytes]) -> int:
        self._check()
        room = self._window - self._under_way
        parts = []
        for buffer in buffers:
            if room <= 0:
                break
            part = memoryview(buffer)[:room]
            parts.append(part)
            room -= len(part)
        data = b"".join(parts)
        if data:
            self._under_way += len(data)
            self._network.put(self._outgoing, data)
        return len(data)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        unread = bool(self._pieces)
        self._pieces.clear()
        if not self._fault:
            # Whoever closes what it has not read to the end resets the connection.
            self._tell("" if not unread else _RESET)
        self._leave()

    # -- what the network does ----------------------------------------------------------------------

    def fail(self, fault: str) -> None:
        """Nothing goes any more at this end, and whoever waits here learns why."""
        if not self._fault and not self._is_closed:
            self._fault = fault
            self._leave()

    def crash(self, *, silently: bool, resets: bool) -> None:
        """The process that has this end is gone. The other end learns it, unless the machine is gone too."""
        if self._fault or self._is_closed:
            return
        if not silently:
            self._tell(_RESET if resets else "")
        self._fault = f"{self._owner.name} has crashed"
        self._pieces.clear()
        self._leave()

    def _tell(self, fault: str) -> None:
        other = self._other
        if other is None:
            return
        if fault:
            self._network.put(self._outgoing, b"", lambda: other.fail(fault))
        else:
            self._network.put(self._outgoing, b"", other._ended)

    def _ended(self) -> None:
        self._is_ended = True
        self._readers.unpark_all()

    def _leave(self) -> None:
        self._owner.streams.pop(self, None)
        other = self._other
        if other is not None and (other._is_closed or other._fault):
            self._network.forget(self._outgoing)
            self._network.forget(self._incoming)
        self._readers.unpark_all()
        self._writers.unpark_all()

    def _arrived(self, data: bytes) -> None:
        if self._is_closed or self._fault:
            # Nobody is there any more: the sender is told so, if there is a machine to tell it.
            if self._owner.is_up:
                self._tell(_RESET)
            return
        self._pieces.append(memoryview(data))
        self._readers.unpark_all()

    def _was_read(self, count: int, wire: SimulatedWire) -> None:
        """So much of what this end sent has been read; a writer that waits learns it a little later."""
        self._read += count
        back = (wire.direction[1], wire.direction[0])
        if not self._writers and back not in self._network.blocked:
            self._there_is_room()
        elif not self._is_acknowledged:
            self._is_acknowledged = True
            self._network.put(self._incoming, b"", self._there_is_room)

    def _there_is_room(self) -> None:
        self._under_way -= self._read
        self._read = 0
        self._is_acknowledged = False
        self._writers.unpark_all()

    @property
    def _window(self) -> int:
        return self._network.model_of(self._outgoing.direction).window_bytes

    def _check(self) -> None:
        if self._is_closed:
            raise FailedPreconditionError(f"the stream to {self.address} is closed")
        if self._fault:
            raise ConnectionLostError(f"the link to {self.address} broke: {self._fault}")


class SimulatedListener:
    """A listener for streams that arrive at a host."""

    def __init__(self, owner: HostView, address: str) -> None:
        self._owner = owner
        self.address = address
        self._arrived: deque[SimulatedStream] = deque()
        self._waiting = trio.lowlevel.ParkingLot()
        self._is_closed = False
        owner.listeners[address] = self

    async def accept(self) -> SimulatedStream:
        await trio.lowlevel.checkpoint()
        while not self._arrived:
            if self._is_closed:
                raise FailedPreconditionError(f"{self.address} is closed")
            await self._waiting.park()
        return self._arrived.popleft()

    def arrive(self, stream: SimulatedStream) -> None:
        self._arrived.append(stream)
        self._waiting.unpark()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            if self._owner.listeners.get(self.address) is self:
                del self._owner.listeners[self.address]
            for stream in self._arrived:
                stream.close()
            self._arrived.clear()
            self._waiting.unpark_all()


def _host_of(address: str) -> str:
    return address.partition("://")[2].partition(":")[0]


async def connect(address: str, security: Any = None) -> SimulatedStream:
    """Dial from the running task's host, as an operating system does: again and again, with longer pauses."""
    near = current_place.get()
    network, name = near.network, _host_of(address)
    there, back = network.new_wires(near.name, name)
    log = network.log
    log.add(there.name, "is dialled")
    outcome: list[SimulatedStream | str] = []
    answered = trio.Event()

    def arrive() -> None:
        far = near.other(name)
        if outcome or far is None or not far.is_up:
            return
        listener = far.listeners.get(address)
        if listener is None:
            network.put(back, b"", lambda: answer("no server listens there"))
            return
        if near_end:
            return
        near_end.append(SimulatedStream(near, there, back))
        far_end = SimulatedStream(far, back, there)
        near_end[0].meet(far_end)
        listener.arrive(far_end)
        log.add(there.name, "is accepted")
        network.put(back, b"", lambda: answer(""))

    def answer(fault: str) -> None:
        if not outcome:
            outcome.append(fault or near_end[0])
            answered.set()

    near_end: list[SimulatedStream] = []
    try:
        for seconds in _ATTEMPT_SECONDS:
            network.put(there, b"", arrive)
            with trio.move_on_after(seconds):
                await answered.wait()
                break
        found = outcome[0] if outcome else "nobody answered"
    except BaseException:
        if near_end:
            near_end[0].close()
        outcome.append("the dialler gave up")
        raise
    if isinstance(found, SimulatedStream):
        found._check()
        return found
    for end in near_end:
        end.close()
    log.add(there.name, f"fails: {found}")
    raise UnavailableError(f"cannot connect to {address}: {found}")


async def listen(address: str, security: Any = None) -> SimulatedListener:
    """Listen at the running task's host."""
    await trio.lowlevel.checkpoint()
    owner = current_place.get()
    if address in owner.listeners:
        raise UnavailableError(f"cannot listen at {address}: another server already does")
    return SimulatedListener(owner, address)


register_scheme(SCHEME, Scheme(connect, listen))

__all__ = ["SCHEME", "HostView", "SimulatedListener", "SimulatedStream", "connect", "current_place", "listen"]
