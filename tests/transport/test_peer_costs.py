"""The costs of peers: turns of the loop, chunks, memory and descriptors, which stay flat."""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import trio
import trio.testing

from flowengine.core.errors import (
    FailedPreconditionError,
)
from flowengine.transport.connection import Connection
from flowengine.transport.dialling import connect
from flowengine.transport.limits import (
    CHUNK_BYTES,
    CHUNK_BYTES_MAX,
    CHUNK_BYTES_WITHIN_MACHINE,
)
from flowengine.transport.streams.inproc import stream_pair
from flowengine.transport.streams.schemes import ByteStream
from flowengine.transport.wire.payload import Payload
from flowengine.transport.wire.placing import place_pieces
from flowengine.transport.wire.prefix import data_prefix
from flowengine.transport.wire.states import Side
from tests.tools.links import KEY, identity, output
from tests.transport.peers import linux_only, listening_peer, open_by_hand, served


class Flood:
    """A stream that, once it is told so, has everything at hand and takes everything: nobody ever waits."""

    is_authenticated = False
    bytes_copied = 0

    def __init__(self, stream: ByteStream, *, piece: int, is_within_machine: bool = False) -> None:
        self._stream = stream
        self._piece = piece
        self.is_within_machine = is_within_machine
        self.address = stream.address
        #: What is at hand, where that is what is received.
        self.incoming: deque[memoryview] = deque()
        #: What was sent, from when on it is not passed on.
        self.outgoing: list[bytes] | None = None

    async def receive_into(self, buffers: Sequence[memoryview]) -> int:
        if not self.incoming:
            return await self._stream.receive_into(buffers)
        if self._piece < len(buffers[0]):
            buffers = [buffers[0][: self._piece]]
        return place_pieces(buffers, self.incoming)

    async def send_some(self, buffers: Sequence[memoryview | bytes]) -> int:
        return self.send_nowait(buffers) or await self._stream.send_some(buffers)

    def send_nowait(self, buffers: Sequence[memoryview | bytes]) -> int:
        if self.outgoing is None:
            return self._stream.send_nowait(buffers)
        data = b"".join(buffers)[: self._piece]
        self.outgoing.append(data)
        return len(data)

    def close(self) -> None:
        self._stream.close()


@pytest.mark.parametrize("piece", [1000, 30_000_000])
async def test_who_has_much_at_hand_lets_others_run(piece: int) -> None:
    near_stream, far_stream = stream_pair()
    flood = Flood(near_stream, piece=piece)
    near = listening_peer(flood)
    far = Connection(Side.DIALLER, identity(), address="y", now=0, key=KEY)
    size = 1_000_000 if piece == 1000 else 30_000_000
    # What two turns may take: one may be the last before somebody looks, the other the first after that.
    most = 2 * min(33 * piece, 3 << 20)

    async def watch(count: Callable[[], int]) -> None:
        before = count()
        while before < size:
            await trio.lowlevel.checkpoint()
            assert count() - before <= most, "others did not run"
            before = count()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(near.run)
        await open_by_hand(far_stream, far)
        while not near.is_open:
            await trio.lowlevel.checkpoint()
        call = far.calls.request("nothing", None, Payload([np.zeros(size, np.uint8)]))
        data = output(far)
        assert call.number == 1
        # The first bytes wake the reader, the rest is there at once.
        flood.incoming.append(memoryview(data)[100:])
        await far_stream.send_some([data[:100]])
        await watch(lambda: near.connection.counters.bytes_received)
        # And the other way.
        flood.outgoing = []
        nursery.start_soon(near.call, "take", None, [np.zeros(size, np.uint8)])
        await watch(lambda: near.connection.counters.bytes_sent)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_within_machine", [False, True])
async def test_chunks_are_longer_within_a_machine(is_within_machine: bool) -> None:
    """Chunks are longer if the stream says that it is within a machine, and never over a receiver's limit."""
    near_stream, far_stream = stream_pair()
    flood = Flood(near_stream, piece=1 << 30, is_within_machine=is_within_machine)
    near = listening_peer(flood)
    expected = CHUNK_BYTES_WITHIN_MACHINE if is_within_machine else CHUNK_BYTES
    async with trio.open_nursery() as nursery:
        nursery.start_soon(near.run)
        await open_by_hand(far_stream, Connection(Side.DIALLER, identity(), address="y", now=0, key=KEY))
        while not near.is_open:
            await trio.lowlevel.checkpoint()
        flood.outgoing = []
        nursery.start_soon(near.call, "take", None, [np.zeros(4 << 20, np.uint8)])
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    sent = b"".join(flood.outgoing)
    chunks = [sent.count(data_prefix(1, count)) for count in (CHUNK_BYTES, CHUNK_BYTES_WITHIN_MACHINE)]
    assert chunks[is_within_machine] == (4 << 20) // expected
    assert not chunks[not is_within_machine]
    assert CHUNK_BYTES < CHUNK_BYTES_WITHIN_MACHINE <= CHUNK_BYTES_MAX


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@linux_only
@pytest.mark.slow
async def test_many_messages_leave_memory_and_descriptors_flat() -> None:
    async with served() as (peer, _, _):
        array = np.ones(4, np.float32)

        async def some(count: int) -> None:
            for _ in range(count):
                await peer.call("echo", None, [array])

        async def round_of(count: int) -> None:
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(some, count // 20)

        await round_of(10_000)
        gc.collect()
        open_before = descriptors()
        grown: list[int] = []
        for _ in range(3):
            before = resident_bytes()
            await round_of(40_000)
            gc.collect()
            grown.append(resident_bytes() - before)
        # What is kept grows each time; pages that other tests had given back are touched again once.
        assert min(grown) < 1 << 20
        assert descriptors() == open_before
        assert peer.statistics().calls_made == 130_000


@linux_only
@pytest.mark.slow
async def test_many_connections_leave_memory_and_descriptors_flat() -> None:
    async with served() as (peer, _, address), trio.open_nursery() as nursery:
        array = np.ones(30_000, np.float32)

        async def visits(count: int) -> None:
            for index in range(count):
                who = identity("/job:c/task:1") if index % 5 else identity(cluster="other")
                try:
                    visitor = await connect(nursery, address, identity=who, key=KEY)
                except FailedPreconditionError:
                    continue
                await visitor.call("echo", index, [array])
                await visitor.aclose()

        await visits(100)
        await peer.call("echo")
        gc.collect()
        before, open_before = resident_bytes(), descriptors()
        await visits(1000)
        await peer.call("echo")
        gc.collect()
        assert resident_bytes() - before < 4 << 20
        assert descriptors() <= open_before + 1
