"""Streams within one process: for tests, for simulation, and for a master beside its own worker.

Two pipes of bounded size, one for each direction. Bytes are copied in and out: it is a stream of bytes like
any other, and code that works on it works on TCP.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import trio

from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.streams.schemes import Scheme, register_scheme
from flowengine.transport.wire.placing import place_pieces

#: Bytes that a pipe holds before its writer waits.
CAPACITY_BYTES: Final = 256 * 1024

#: Streams that wait in a listener before dialling fails, as in a socket's backlog.
_BACKLOG: Final = 1024


class _Pipe:
    """One direction."""

    def __init__(self, capacity_bytes: int) -> None:
        self.pieces: deque[memoryview] = deque()
        self.size = 0
        self.capacity_bytes = capacity_bytes
        #: Nothing more will be written; the bytes in the pipe can still be read.
        self.is_ended = False
        #: The reader is gone.
        self.is_broken = False
        self.readers = trio.lowlevel.ParkingLot()
        self.writers = trio.lowlevel.ParkingLot()

    def write(self, buffers: Sequence[memoryview | bytes]) -> int:
        room = self.capacity_bytes - self.size
        done = 0
        for buffer in buffers:
            if not room:
                break
            # The copy is taken now: the writer may use its buffer again.
            piece = memoryview(bytes(memoryview(buffer)[:room]))
            if piece:
                self.pieces.append(piece)
            done += len(piece)
            room -= len(piece)
        self.size += done
        if done:
            self.readers.unpark_all()
        return done

    def read(self, buffers: Sequence[memoryview]) -> int:
        done = place_pieces(buffers, self.pieces)
        self.size -= done
        if done:
            self.writers.unpark_all()
        return done

    def wake_all(self) -> None:
        self.readers.unpark_all()
        self.writers.unpark_all()


class InprocStream:
    """One end of a pair of pipes."""

    is_authenticated = True

    def __init__(self, incoming: _Pipe, outgoing: _Pipe, address: str) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self.address = address
        self.bytes_copied = 0
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<InprocStream {self.address}>"

    async def wait_spoken(self) -> None:
        """Wait until there is something to read, or the other end is closed."""
        pipe = self._incoming
        while not (pipe.pieces or pipe.is_ended):
            self._check_open()
            await pipe.readers.park()

    async def receive_into(self, buffers: Sequence[memoryview]) -> int:
        pipe = self._incoming
        while True:
            self._check_open()
            count = pipe.read(buffers)
            if count or pipe.is_ended:
                self.bytes_copied += count
                return count
            await pipe.readers.park()

    async def send_some(self, buffers: Sequence[memoryview | bytes]) -> int:
        while True:
            count = self.send_nowait(buffers)
            if count:
                return count
            await self._outgoing.writers.park()

    def send_nowait(self, buffers: Sequence[memoryview | bytes]) -> int:
        self._check_open()
        if self._outgoing.is_broken:
            raise ConnectionLostError(f"the link to {self.address} broke: the other end is closed")
        return self._outgoing.write(buffers)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._incoming.is_broken = True
            self._incoming.pieces.clear()
            self._outgoing.is_ended = True
            self._incoming.wake_all()
            self._outgoing.wake_all()

    def _check_open(self) -> None:
        if self._is_closed:
            raise FailedPreconditionError(f"the stream to {self.address} is closed")


def stream_pair(
    *, capacity_bytes: int = CAPACITY_BYTES, address: str = "inproc://pair"
) -> tuple[InprocStream, InprocStream]:
    """Two ends of one stream."""
    there, back = _Pipe(capacity_bytes), _Pipe(capacity_bytes)
    return InprocStream(back, there, address), InprocStream(there, back, address)


class InprocListener:
    """A name within this process."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._arrived: deque[InprocStream] = deque()
        self._waiting = trio.lowlevel.ParkingLot()
        self._is_closed = False

    async def accept(self) -> InprocStream:
        await trio.lowlevel.checkpoint()
        while not self._arrived:
            if self._is_closed:
                raise FailedPreconditionError(f"{self.address} is closed")
            await self._waiting.park()
        return self._arrived.popleft()

    def arrive(self, stream: InprocStream) -> None:
        if len(self._arrived) >= _BACKLOG:
            raise UnavailableError(
                f"no server accepts connections at {self.address}: {_BACKLOG} streams wait"
            )
        self._arrived.append(stream)
        self._waiting.unpark()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            del _listeners[self.address]
            for stream in self._arrived:
                stream.close()
            self._arrived.clear()
            self._waiting.unpark_all()


_listeners: Final[dict[str, InprocListener]] = {}


async def connect(address: str, security: Any = None) -> InprocStream:
    await trio.lowlevel.checkpoint()
    listener = _listeners.get(address)
    if listener is None:
        raise UnavailableError(f"no server listens at {address} in this process")
    near, far = stream_pair(address=address)
    listener.arrive(far)
    return near


async def listen(address: str, security: Any = None) -> InprocListener:
    await trio.lowlevel.checkpoint()
    if not address.partition("://")[2]:
        raise InvalidArgumentError(f"{address!r} has no name: write inproc://name")
    if address in _listeners:
        raise UnavailableError(f"cannot listen at {address}: another server already does")
    listener = _listeners[address] = InprocListener(address)
    return listener


register_scheme("inproc", Scheme(connect, listen))
