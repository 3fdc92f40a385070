"""Peers in time: heartbeats, links that are half open, messages without end, strangers that say nothing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

from flowengine.core.errors import (
    UnavailableError,
)
from flowengine.transport import events as e
from flowengine.transport.calls.serving import ServedCalls
from flowengine.transport.connection import Connection
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.peer import Peer
from flowengine.transport.streams.inproc import stream_pair
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.payload import Payload
from flowengine.transport.wire.prefix import message_prefix
from flowengine.transport.wire.states import Side
from tests.tools.links import KEY, ConnectionLink, FaultyStream, identity, output
from tests.transport.peers import LIMITS, Counted, joined, listening_peer, open_by_hand


async def test_a_quiet_connection_stays(autojump_clock: trio.testing.MockClock) -> None:
    async with joined(limits=LIMITS) as (near, far, _):
        await trio.sleep(1000)
        assert near.is_open
        assert far.is_open
        assert near.statistics().round_trip_seconds == 0
        assert (await near.call("echo", 1)).result == 1


def test_a_sign_of_life_is_the_answer_to_what_was_asked() -> None:
    """The answer to an earlier PING, behind memory that was lent, says nothing of how long this one takes."""
    link = ConnectionLink(limits=LIMITS)
    link.open()
    heartbeat = link.dialler.heartbeat
    assert heartbeat.ping() == 1
    link.dialler.handle_time(2.0)
    heartbeat.pong_came(1)
    assert heartbeat.round_trip_seconds is None
    link.dialler.handle_time(2.5)
    assert heartbeat.ping() == 3, "nothing was asked again meanwhile"
    heartbeat.pong_came(2)
    assert heartbeat.round_trip_seconds == 0.5


async def test_who_stood_still_blames_nobody_else(autojump_clock: trio.testing.MockClock) -> None:
    async with joined(limits=LIMITS) as (near, far, _):
        for seconds in (4.0, 60.0, 1000.0):
            # The process is stopped for so long: nothing was asked, and nothing could be heard.
            autojump_clock.jump(seconds)
            await trio.sleep(0.5)
            assert near.is_open
            assert far.is_open
            assert (await near.call("echo", 1)).result == 1


class Deaf(FaultyStream):
    """From a moment on, nothing arrives: the other side is half open."""

    is_deaf = False

    async def receive_into(self, buffers: Any) -> int:
        count = await super().receive_into(buffers)
        if self.is_deaf:
            await trio.sleep_forever()
        return count


async def test_a_half_open_link_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    async with joined(Deaf, limits=LIMITS) as (near, _, _):
        stream = near._stream
        assert isinstance(stream, Deaf)
        stream.is_deaf = True
        began = trio.current_time()
        with pytest.raises(ConnectionLostError, match=r"/job:s/task:0 at .* gave no sign of life for"):
            await near.call("wait")
        assert trio.current_time() - began <= 7


async def test_who_reads_nothing_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    near_stream, far_stream = stream_pair()
    near = listening_peer(near_stream)
    header = m.write_header(m.PING, 1)
    ping = message_prefix(len(header), 0, 0) + header

    async def speak() -> None:
        await open_by_hand(far_stream)
        while near.failure is None:
            await trio.sleep(0.5)
            await far_stream.send_some([ping])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(speak)
        await nursery.start(near.run)
        with pytest.raises(ConnectionLostError, match="has read nothing for"):
            await near.call("take", None, [np.zeros(2_000_000, np.uint8)])
        nursery.cancel_scope.cancel()


async def test_a_message_that_is_never_finished(autojump_clock: trio.testing.MockClock) -> None:
    near_stream, far_stream = stream_pair()
    near = listening_peer(near_stream)

    async def trickle() -> None:
        await open_by_hand(far_stream)
        await far_stream.send_some([message_prefix(1000, 0, 0)])
        while near.failure is None:
            await trio.sleep(1)
            await far_stream.send_some([b"x"])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trickle)
        await nursery.start(near.run)
        assert "left a message unfinished" in (await near.wait_ended()).message
        nursery.cancel_scope.cancel()


async def test_a_chunk_that_trickles_is_a_sign_of_life(autojump_clock: trio.testing.MockClock) -> None:
    """Every byte counts, also in the middle of a chunk where nothing comes of it."""
    near_stream, far_stream = stream_pair()
    near = listening_peer(near_stream)
    far = Connection(Side.DIALLER, identity(), address="y", now=0, key=KEY)
    array = np.arange(200_000, dtype=np.uint8)
    service = Counted()
    near._serving = ServedCalls(near.connection.wire, near.connection.requests, service, near._answered)
    arrived: list[float] = []

    async def speak() -> None:
        await open_by_hand(far_stream, far)
        far.calls.request("echo", None, Payload([array]))
        data = output(far)
        for place in range(0, len(data), len(data) // 15):
            await trio.sleep(1)
            await far_stream.send_some([data[place:][: len(data) // 15]])
            assert near.failure is None
            await trio.testing.wait_all_tasks_blocked()
            arrived.append(near.statistics().bytes_received)
        assert [later - earlier for earlier, later in pairwise(arrived)][:13] == [len(data) // 15] * 13
        while not (events := far.take_events()):
            far.bytes_received(await far_stream.receive_into(far.receive_buffers()), 0)
        (answer,) = events
        assert isinstance(answer, e.CallAnswer)
        assert np.array_equal(answer.tensors[0], array)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(near.run)
        await speak()
        assert near.is_open
        nursery.cancel_scope.cancel()


async def test_a_stranger_that_says_nothing_is_shown_out(autojump_clock: trio.testing.MockClock) -> None:
    stream, _silent = stream_pair()
    peer = Peer(
        stream,
        Connection(Side.LISTENER, identity(), address="x", now=trio.current_time(), key=KEY, limits=LIMITS),
    )
    with pytest.raises(UnavailableError, match="did not finish the handshake within 3 s"):
        await peer.run()
    assert trio.current_time() <= 5
