"""Taking connections: one task for each, a bound on how many, and a smaller one on strangers.

    listener = await listen("tcp://127.0.0.1:0")
    nursery.start_soon(partial(serve, listener, identity=me, key=key, service=service))

A connection that fails, whatever it sent, ends alone; the server goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import trio

from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, OpError, UnavailableError
from flowengine.transport.calls.service import Service, TensorSink
from flowengine.transport.connection import Connection
from flowengine.transport.limits import Limits
from flowengine.transport.peer import Peer
from flowengine.transport.streams.schemes import ByteStream, Listener, listen_streams
from flowengine.transport.wire.identity import Identity
from flowengine.transport.wire.states import Side

logger = logging.getLogger("flowengine.transport")

#: Wait after a failed accept: descriptors may come back.
_RETRY_SECONDS: Final = 0.1


async def listen(address: str, *, security: Any = None) -> Listener:
    """A listener at this address. The host is part of it: to be reached from elsewhere, name another than
    127.0.0.1. Raises UnavailableError if the address is taken."""
    return await listen_streams(address, security)


class _Server:
    def __init__(self, make: Callable[[ByteStream], Peer], connections_max: int, strangers_max: int) -> None:
        self._make = make
        self._connections_max = connections_max
        self._strangers_max = strangers_max
        self._connections = 0
        self._strangers = 0

    async def run(self, listener: Listener, nursery: trio.Nursery) -> None:
        while True:
            try:
                stream = await listener.accept()
            except UnavailableError as error:
                logger.warning("%s", error.message)
                await trio.sleep(_RETRY_SECONDS)
                continue
            except FailedPreconditionError:
                return
            if self._connections >= self._connections_max or self._strangers >= self._strangers_max:
                logger.warning("%s: no room for %s", listener.address, stream.address)
                stream.close()
                continue
            self._connections += 1
            self._strangers += 1
            nursery.start_soon(self._serve, stream)

    async def _serve(self, stream: ByteStream) -> None:
        visit = _Visit(self)
        try:
            await self._make(stream).run(task_status=visit)
        except OpError as error:
            logger.info("%s: %s", stream.address, error.message)
        finally:
            stream.close()
            self._connections -= 1
            visit.started(None)

    def one_stranger_less(self) -> None:
        self._strangers -= 1


class _Visit:
    """One connection's place among the strangers, given up when it has proved itself or is over."""

    def __init__(self, server: _Server) -> None:
        self._server: _Server | None = server

    def started(self, peer: Peer | None) -> None:
        if self._server is not None:
            self._server.one_stranger_less()
            self._server = None


async def serve(
    listener: Listener,
    *,
    identity: Identity,
    key: bytes | None = None,
    limits: Limits | None = None,
    service: Service | None = None,
    tensors: TensorSink | None = None,
    connections_max: int = 4096,
    strangers_max: int = 256,
    task_status: Any = trio.TASK_STATUS_IGNORED,
) -> None:
    """Take connections until cancelled, or until the listener is closed and the last peer is gone.

    connections_max     peers at one time; who comes beyond it finds the connection closed
    strangers_max       of these, how many may still be proving who they are

    InvalidArgumentError without a key, unless the listener's streams prove their peers themselves.
    """
    if key is None and listener.address.startswith("tcp://"):
        raise InvalidArgumentError(
            f"{listener.address} would be open to anybody: give the cluster's key, or listen on tls://"
        )

    def make(stream: ByteStream) -> Peer:
        connection = Connection(
            Side.LISTENER,
            identity,
            address=stream.address,
            now=trio.current_time(),
            key=key,
            limits=limits,
            is_channel_authenticated=stream.is_authenticated,
        )
        return Peer(stream, connection, service=service, tensors=tensors)

    try:
        async with trio.open_nursery() as nursery:
            task_status.started(listener.address)
            await _Server(make, connections_max, strangers_max).run(listener, nursery)
    finally:
        listener.close()


__all__ = ["listen", "serve"]
