"""Dialling: it opens a stream to an address, a connection on it, and a peer that drives it.

A listener with too many unauthenticated connections closes some of them, honest ones among them (see
`unauthenticated_slots`). So a dialler whose connection is closed before it was open dials again, a few times.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import trio

from flowengine.core.errors import FailedPreconditionError
from flowengine.transport.calls.service import Service, TensorSink
from flowengine.transport.connection import Connection
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.limits import Limits
from flowengine.transport.peer import Peer
from flowengine.transport.streams.schemes import channel_binding, connect_stream
from flowengine.transport.wire.identity import Identity
from flowengine.transport.wire.states import Side

#: The pause before each further try. With 2,000 connections that reopen at once from the same address, the
#: listener closes about a third; all pauses together are less than the time limit for connecting.
_PAUSES_SECONDS: Final = (0.05, 0.1, 0.2, 0.4, 0.8)


async def connect(
    nursery: trio.Nursery,
    address: str,
    *,
    identity: Identity,
    key: bytes | None = None,
    security: Any = None,
    limits: Limits | None = None,
    service: Service | None = None,
    tensors: TensorSink | None = None,
    expected_task: str = "",
    expected_incarnation: int = 0,
) -> Peer:
    """Dial a peer at this address; a task of the nursery drives it until it ends or the nursery is cancelled.

    Raises UnavailableError if no server answers; ConnectionLostError if the other side closes the connection
    again and again before it is open; UnauthenticatedError if one side does not prove itself;
    FailedPreconditionError if the other side refuses with a reason, is another task than `expected_task`, or
    has restarted since `expected_incarnation`; RemoteProtocolError if it speaks another protocol.
    """
    dial = partial(
        _dial,
        nursery,
        address,
        identity=identity,
        key=key,
        security=security,
        limits=limits,
        service=service,
        tensors=tensors,
        expected_incarnation=expected_incarnation,
    )
    peer: Peer | None = None
    for pause in _PAUSES_SECONDS:
        try:
            peer = await dial()
        except ConnectionLostError:
            await trio.sleep(pause)
        else:
            break
    if peer is None:
        peer = await dial()
    if expected_task and peer.identity.task != expected_task:
        found = peer.identity.task
        await peer.aclose(f"this is {found}, {expected_task} was dialled")
        raise FailedPreconditionError(
            f"{address} is {found}, not {expected_task}: see the cluster's addresses"
        )
    return peer


async def _dial(
    nursery: trio.Nursery,
    address: str,
    *,
    identity: Identity,
    key: bytes | None,
    security: Any,
    limits: Limits | None,
    service: Service | None,
    tensors: TensorSink | None,
    expected_incarnation: int,
) -> Peer:
    """Try once. Raises ConnectionLostError if the connection ended, without a reason, before it was open."""
    stream = await connect_stream(address, security)
    try:
        connection = Connection(
            Side.DIALLER,
            identity,
            address=stream.address,
            now=trio.current_time(),
            key=key,
            limits=limits,
            is_channel_authenticated=stream.is_authenticated,
            channel_binding=channel_binding(stream),
            expected_incarnation=expected_incarnation,
        )
    except BaseException:
        stream.close()
        raise
    peer = Peer(stream, connection, service=service, tensors=tensors)
    await nursery.start(peer.run)
    return peer


__all__ = ["connect"]
