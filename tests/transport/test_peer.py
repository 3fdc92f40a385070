"""Peers over real and in-process streams: calls, cancellation, loss, limits, time, and flat costs."""

from __future__ import annotations

from functools import partial
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
from flowengine.transport.dialling import connect
from flowengine.transport.errors import ConnectionLostError, LocalProtocolError, RemoteProtocolError
from flowengine.transport.limits import (
    NAME_BYTES_MAX,
    Limits,
)
from flowengine.transport.peer import IncomingCall, Peer, Reply, Service
from flowengine.transport.server import listen, serve
from flowengine.transport.wire.identity import new_key
from tests.tools.links import KEY, FaultyStream, identity
from tests.transport.peers import joined, served


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


async def test_a_large_answer_that_is_given_up_is_not_sent_on() -> None:
    """Part of it has come by then. The call is answered all the same, and the connection stays."""
    async with joined() as (near, far, _):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(near.call, "echo", None, [np.zeros(50_000_000, np.uint8)])
                while not far.connection.requests._replies:
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        assert (await near.call("echo", 1)).result == 1
        assert far.statistics().bytes_sent < 10_000_000
        assert near.statistics().calls_waiting == far.connection.requests.waiting == 0


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


async def test_a_call_that_is_given_up_makes_room_for_who_is_in_line(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """At once where the rest of it is not sent: the other side has no answer to a call that it never had."""
    async with joined(far_limits=Limits(request_bytes_max=50_000_000)) as (near, far, _):
        answers: list[int] = []
        given_up = trio.CancelScope()

        async def large() -> None:
            with given_up:
                await near.call("echo", None, [np.zeros(50_000_000, np.uint8)])

        async def small(number: int) -> None:
            answers.append((await near.call("echo", number, [np.zeros(1000, np.uint8)])).result)

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(large)
                await trio.lowlevel.checkpoint()
                nursery.start_soon(small, 1)
                nursery.start_soon(small, 2)
                while len(near._caller._room) < 2:
                    await trio.lowlevel.checkpoint()
                assert near.statistics().calls_waiting == 1
                given_up.cancel()
        assert sorted(answers) == [1, 2]
        assert far.connection.requests.waiting == near.statistics().calls_waiting == 0
    assert autojump_clock.autojump_threshold == 0


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


async def test_refusals_over_sockets() -> None:
    async with served() as (peer, _, address), trio.open_nursery() as nursery:
        who = identity("/job:c/task:1")
        with pytest.raises(UnauthenticatedError, match="have different keys"):
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
