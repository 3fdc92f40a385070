"""Nonsense from the other side: a clear error, bounded memory, and a server that goes on serving."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import trio

from flowengine.core.errors import OpError
from flowengine.transport import events as e
from flowengine.transport.connection import Connection
from flowengine.transport.dialling import connect
from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.peer import Reply, Service
from flowengine.transport.server import listen, serve
from flowengine.transport.streams.schemes import connect_stream
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.payload import Payload
from flowengine.transport.wire.states import State
from tests.tools.fuzz.frames import LIMITS, frame, nonsense
from tests.tools.links import KEY, ConnectionLink, feed, identity, output

#: What one connection may hold, whatever comes: its limits, with room for the objects around the bytes.
MEMORY_BYTES_MAX = 16 << 20


def give(connection: Connection, data: bytes, chance: random.Random) -> bool:
    """Feed nonsense; whether it was found out. Any other error than RemoteProtocolError comes through."""
    try:
        feed(connection, data, piece=chance.choice([1 << 20, 1000, 17]) if len(data) < 5000 else 1 << 20)
    except RemoteProtocolError:
        assert connection.state is State.CLOSED
        assert connection.receive_buffers() == []
        return True
    return False


def many(count: int, seed: int) -> Iterator[tuple[random.Random, bytes]]:
    for index in range(count):
        chance = random.Random(seed * 1_000_003 + index)
        yield chance, nonsense(chance)


def check_many(count: int, seed: int) -> None:
    found = 0
    tracemalloc.start()
    try:
        for chance, data in many(count, seed):
            if chance.random() < 0.2:
                link = ConnectionLink(limits=LIMITS)
                connection = link.listener
            else:
                link = ConnectionLink(limits=LIMITS)
                link.open()
                connection = link.listener
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            found += give(connection, data, chance)
            connection.take_events()
            assert tracemalloc.get_traced_memory()[1] - before < MEMORY_BYTES_MAX, data[:200]
    finally:
        tracemalloc.stop()
    # Some nonsense is only half a message, or happens to be right.
    assert found > count // 3


def test_malformed_inputs_end_in_an_error_and_bounded_memory() -> None:
    check_many(600, seed=1)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_hundred_thousand_malformed_inputs() -> None:
    check_many(100_000, seed=2)


def duplicates() -> list[tuple[str, list[bytes]]]:
    """Messages that may come once, and what makes them right the first time."""
    key = [1, "/job:a", 0, "e", "/job:b", []]
    call = frame(m.REQUEST, 1, "run", None)
    route = frame(m.ROUTE, 1, "/job:a", 0, "e", "/job:b")
    return [
        ("call 1 came where 2 is next", [call, call]),
        ("call 2 came where 1 is next", [frame(m.REQUEST, 2, "run", None)]),
        ("was pulled twice", [frame(m.PULL, key), frame(m.PULL, key)]),
        ("answer came to call 1", [frame(m.REPLY, 1, None)]),
        ("answer came to call 1", [frame(m.FAILURE, 1, 3, "no", {})]),
        ("cancelled before it was made", [frame(m.CANCEL, 1)]),
        ("never lent", [frame(m.CREDIT, 1)]),
        ("answers no PING", [frame(m.PONG, 0)]),
        ("pull that was not made", [frame(m.PUSH, key, True, True)]),
        ("dead is False", [frame(m.PUSH, key, False, False)]),
        ("dead is True", [frame(m.PUSH, key, True, False, [[4, [1]]], payload=b"x")]),
        ("route 2 was told where 1 is next", [frame(m.ROUTE, 2, "/job:a", 0, "e", "/job:b")]),
        ("route 1, which was not told", [frame(m.DELIVER, 1, 1, True)]),
        ("route 2, which was not told", [route, frame(m.DELIVER, 2, 1, True)]),
        ("dead is False", [route, frame(m.DELIVER, 1, 1, False)]),
        ("dead is True", [route, frame(m.DELIVER, 1, 1, True, [[4, [1]]], payload=b"x")]),
        ("describes tensors of 4 bytes", [route, frame(m.DELIVER, 1, 1, False, [[1, []]], payload=b"x")]),
        ("neither 0 nor 1", [route, frame(m.DELIVER, 1, 1, False, [[10, []]], payload=b"\2")]),
        ("bytes of credit", [route, *(frame(m.DELIVER, 1, n, True) for n in range(2049))]),
        ("characters were told", [frame(m.ROUTE, n, "a" * 4000, 0, "b" * 4000, "") for n in range(1, 526)]),
        ("describes tensors of 1 bytes", [frame(m.REQUEST, 1, "run", None, [[4, [1]]], payload=b"xy")]),
        ("more than 16 calls", [frame(m.REQUEST, n, "run", None) for n in range(1, 18)]),
        ("more than 16 pulls", [frame(m.PULL, [n, "", 0, "e", "", []]) for n in range(17)]),
        ("bytes of credit", [frame(m.PUSH, [n, "", 0, "e", "", []], True, False) for n in range(2049)]),
        ("bytes of credit", [frame(m.ANNOUNCE, [n, "", 0, "e", "", []], 1) for n in range(2049)]),
        ("GOODBYE came", [frame(m.GOODBYE, ""), frame(m.GOODBYE, "")]),
        ("REQUEST came", [frame(m.GOODBYE, ""), call]),
        ("HELLO came", [frame(m.HELLO, 1, 1, b"n" * 32)]),
    ]


@pytest.mark.parametrize("index", range(len(duplicates())))
def test_messages_out_of_turn(index: int) -> None:
    says, frames = duplicates()[index]
    link = ConnectionLink(limits=LIMITS)
    link.open()
    for data in frames[:-1]:
        feed(link.listener, data)
    with pytest.raises(RemoteProtocolError, match=says):
        feed(link.listener, frames[-1])
    # What was wrong is said to a peer that is known, once.
    feed(link.dialler, output(link.listener))
    if "GOODBYE" not in says and "REQUEST" not in says:
        assert link.dialler.state is State.LEFT


def test_a_call_of_which_only_the_beginning_is_here_cannot_be_cancelled() -> None:
    """A caller that gives up a call on its way says that the rest does not come, and no more."""
    link = ConnectionLink()
    link.open()
    link.dialler.calls.request("run", None, Payload([np.zeros(1 << 20, np.uint8)]))
    link.move(link.dialler, bytes_max=1000)
    assert link.listener.requests.waiting == 1
    with pytest.raises(RemoteProtocolError, match="call 1 was cancelled before it was made"):
        link.listener.requests.cancel_came(1)
    link.settle()
    link.listener.requests.cancel_came(1)
    assert [type(event) for event in link.listener.take_events()] == [e.CallArrival, e.CallCancellation]


def test_what_came_whole_before_the_nonsense_is_kept() -> None:
    link = ConnectionLink()
    link.open()
    with pytest.raises(RemoteProtocolError):
        feed(link.listener, frame(m.REQUEST, 1, "run", 5) + b"nonsense" * 3)
    (event,) = link.listener.take_events()
    assert event[:3] == (1, "run", 5)


def test_the_limit_of_bytes_in_calls() -> None:
    link = ConnectionLink(limits=LIMITS)
    link.open()
    payload = Payload([np.zeros(1 << 20, np.uint8)])
    link.dialler.calls.request("a", None, payload)
    link.dialler.calls.request("a", None, payload)
    assert not link.dialler.calls.has_room(Payload([np.zeros(1, np.uint8)]))
    link.dialler.calls.request("b", None, payload)
    with pytest.raises(RemoteProtocolError, match="calls that wait for their answer hold"):
        link.settle()


@pytest.mark.parametrize(
    ("count", "authenticated"),
    [(60, False), (60, True), pytest.param(2000, True, marks=pytest.mark.slow)],
)
async def test_a_server_goes_on_serving(count: int, authenticated: bool) -> None:
    """Nonsense over real sockets, in pieces and cut short, while a right client is answered all the time."""

    def echo(request: Any) -> Reply:
        return Reply(request.arguments, request.tensors)

    listener = await listen("tcp://127.0.0.1:0")
    async with trio.open_nursery() as nursery:
        run = partial(serve, listener, identity=identity("/job:s/task:0"), key=KEY, limits=LIMITS)
        address = await nursery.start(partial(run, service=Service({"echo": echo})))
        right = await connect(nursery, address, identity=identity("/job:c/task:0"), key=KEY)
        for index, (_, data) in enumerate(many(count, seed=3)):
            stream = await connect_stream(address)
            try:
                if authenticated:
                    await shake_hands(stream)
                view = memoryview(data)
                while view:
                    view = view[await stream.send_some([view]) :]
            except OpError:
                pass  # The server may hang up before all of it is sent.
            finally:
                stream.close()
            if index % 10 == 0:
                reply = await right.call("echo", index, [np.full(3, index)])
                assert reply.result == index
                assert reply.tensors[0].tolist() == [index] * 3
        await right.aclose()
        nursery.cancel_scope.cancel()


async def shake_hands(stream: Any) -> None:
    """Open a connection on a bare stream, so that what follows comes from a known peer."""
    link = ConnectionLink(limits=LIMITS)
    dialler = link.dialler
    while dialler.state is not State.OPEN:
        data = memoryview(output(dialler))
        while data:
            data = data[await stream.send_some([data]) :]
        count = await stream.receive_into(dialler.receive_buffers())
        assert count
        dialler.bytes_received(count, 0.0)
