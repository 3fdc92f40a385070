"""Links for tests: two connections joined by bytes without any I/O, and streams that misbehave by seed.

link = ConnectionLink(); link.open()
call = link.dialler.request("add", 1, Payload()); link.settle()

near, far = faulty_pair(seed=7, cut_after_bytes=1000)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import trio

from flowengine.core.errors import UnavailableError
from flowengine.transport.connection import Connection
from flowengine.transport.events import Event
from flowengine.transport.limits import Limits
from flowengine.transport.streams.inproc import stream_pair
from flowengine.transport.streams.schemes import ByteStream
from flowengine.transport.wire.identity import Identity
from flowengine.transport.wire.placing import place
from flowengine.transport.wire.states import Side, State

KEY = b"a key for tests, of no worth"


def identity(task: str = "/job:test/task:0", *, cluster: str = "test", incarnation: int = 1) -> Identity:
    """A peer for tests."""
    return Identity("worker", cluster, task, incarnation)


def feed(connection: Connection, data: bytes | memoryview, *, now: float = 0.0, piece: int = 1 << 30) -> None:
    """Give a connection bytes as a stream would, at most `piece` at a time, until it closes."""
    view = memoryview(data)
    while view:
        buffers = connection.receive_buffers()
        if not buffers:
            return
        count = place(buffers, view[:piece])
        connection.bytes_received(count, now)
        view = view[count:]


def output(connection: Connection, *, bytes_max: int = 1 << 30) -> bytes:
    """Return the bytes that a connection wants to send, taken as sent."""
    taken = bytearray()
    while len(taken) < bytes_max:
        buffers = connection.data_to_send()
        if not buffers:
            break
        piece = b"".join(buffers)[: bytes_max - len(taken)]
        connection.bytes_sent(len(piece))
        taken += piece
    return bytes(taken)


class ConnectionLink:
    """A dialler and a listener, and the bytes between them; nothing moves but by these methods."""

    def __init__(self, *, limits: Limits | None = None, listener_limits: Limits | None = None) -> None:
        self.dialler = Connection(
            Side.DIALLER,
            identity("/job:test/task:0", incarnation=10),
            address="link://listener",
            now=0.0,
            key=KEY,
            limits=limits,
        )
        self.listener = Connection(
            Side.LISTENER,
            identity("/job:test/task:1", incarnation=11),
            address="link://dialler",
            now=0.0,
            key=KEY,
            limits=listener_limits if listener_limits is not None else limits,
        )
        self.now = 0.0

    def other(self, connection: Connection) -> Connection:
        return self.listener if connection is self.dialler else self.dialler

    def move(self, sender: Connection, *, bytes_max: int = 1 << 30, piece: int = 1 << 30) -> int:
        """Carry some of what this side wants to send to the other; how much that was."""
        data = output(sender, bytes_max=bytes_max)
        feed(self.other(sender), data, now=self.now, piece=piece)
        return len(data)

    def settle(self, *, piece: int = 1 << 30) -> None:
        """Carry everything, both ways, until nobody has anything to say."""
        while self.move(self.dialler, piece=piece) + self.move(self.listener, piece=piece):
            pass

    def open(self) -> None:
        """Go through the handshake and forget that it happened."""
        self.settle()
        assert self.dialler.state is State.OPEN
        assert self.listener.state is State.OPEN
        self.dialler.take_events()
        self.listener.take_events()

    def events(self) -> tuple[list[Event], list[Event]]:
        """Return the events of both sides since the last call: the dialler's, the listener's."""
        return self.dialler.take_events(), self.listener.take_events()


class FaultyStream:
    """A byte stream that brings its bytes in odd pieces, late, damaged or not at all, as a seed says."""

    is_authenticated = False

    def __init__(
        self,
        stream: ByteStream,
        *,
        seed: int = 0,
        piece_bytes_max: int = 0,
        delay_seconds_max: float = 0.0,
        cut_after_bytes: int | None = None,
        damage: Callable[[random.Random, memoryview], None] | None = None,
    ) -> None:
        """Faults of what this end receives.

        piece_bytes_max     receive 1 to so many bytes at a time; 0 for as many as come
        delay_seconds_max   wait up to so long before each receiving
        cut_after_bytes     break the link once so many have come
        damage              change received bytes in place
        """
        self._stream = stream
        self._random = random.Random(seed)
        self._piece_bytes_max = piece_bytes_max
        self._delay_seconds_max = delay_seconds_max
        self._left = cut_after_bytes
        self._damage = damage
        self.address = stream.address
        self.bytes_copied = 0

    async def receive_into(self, buffers: Sequence[memoryview]) -> int:
        if self._delay_seconds_max:
            await trio.sleep(self._random.uniform(0, self._delay_seconds_max))
        room = len(buffers[0])
        if self._piece_bytes_max:
            room = min(room, self._random.randint(1, self._piece_bytes_max))
        if self._left is not None:
            room = min(room, self._left)
            if not room:
                self._stream.close()
                raise UnavailableError(f"the link to {self.address} was cut")
        view = buffers[0][:room]
        count = await self._stream.receive_into([view])
        if self._left is not None:
            self._left -= count
        if count and self._damage is not None:
            self._damage(self._random, view[:count])
        return count

    async def send_some(self, buffers: Sequence[memoryview | bytes]) -> int:
        return await self._stream.send_some(buffers)

    def send_nowait(self, buffers: Sequence[memoryview | bytes]) -> int:
        return self._stream.send_nowait(buffers)

    def close(self) -> None:
        self._stream.close()


def faulty_pair(*, seed: int = 0, **faults: Any) -> tuple[FaultyStream, FaultyStream]:
    """Two ends of an in-process stream, each with these faults and a seed of its own."""
    near, far = stream_pair()
    return FaultyStream(near, seed=2 * seed, **faults), FaultyStream(far, seed=2 * seed + 1, **faults)


__all__ = ["KEY", "ConnectionLink", "FaultyStream", "faulty_pair", "feed", "identity", "output"]
