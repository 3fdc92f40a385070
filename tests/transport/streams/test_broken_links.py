"""Links that turn out to be broken at an awkward moment: while a call is sent, while waiters are failed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
import trio
import trio.testing

from flowengine.core.errors import AbortedError, UnavailableError
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport.connection import Connection
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.peer import Peer, Service
from flowengine.transport.streams.inproc import InprocStream, stream_pair
from flowengine.transport.tensors.rendezvous import LocalRendezvous
from flowengine.transport.wire.states import Side
from tests.tools.links import KEY, identity


class _Breaking:
    """A stream that is found broken by the first sending after `breaks` was set."""

    is_authenticated = False
    bytes_copied = 0

    def __init__(self, stream: InprocStream) -> None:
        self._stream = stream
        self.address = stream.address
        self.scope: trio.CancelScope | None = None

    async def receive_into(self, buffers: Sequence[memoryview]) -> int:
        return await self._stream.receive_into(buffers)

    async def send_some(self, buffers: Sequence[memoryview | bytes]) -> int:
        return await self._stream.send_some(buffers)

    def send_nowait(self, buffers: Sequence[memoryview | bytes]) -> int:
        if self.scope is not None:
            self.scope.cancel()
            raise UnavailableError("the link broke")
        return self._stream.send_nowait(buffers)

    def close(self) -> None:
        self._stream.close()


async def _peers(nursery: trio.Nursery) -> tuple[Peer, _Breaking]:
    near, far = stream_pair()
    stream = _Breaking(near)
    peers = []
    for side, end in ((Side.LISTENER, far), (Side.DIALLER, stream)):
        connection = Connection(side, identity(), address="inproc://pair", now=trio.current_time(), key=KEY)
        peers.append(Peer(end, connection, service=Service({"wait": _wait})))
    nursery.start_soon(peers[0].run)
    await nursery.start(peers[1].run)
    return peers[1], stream


async def _wait(_: object) -> None:
    await trio.sleep_forever()


async def test_a_call_that_is_cancelled_while_its_sending_breaks_the_link() -> None:
    """The task that calls is running when the call fails: it must not be woken as one that sleeps."""
    async with trio.open_nursery() as nursery:
        peer, stream = await _peers(nursery)
        with trio.CancelScope() as scope:
            stream.scope = scope
            with pytest.raises(ConnectionLostError, match="the link broke"):
                await peer.call("wait")
        await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()


async def test_calls_in_flight_fail_when_another_ones_sending_breaks_the_link() -> None:
    failures: list[ConnectionLostError] = []

    async def call(peer: Peer) -> None:
        try:
            await peer.call("wait")
        except ConnectionLostError as error:
            failures.append(error)

    async with trio.open_nursery() as nursery:
        peer, stream = await _peers(nursery)
        async with trio.open_nursery() as calls:
            for _ in range(3):
                calls.start_soon(call, peer)
            await trio.testing.wait_all_tasks_blocked()
            stream.scope = trio.CancelScope()
            calls.start_soon(call, peer)
        nursery.cancel_scope.cancel()
    assert len(failures) == 4


def _key(edge: str) -> RendezvousKey:
    return RendezvousKey(1, "/job:a/task:0/device:CPU:0", 1, edge, "/job:b/task:0/device:CPU:0", ())


def test_a_waiter_that_fails_the_others_is_no_error() -> None:
    rendezvous = LocalRendezvous()
    failed = []

    def done(edge: str, value: object, is_dead: bool, error: Exception | None) -> None:
        failed.append(edge)
        assert error is not None
        rendezvous.abort(error)

    for edge in ("x:0", "y:0", "z:0"):
        rendezvous.receive(_key(edge), partial(done, edge))
    rendezvous.fail_waiters(lambda _: True, AbortedError("gone"))
    assert sorted(failed) == ["x:0", "y:0", "z:0"]
    assert rendezvous.waiting_keys() == []
