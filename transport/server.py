"""A server accepts connections: one task for each, a bound on their number, a smaller one for strangers.

    listener = await listen("tcp://127.0.0.1:0")
    nursery.start_soon(partial(serve, listener, identity=me, key=key, service=service))

A connection that fails, whatever it sent, ends alone; the server continues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any, Final

import trio

from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, OpError, UnavailableError
from flowengine.transport.calls.service import Service, TensorSink
from flowengine.transport.connection import Connection
from flowengine.transport.limits import STRANGER_SECONDS, Limits
from flowengine.transport.peer import Peer
from flowengine.transport.streams.schemes import (
    ByteStream,
    Listener,
    channel_binding,
    listen_streams,
    wait_spoken,
)
from flowengine.transport.unauthenticated_slots import UnauthenticatedSlot, UnauthenticatedSlots, origin_of
from flowengine.transport.wire.identity import Identity
from flowengine.transport.wire.states import Side

logger = logging.getLogger("flowengine.transport")

#: Wait after a failed accept: descriptors may become free.
_RETRY_SECONDS: Final = 0.1
#: No stranger loses its place before this time: a few round trips around the world.
_YOUNG_SECONDS: Final = 1.0
#: The number of silent connections for each stranger that has spoken.
_SILENT_PER_STRANGER: Final = 2


async def listen(address: str, *, security: Any = None) -> Listener:
    """Listen at this address. Its host matters: with 127.0.0.1, other machines cannot connect.

    Raises UnavailableError if the address is taken.
    """
    return await listen_streams(address, security)


class _ConnectionServer:
    """A server's connections: peers, strangers that are silent, and strangers that have said something."""

    def __init__(self, make: Callable[[ByteStream], Peer], connections_max: int, strangers_max: int) -> None:
        self._make = make
        self._connections_max = connections_max
        self._strangers_max = strangers_max
        self._connections = 0
        #: A silent connection costs little and has no claim to anything: an honest dialler speaks at once.
        self._silent = UnauthenticatedSlots(_SILENT_PER_STRANGER * strangers_max, young_seconds=0.0)
        self._strangers = UnauthenticatedSlots(strangers_max, young_seconds=_YOUNG_SECONDS)
        #: The number of connections that wait for a place among the strangers.
        self._waiting = 0

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
            if self._connections >= self._connections_max:
                logger.warning("%s: no room for %s", listener.address, stream.address)
                stream.close()
                continue
            self._connections += 1
            nursery.start_soon(self._serve, stream)

    async def _serve(self, stream: ByteStream) -> None:
        # All messages before the proof have this long, together.
        scope = trio.CancelScope(deadline=trio.current_time() + STRANGER_SECONDS)
        visit = _Visit(self._strangers, scope)
        try:
            with scope:
                origin = origin_of(stream.address)
                await self._spoken(stream, origin, scope)
                visit.place = await self._admitted(origin, scope)
                if visit.place is not None:
                    await self._make(stream).run(task_status=visit)
            if scope.cancelled_caught or visit.place is None:
                logger.info("%s did not prove in time who it is, or had to make room", stream.address)
        except OpError as error:
            logger.info("%s: %s", stream.address, error.message)
            error.__traceback__ = None  # the peer keeps it as its failure
        finally:
            stream.close()
            self._connections -= 1
            visit.started(None)

    async def _spoken(self, stream: ByteStream, origin: str, scope: trio.CancelScope) -> None:
        """Wait for the first byte of the other side."""
        place = self._silent.enter(origin, trio.current_time(), scope.cancel)
        if place is not None:
            try:
                await wait_spoken(stream)
            finally:
                self._silent.leave(place)

    async def _admitted(self, origin: str, scope: trio.CancelScope) -> UnauthenticatedSlot | None:
        """Return a place among the strangers, perhaps after another's time is over; None if there is none."""
        while True:
            now = trio.current_time()
            place = self._strangers.enter(origin, now, scope.cancel)
            if place is not None:
                return place
            again = self._strangers.room_at(origin)
            if again is None or self._waiting >= self._strangers_max:
                return None
            self._waiting += 1
            try:
                await trio.sleep_until(again)
            finally:
                self._waiting -= 1


class _Visit:
    """One connection's place among the strangers, until it has proved itself or is over."""

    def __init__(self, strangers: UnauthenticatedSlots, scope: trio.CancelScope) -> None:
        self._strangers = strangers
        self._scope = scope
        self.place: UnauthenticatedSlot | None = None

    def started(self, peer: Peer | None) -> None:
        if self.place is not None:
            self._strangers.leave(self.place)
        if peer is not None:
            self._scope.deadline = inf


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
    """Accept connections until cancelled, or until the listener is closed and the last peer is gone.

    connections_max     peers at one time; further connections are closed
    strangers_max       how many of them may still have to prove themselves, for 3 s at most; twice as many
                        may be
                        silent so far. Beyond that, the newest takes the place of the oldest of the address
                        that has most (see `unauthenticated_slots`)

    Raises InvalidArgumentError without a key, unless the listener's streams prove their peers themselves.
    """
    if key is None and listener.address.startswith("tcp://"):
        raise InvalidArgumentError(
            f"{listener.address} would be open to anybody: give the cluster's key, or listen on tls://"
        )

    limits = limits if limits is not None else Limits()
    limits = replace(limits, handshake_seconds=min(limits.handshake_seconds, STRANGER_SECONDS))

    def make(stream: ByteStream) -> Peer:
        connection = Connection(
            Side.LISTENER,
            identity,
            address=stream.address,
            now=trio.current_time(),
            key=key,
            limits=limits,
            is_channel_authenticated=stream.is_authenticated,
            channel_binding=channel_binding(stream),
        )
        return Peer(stream, connection, service=service, tensors=tensors)

    try:
        async with trio.open_nursery() as nursery:
            task_status.started(listener.address)
            await _ConnectionServer(make, connections_max, strangers_max).run(listener, nursery)
    finally:
        listener.close()


__all__ = ["listen", "serve"]
