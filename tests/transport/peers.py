"""Peers that tests talk to: a service that counts, servers, links opened by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from flowengine.core.errors import (
    FailedPreconditionError,
)
from flowengine.transport.connection import Connection
from flowengine.transport.dialling import connect
from flowengine.transport.limits import (
    Limits,
)
from flowengine.transport.peer import IncomingCall, Peer, Reply, Service
from flowengine.transport.server import listen, serve
from flowengine.transport.streams.inproc import stream_pair
from flowengine.transport.streams.schemes import ByteStream
from flowengine.transport.wire.states import Side
from tests.tools.links import KEY, identity

LIMITS = Limits(heartbeat_seconds=1, silence_seconds=5, frame_seconds=20, handshake_seconds=3)
linux_only = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts through /proc")


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
