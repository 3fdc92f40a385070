"""Peers over real and in-process streams: calls, cancellation, loss, limits, time, and flat costs."""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

from flowengine.core.errors import (
    CancelledError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
)
from flowengine.testing.links import KEY, FaultyStream, identity, output
from flowengine.transport import events as e
from flowengine.transport.calls.serving import ServedCalls
from flowengine.transport.connection import Connection
from flowengine.transport.dialling import connect
from flowengine.transport.errors import ConnectionLostError, LocalProtocolError, RemoteProtocolError
from flowengine.transport.limits import (
    CHUNK_BYTES,
    CHUNK_BYTES_MAX,
    CHUNK_BYTES_WITHIN_MACHINE,
    NAME_BYTES_MAX,
    Limits,
)
from flowengine.transport.peer import IncomingCall, Peer, Reply, Service
from flowengine.transport.server import listen, serve
from flowengine.transport.streams.inproc import stream_pair
from flowengine.transport.streams.schemes import ByteStream
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.identity import new_key
from flowengine.transport.wire.payload import Payload
from flowengine.transport.wire.placing import place_pieces
from flowengine.transport.wire.prefix import data_prefix, message_prefix
from flowengine.transport.wire.states import Side


class Counted(Service):
    """A service whose handlers leave traces."""

    def __init__(self) -> None:
        self.cancelled = 0
        self.running = 0
        self.go = trio.Event()
        super().__init__(
            {
                "echo": lambda request: Reply(request.arguments, request.tensors),
                "who": lambda request: request.peer.task,
                "wait": self.wait,
                "bad": self.bad,
                "typed": self.typed,
                "no_tensor": lambda request: Reply(None, [object()]),
                "no_msgpack": lambda request: object(),
            }
        )

    async def wait(self, request: IncomingCall) -> Any:
        self.running += 1
        try:
            await self.go.wait()
        except trio.Cancelled:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        return request.arguments

    def bad(self, request: IncomingCall) -> Any:
        raise ZeroDivisionError("by zero")

    async def typed(self, request: IncomingCall) -> Any:
        await trio.lowlevel.checkpoint()
        raise FailedPreconditionError("not yet").locate(
            node_name="w",
            op_type="Read",
            device="/cpu:0",
            input_shapes=("float32[2]",),
            creation_site="a.py:3",
        )


@asynccontextmanager
async def served(
    address: str = "tcp://127.0.0.1:0", *, server: dict[str, Any] | None = None, **client: Any
) -> AsyncIterator[tuple[Peer, Counted, str]]:
    """A client of a server; both end with the block."""
    service = Counted()
    listener = await listen(address)
    options: dict[str, Any] = {"identity": identity("/job:s/task:0"), "key": KEY, "service": service}
    async with trio.open_nursery() as nursery:
        where = await nursery.start(partial(serve, listener, **{**options, **(server or {})}))
        client.setdefault("identity", identity("/job:c/task:0"))
        client.setdefault("key", KEY)
        peer = await connect(nursery, where, **client)
        yield peer, service, where
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def joined(
    wrap: Callable[[ByteStream], ByteStream] = lambda stream: stream,
    *,
    limits: Limits | None = None,
    far_limits: Limits | None = None,
) -> AsyncIterator[tuple[Peer, Peer, Counted]]:
    """Two peers on one in-process stream, the near end wrapped."""
    service = Counted()
    near_stream, far_stream = stream_pair(address="inproc://joined")
    now = trio.current_time()
    near = Peer(
        wrap(near_stream),
        Connection(
            Side.DIALLER, identity("/job:c/task:0"), address="inproc://far", now=now, key=KEY, limits=limits
        ),
    )
    far = Peer(
        far_stream,
        Connection(
            Side.LISTENER,
            identity("/job:s/task:0"),
            address="inproc://near",
            now=now,
            key=KEY,
            limits=far_limits or limits,
        ),
        service=service,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(far.run)
        await nursery.start(near.run)
        yield near, far, service
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:0", "inproc://peer"])
async def test_calls_with_tensors_of_all_sizes(address: str) -> None:
    async with served(address) as (peer, _, _):
        assert peer.identity.task == "/job:s/task:0"
        assert (await peer.call("who")).result == "/job:c/task:0"
        for size in (0, 1, 1000, 70_000, 3_000_000):
            array = np.arange(size, dtype=np.float32)
            reply = await peer.call("echo", {"size": size, "list": [None, True, 1.5, b"b"]}, [array, b"text"])
            assert reply.result == {"size": size, "list": [None, True, 1.5, b"b"]}
            assert np.array_equal(reply.tensors[0], array)
            assert reply.tensors[1] == b"text"


async def test_nothing_is_copied_on_tcp() -> None:
    async with served() as (peer, _, _):
        await peer.call("echo", None, [np.ones(5_000_000, np.float32)])
        counted = peer.statistics()
        assert counted.bytes_copied_to_send == counted.bytes_copied_to_receive == 0
        assert counted.bytes_received > 20_000_000


async def test_many_calls_at_once() -> None:
    async with served() as (peer, _, _):
        results: dict[int, Any] = {}

        async def one(index: int) -> None:
            size = 100_000 if index % 10 == 0 else 5
            reply = await peer.call("echo", index, [np.full(size, index)])
            assert (reply.tensors[0] == index).all()
            results[index] = reply.result

        async with trio.open_nursery() as nursery:
            for index in range(300):
                nursery.start_soon(one, index)
        assert results == {index: index for index in range(300)}
        assert peer.statistics().calls_waiting == 0


async def test_errors_come_back_as_what_they_were() -> None:
    async with served() as (peer, _, _):
        with pytest.raises(FailedPreconditionError, match="not yet") as caught:
            await peer.call("typed")
        error = caught.value
        assert (error.node_name, error.op_type, error.device) == ("w", "Read", "/cpu:0")
        assert error.input_shapes == ("float32[2]",)
        assert error.creation_site == "a.py:3"
        with pytest.raises(InternalError, match="ZeroDivisionError: by zero"):
            await peer.call("bad")
        with pytest.raises(NotFoundError, match="no method 'nothing' here; there are: bad, echo"):
            await peer.call("nothing")
        with pytest.raises(InvalidArgumentError, match="only tensors can"):
            await peer.call("no_tensor")
        with pytest.raises(InvalidArgumentError, match="only None, bool"):
            await peer.call("no_msgpack")
        with pytest.raises(InvalidArgumentError, match="only None, bool"):
            await peer.call("echo", object())
        assert (await peer.call("echo", 1)).result == 1


async def test_a_cancelled_call_is_cancelled_there() -> None:
    async with served() as (peer, service, _):
        with trio.move_on_after(5) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(peer.call, "wait")
                while not service.running:
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        while service.running:
            await trio.lowlevel.checkpoint()
        assert service.cancelled == 1
        assert (await peer.call("echo", 2)).result == 2
        assert peer.statistics().calls_waiting == 0


async def test_a_large_call_that_is_cancelled_is_not_sent_on() -> None:
    async with joined() as (near, far, _):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(near.call, "echo", None, [np.zeros(50_000_000, np.uint8)])
                await trio.lowlevel.checkpoint()
                scope.cancel()
        assert (await near.call("echo", 1)).result == 1
        assert near.statistics().bytes_sent < 10_000_000
        assert far.connection.requests.waiting == 0


async def test_a_small_call_does_not_wait_for_a_large_one() -> None:
    async with served("inproc://lanes") as (peer, _, _):
        done: list[str] = []

        async def large() -> None:
            await peer.call("echo", None, [np.zeros(30_000_000, np.uint8)])
            done.append("large")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(large)
            await trio.lowlevel.checkpoint()
            await peer.call("echo", 1)
            done.append("small")
        assert done == ["small", "large"]


async def test_calls_beyond_the_limit_wait_their_turn() -> None:
    async with served(server={"limits": Limits(calls_max=3)}) as (peer, service, _):
        answers: list[int] = []

        async def one(index: int) -> None:
            answers.append((await peer.call("wait", index)).result)

        async with trio.open_nursery() as nursery:
            for index in range(10):
                nursery.start_soon(one, index)
            while service.running < 3:
                await trio.lowlevel.checkpoint()
            assert peer.statistics().calls_waiting == 3
            service.go.set()
        assert sorted(answers) == list(range(10))


async def test_what_the_other_side_does_not_take_is_an_error_here() -> None:
    limits = Limits(message_bytes_max=1000, request_bytes_max=2000)
    async with served(server={"limits": limits}) as (peer, _, _):
        with pytest.raises(ResourceExhaustedError, match=r"takes messages of 1000 bytes.*message_bytes_max"):
            await peer.call("echo", None, [np.zeros(1001, np.uint8)])
        with pytest.raises(ResourceExhaustedError, match="takes calls of 2000 bytes"):
            await peer.call("echo", None, [np.zeros(2001, np.uint8)])
        with pytest.raises(ResourceExhaustedError, match="takes headers"):
            await peer.call("echo", "x" * (2 << 20))
        assert (await peer.call("echo", 1)).result == 1


async def test_a_lost_connection_fails_what_was_in_flight_with_who_and_why() -> None:
    async with joined(lambda stream: FaultyStream(stream, cut_after_bytes=3000)) as (near, far, _):
        assert (await near.call("echo", 1)).result == 1
        errors: list[OpError] = []

        async def ask() -> None:
            try:
                await near.call("wait")
            except ConnectionLostError as error:
                errors.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            nursery.start_soon(ask)
            with pytest.raises(ConnectionLostError, match=r"'echo' has no answer: .*was cut"):
                await near.call("echo", None, [np.zeros(10_000, np.uint8)])
        assert [error.message.split(":")[0] for error in errors] == ["'wait' has no answer"] * 2
        with pytest.raises(ConnectionLostError, match=r"'echo' cannot be called: .*was cut"):
            await near.call("echo")
        assert "closed" in (await far.wait_ended()).message


async def test_goodbye() -> None:
    async with served() as (peer, service, _):
        errors: list[OpError] = []

        async def ask() -> None:
            try:
                await peer.call("wait")
            except OpError as error:
                errors.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while not service.running:
                await trio.lowlevel.checkpoint()
            await peer.aclose("leaving")
        (error,) = errors
        assert isinstance(error, CancelledError | ConnectionLostError)
        assert "'wait' has no answer" in error.message
        assert isinstance(peer.failure, ConnectionLostError | CancelledError)
        await peer.aclose()
        while service.running:
            await trio.lowlevel.checkpoint()
        assert service.cancelled == 1


async def test_the_reason_of_a_goodbye_arrives() -> None:
    async with joined() as (near, far, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(near.aclose, "shutting down")
            assert "said goodbye: shutting down" in (await far.wait_ended()).message
        with pytest.raises(LocalProtocolError):
            near.connection.goodbye()


async def test_drain_lets_calls_finish() -> None:
    async with served() as (peer, service, _):
        results: list[Any] = []

        async def ask() -> None:
            results.append((await peer.call("wait", 7)).result)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while not service.running:
                await trio.lowlevel.checkpoint()
            nursery.start_soon(peer.drain)
            await trio.lowlevel.checkpoint()
            service.go.set()
        assert results == [7]
        assert not peer.is_open


async def test_nonsense_from_a_known_peer_is_explained_to_it() -> None:
    def damage(chance: Any, view: memoryview) -> None:
        if is_on and bytes(view[:2]) == b"FE" and view[3] == 1:
            view[0] = 0

    is_on: list[bool] = []
    async with joined(lambda stream: FaultyStream(stream, damage=damage)) as (near, far, _):
        await near.call("echo")
        is_on.append(True)
        with pytest.raises(ConnectionLostError, match="does not speak FlowEngine's protocol"):
            await near.call("echo")
        assert isinstance(near.failure, RemoteProtocolError)
        assert "said goodbye" in (await far.wait_ended()).message


LIMITS = Limits(heartbeat_seconds=1, silence_seconds=5, frame_seconds=20, handshake_seconds=3)


async def test_a_quiet_connection_stays(autojump_clock: trio.testing.MockClock) -> None:
    async with joined(limits=LIMITS) as (near, far, _):
        await trio.sleep(1000)
        assert near.is_open
        assert far.is_open
        assert near.statistics().round_trip_seconds == 0
        assert (await near.call("echo", 1)).result == 1


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


async def open_by_hand(stream: ByteStream, far: Connection | None = None) -> None:
    """Prove oneself on a bare stream, and then do with it what no peer does."""
    if far is None:
        far = Connection(Side.DIALLER, identity(), address="y", now=0, key=KEY)
    while not far.peer:
        buffers = far.data_to_send()
        if buffers:
            far.bytes_sent(await stream.send_some(buffers))
        else:
            far.bytes_received(await stream.receive_into(far.receive_buffers()), 0)
    far.take_events()


def listening_peer(stream: ByteStream) -> Peer:
    now = trio.current_time()
    return Peer(stream, Connection(Side.LISTENER, identity(), address="x", now=now, key=KEY, limits=LIMITS))


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
    """Where the stream says so; and none is longer than a receiver takes."""
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


async def test_a_stranger_that_says_nothing_is_shown_out(autojump_clock: trio.testing.MockClock) -> None:
    stream, _silent = stream_pair()
    peer = Peer(
        stream,
        Connection(Side.LISTENER, identity(), address="x", now=trio.current_time(), key=KEY, limits=LIMITS),
    )
    with pytest.raises(UnavailableError, match="did not finish the handshake within 3 s"):
        await peer.run()
    assert trio.current_time() <= 5


async def test_refusals_over_sockets() -> None:
    async with served() as (peer, _, address), trio.open_nursery() as nursery:
        who = identity("/job:c/task:1")
        with pytest.raises(UnauthenticatedError, match="hold different keys"):
            await connect(nursery, address, identity=who, key=new_key())
        with pytest.raises(FailedPreconditionError, match="belongs to cluster 'other'"):
            await connect(nursery, address, identity=identity(cluster="other"), key=KEY)
        with pytest.raises(FailedPreconditionError, match="has restarted"):
            await connect(nursery, address, identity=who, key=KEY, expected_incarnation=99)
        with pytest.raises(FailedPreconditionError, match="is /job:s/task:0, not /job:s/task:9"):
            await connect(nursery, address, identity=who, key=KEY, expected_task="/job:s/task:9")
        with pytest.raises(InvalidArgumentError, match="open to anybody"):
            await connect(nursery, address, identity=who)
        assert (await peer.call("echo", 1)).result == 1


async def test_a_server_needs_a_key() -> None:
    listener = await listen("tcp://127.0.0.1:0")
    with pytest.raises(InvalidArgumentError, match="open to anybody"):
        await serve(listener, identity=identity())
    listener.close()


async def test_a_server_bounds_its_connections() -> None:
    async with served(server={"connections_max": 2}) as (peer, _, address), trio.open_nursery() as nursery:
        second = await connect(nursery, address, identity=identity(), key=KEY)
        with pytest.raises(UnavailableError):
            await connect(nursery, address, identity=identity(), key=KEY)
        await second.aclose()
        while True:
            try:
                third = await connect(nursery, address, identity=identity(), key=KEY)
            except UnavailableError:
                continue
            break
        assert (await third.call("echo", 3)).result == 3
        assert (await peer.call("echo", 1)).result == 1
        await third.aclose()


async def test_a_peer_works_over_a_stream_in_pieces() -> None:
    for seed in range(5):
        wrap: Any = partial(FaultyStream, seed=seed, piece_bytes_max=9000)
        async with joined(wrap) as (near, _, _):
            array = np.arange(100_000)
            reply = await near.call("echo", seed, [array, b"x" * 70_000])
            assert np.array_equal(reply.tensors[0], array)
            assert reply.tensors[1] == b"x" * 70_000


async def talk_for_ever(peer: Peer) -> None:
    while True:
        await peer.call("echo", None, [np.zeros(100)])


async def test_cutting_anywhere_fails_cleanly() -> None:
    for count in range(0, 4000, 37):
        with trio.fail_after(10):
            try:
                wrap: Any = partial(FaultyStream, cut_after_bytes=count)
                async with joined(wrap) as (near, _, _):
                    with pytest.raises(ConnectionLostError):
                        await talk_for_ever(near)
            except* UnavailableError:
                assert count < 1000


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


linux_only = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts through /proc")


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


async def test_a_long_error_fits_the_smallest_header() -> None:
    def bad(request: IncomingCall) -> Any:
        raise InvalidArgumentError("ü\udcff" * 5000).locate(
            node_name="n" * 5000, op_type="T", input_shapes=["s" * 300] * 100, creation_site="c" * 5000
        )

    service = Service({"bad": bad})
    for limits in (Limits(), Limits(header_bytes_max=4096)):
        async with served(server={"service": service}, limits=limits) as (peer, _, _):
            with pytest.raises(InvalidArgumentError, match=r"üüü|ü\\udcff"):
                await peer.call("bad")
            assert peer.is_open


@pytest.mark.parametrize("name", ["", "x" * (NAME_BYTES_MAX + 1)])
def test_a_method_has_a_name_that_can_be_called(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="a method's name has 1 to"):
        Service({name: lambda call: Reply()})
    Service({"x" * NAME_BYTES_MAX: lambda call: Reply()})
