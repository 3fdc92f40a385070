"""Memory that is lent to a stream: every byte arrives, and nothing is given back before it has been read."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from sys import getrefcount
from typing import Any, Final

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from flowengine.core.errors import CancelledError
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport import events as e
from flowengine.transport.connection import Connection
from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.limits import LENT_PIECE_BYTES_MIN, LENT_TENSOR_BYTES_MIN, Limits
from flowengine.transport.peer import IncomingCall, Peer, Reply, Service
from flowengine.transport.streams import closed_sockets, tcp, zero_copy
from flowengine.transport.streams.schemes import lends_memory
from flowengine.transport.streams.zero_copy import can_send_pages
from flowengine.transport.tensors.exchange import Exchange
from flowengine.transport.wire import lent_memory
from flowengine.transport.wire.payload import Payload
from flowengine.transport.wire.states import Side
from tests.effort import examples
from tests.tools.links import KEY, ConnectionLink, feed, identity
from tests.transport.peers import open_by_hand
from tests.transport.streams.paging import needs_pages, no_pipe
from tests.transport.streams.test_streams import tcp_pair

#: Tensors of this many bytes are lent in the tests without sockets.
SMALL: Final = 70_000


def key(number: int, step: int = 1) -> RendezvousKey:
    return RendezvousKey(step, "/job:w/task:0/device:CPU:0", 0, f"edge{number}", "/job:w/task:1/device:CPU:0")


def is_held(arrays: list[Any], index: int) -> bool:
    """Whether anything but this list refers to the array."""
    return getrefcount(arrays[index]) > _ALONE


def _count(arrays: list[Any], index: int) -> int:
    return getrefcount(arrays[index])


_ALONE: Final = _count([np.zeros(3)], 0)


@pytest.fixture(scope="module", autouse=True)
def small_tensors() -> Iterator[None]:
    """Without sockets no system call has to pay off."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lent_memory, "LENT_TENSOR_BYTES_MIN", SMALL)
        patch.setattr(lent_memory, "LENT_PIECE_BYTES_MIN", 1)
        yield


class LendingLink:
    """A link whose dialler lends: what is on its way of a lent buffer is the sender's memory itself."""

    def __init__(self) -> None:
        self.link = ConnectionLink(limits=Limits(credit_bytes=1 << 30))
        self.link.open()
        self.near, self.far = self.link.dialler, self.link.listener
        self.near.heartbeat.lend_memory()
        self.near.send_chunks_of(30_000)
        self.under_way: deque[memoryview | bytes] = deque()

    def send(self, count: int) -> int:
        """Let the sender part with so many bytes."""
        buffers = self.near.data_to_send()
        lends_last = self.near.lends_last
        left = count
        for place, buffer in enumerate(buffers):
            piece = memoryview(buffer)[:left]
            if not piece:
                break
            if lends_last and place == len(buffers) - 1:
                self.under_way.append(_unheld(piece))
            else:
                self.under_way.append(bytes(piece))
            left -= len(piece)
        if buffers:
            self.near.bytes_sent(count - left)
        return count - left

    def receive(self, count: int) -> int:
        """Let the receiver read so many bytes."""
        left = count
        while left and self.under_way:
            buffer = memoryview(self.under_way.popleft())
            feed(self.far, buffer[:left])
            if len(buffer) > left:
                self.under_way.appendleft(buffer[left:])
            left -= min(left, len(buffer))
        return count - left

    def answer(self) -> None:
        """Carry what the receiver says."""
        self.link.move(self.far)

    def settle(self) -> None:
        while self.send(1 << 30) or self.receive(1 << 30) or self.link.move(self.far):
            pass


def _unheld(view: memoryview) -> memoryview:
    """The same memory, without a reference to what owns it."""
    address = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    interface = {"data": (address, False), "shape": (len(view),), "typestr": "|u1", "version": 3}
    return np.asarray(type("Memory", (), {"__array_interface__": interface})()).data


pieces = st.one_of(st.integers(1, 2000), st.integers(10_000, 300_000))


acts = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.sampled_from([100, SMALL - 1, SMALL, 150_000, 700_000])),
        st.tuples(st.just("end"), st.integers(1, 3)),
        st.tuples(st.just("send"), pieces),
        st.tuples(st.just("receive"), pieces),
        st.tuples(st.just("answer"), st.just(0)),
        st.tuples(st.just("beat"), st.just(0)),
    ),
    max_size=60,
)


@given(acts=acts)
@settings(max_examples=examples(300))
def test_nothing_is_given_back_before_it_was_read(acts: list[tuple[str, int]]) -> None:
    """Whoever finds an array unheld writes over it at once; what arrives is what was sent all the same."""
    run = LendingLink()
    arrays: list[Any] = []
    ended: set[int] = set()
    received: dict[int, Any] = {}

    def look() -> None:
        for index in range(len(arrays)):
            if not is_held(arrays, index):
                arrays[index].fill(255)
        for event in run.far.take_events():
            if isinstance(event, e.TensorArrival):
                received[int(event.key.edge.removeprefix("edge"))] = event.value

    for what, number in [*acts, ("settle", 0)]:
        if what == "push":
            step = len(arrays) % 3 + 1
            if step in ended:
                continue
            array = np.full(number, len(arrays) % 250, np.uint8)
            run.near.tensors.push(key(len(arrays), step), Payload([array]), False)
            arrays.append(array)
            del array
        elif what == "end":
            ended.add(number)
            run.near.tensors.end_step(number, CancelledError("enough"))
        elif what == "send":
            run.send(number)
        elif what == "receive":
            run.receive(number)
        elif what == "answer":
            run.answer()
        elif what == "beat":
            run.near.handle_time(6.0)
        else:
            run.settle()
        look()
    for index, value in received.items():
        assert set(np.unique(value)) == {index % 250}
    assert {index for index in range(len(arrays)) if index % 3 + 1 not in ended} <= received.keys()
    assert run.near.heartbeat.take_lent() == []
    assert not any(is_held(arrays, index) for index in range(len(arrays)))


def test_what_is_lent_when_a_connection_ends_is_handed_over() -> None:
    run = LendingLink()
    arrays = [np.full(SMALL, number, np.uint8) for number in range(3)]
    run.near.tensors.push(key(0), Payload([arrays[0]]), False)
    run.settle()
    run.near.tensors.push(key(1), Payload([arrays[1]]), False)
    run.near.tensors.push(key(2), Payload([arrays[2]]), False)
    while not run.near.lends_last:
        run.send(100)
    run.send(1000)
    run.near.close()
    lent = run.near.heartbeat.take_lent()
    assert [view[0] for view in lent] == [1]
    # The other was never given out.
    assert [is_held(arrays, index) for index in range(3)] == [False, True, False]
    del lent
    assert not is_held(arrays, 1)
    assert run.near.heartbeat.take_lent() == []


def test_what_is_abandoned_is_given_back_too() -> None:
    run = LendingLink()
    arrays = [np.zeros(SMALL, np.uint8)]
    run.near.tensors.push(key(0), Payload([arrays[0]]), False)
    while not run.near.lends_last:
        run.send(100)
    run.near.tensors.end_step(1, CancelledError("enough"))
    run.send(1 << 30)
    assert is_held(arrays, 0)
    run.settle()
    assert not is_held(arrays, 0)
    assert not run.far.take_events()


def test_after_goodbye_memory_stays_lent() -> None:
    """No PING may follow; the stream's end tells."""
    run = LendingLink()
    array = np.zeros(700_000, np.uint8)
    run.near.tensors.push(key(0), Payload([array]), False)
    while not run.near.lends_last:
        run.send(100)
    run.send(1000)
    run.near.goodbye()
    while run.send(1 << 30):
        pass
    assert len(run.near.heartbeat.take_lent()) == 1


def test_a_pong_answers_once() -> None:
    run = LendingLink()
    for _ in range(2):
        run.near.tensors.push(key(0), Payload([np.zeros(SMALL, np.uint8)]), False)
        run.settle()
    run.near.handle_time(6.0)
    for number in (2, 4):
        with pytest.raises(RemoteProtocolError, match=f"PONG {number} answers no PING"):
            run.near.heartbeat.pong_came(number)
    run.near.heartbeat.pong_came(3)
    assert run.near.heartbeat.round_trip_seconds is not None


@needs_pages
def test_who_lends_is_found_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(zero_copy, "_free", [])
    found_out = can_send_pages.__wrapped__
    assert found_out()
    with monkeypatch.context() as patch:
        patch.setenv(zero_copy.SWITCH, "0")
        assert not found_out()
    with monkeypatch.context() as patch:
        patch.setattr(zero_copy, "_HUGE_PAGES", tmp_path / "enabled")
        assert not found_out()
        (tmp_path / "enabled").write_text("always madvise [never]\n")
        assert not found_out()
    with monkeypatch.context() as patch:
        patch.setattr(zero_copy, "PagePipe", no_pipe)
        assert not found_out()


def test_where_nothing_is_lent_tensors_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "can_send_pages", lambda: False)

    async def main() -> None:
        async with exchanging() as pair:
            value = np.full(LENT_TENSOR_BYTES_MIN, 3, np.uint8)
            assert not lends_memory(pair.near._stream)
            await pair.carry(value, 1)

    trio.run(main)


# Peers.


class ExchangingPair:
    """Two tasks over TCP, with a call to ask whether what was said before has been heard."""

    def __init__(self, near: Peer, a: Exchange, b: Exchange) -> None:
        self.near = near
        self.a, self.b = a, b

    async def carry(self, value: Any, step: int) -> Any:
        sending, receiving = self.a.begin_step(step), self.b.begin_step(step)
        sending.send(key(1, step), value, False)
        arrived, _ = await receiving.wait_received(key(1, step))
        assert arrived is not value
        assert np.array_equal(arrived, value)
        return arrived


async def echo(request: IncomingCall) -> Reply:
    return Reply(None, [])


@asynccontextmanager
async def exchanging() -> AsyncIterator[ExchangingPair]:
    a, b = Exchange("/job:w/task:0"), Exchange("/job:w/task:1")
    near_stream, far_stream = await tcp_pair()
    now = trio.current_time()
    near = Peer(
        near_stream,
        Connection(Side.DIALLER, identity("/job:w/task:0"), address="b", now=now, key=KEY),
        tensors=a,
    )
    far = Peer(
        far_stream,
        Connection(Side.LISTENER, identity("/job:w/task:1"), address="a", now=now, key=KEY),
        tensors=b,
        service=Service({"echo": echo}),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(far.run)
        await nursery.start(near.run)
        while not far.is_open:
            await trio.lowlevel.checkpoint()
        yield ExchangingPair(near, a, b)
        nursery.cancel_scope.cancel()


@needs_pages
async def test_a_tensor_is_lent_until_it_was_read() -> None:
    async with exchanging() as pair:
        for step in range(1, 4):
            arrays = [np.random.default_rng(step).integers(0, 256, LENT_TENSOR_BYTES_MIN + step, np.uint8)]
            await pair.carry(arrays[0], step)
            # Its PING came before this call, so the PONG does before the answer.
            await pair.near.call("echo")
            assert not is_held(arrays, 0)
        assert not pair.near.connection.heartbeat.take_lent()


async def half_sent(arrays: list[Any], check: Callable[[Any], Awaitable[None]]) -> None:
    """Push the array to an end that reads nothing, end the connection, and check with the other stream."""
    near_stream, far_stream = await tcp_pair()
    a = Exchange("/job:w/task:0")
    near = Peer(
        near_stream,
        Connection(Side.LISTENER, identity("/job:w/task:0"), address="b", now=trio.current_time(), key=KEY),
        tensors=a,
    )
    far = Connection(Side.DIALLER, identity("/job:w/task:1"), address="a", now=0, key=KEY)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(near.run)
        await open_by_hand(far_stream, far)
        while not near.is_open:
            await trio.lowlevel.checkpoint()
        step = a.begin_step(1)
        step.send(key(1), arrays[0], False)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    del step, a, near
    await check(far_stream)


async def read_rest(stream: Any) -> int:
    room, count = memoryview(bytearray(1 << 20)), 0
    while more := await stream.receive_into([room]):
        count += more
    return count


@needs_pages
async def test_memory_is_kept_while_a_lost_receiver_may_read_it() -> None:
    arrays = [np.full(3 * LENT_TENSOR_BYTES_MIN, 5, np.uint8)]

    async def check(far_stream: Any) -> None:
        assert is_held(arrays, 0)
        await trio.testing.wait_all_tasks_blocked()
        assert is_held(arrays, 0)
        assert await read_rest(far_stream) > 100_000
        assert is_held(arrays, 0)
        far_stream.close()
        with trio.fail_after(120):
            while is_held(arrays, 0):
                await trio.lowlevel.checkpoint()

    await half_sent(arrays, check)


@needs_pages
def test_memory_that_outlives_its_run_is_given_back_later() -> None:
    arrays = [np.full(3 * LENT_TENSOR_BYTES_MIN, 5, np.uint8)]
    streams: list[Any] = []

    async def check(far_stream: Any) -> None:
        # Kept open beyond the run.
        streams.append(socket.socket(fileno=far_stream._socket.detach()))

    trio.run(half_sent, arrays, check)
    assert is_held(arrays, 0)
    assert len(closed_sockets._left) == 1
    streams.pop().close()
    closed_sockets.release_gone()
    assert not closed_sockets._left
    assert not is_held(arrays, 0)


def test_a_pong_gives_back_what_lay_before_its_ping_and_no_more() -> None:
    numbers = iter(range(1, 9))
    memory = lent_memory.LentMemory(lambda: next(numbers))
    pieces = [memoryview(bytes(LENT_PIECE_BYTES_MIN)) for _ in range(4)]
    for owner, piece in enumerate(pieces):
        assert memory.give_out(owner, piece, len(piece))
        memory.given_out(owner)
    memory.returned(2)
    left = memory.take()
    assert len(left) == 2
    assert left[0] is pieces[2]
    assert left[1] is pieces[3]
