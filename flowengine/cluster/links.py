"""Connections between tasks: opened on first use, one for each pair, and kept.

Of two tasks that need each other, the one whose name comes first dials. The other waits for it, and dials
only if no connection arrives. A master dials each task that it calls. Both ends of a connection serve calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import trio

from flowengine.core.errors import AbortedError, FailedPreconditionError, OpError, UnavailableError
from flowengine.transport.calls.service import Service
from flowengine.transport.dialling import connect
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.events import Event, TensorArrival
from flowengine.transport.limits import Limits
from flowengine.transport.peer import Peer
from flowengine.transport.tensors.exchange import Exchange
from flowengine.transport.wire.identity import Identity
from flowengine.transport.wire.states import State

#: The time that the later of two tasks waits for the earlier one to dial.
_PATIENCE_SECONDS: Final = 2.0


class Links:
    """The connections of one task.

    nursery     the nursery that runs them
    addresses   {task: "tcp://host:port"}, of all tasks that may be dialled
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        identity: Identity,
        key: bytes | None,
        exchange: Exchange,
        addresses: Mapping[str, str],
        limits: Limits | None = None,
        security: Any = None,
        connect_seconds: float = 10.0,
    ) -> None:
        self._nursery = nursery
        self._identity = identity
        self._key = key
        self._exchange = exchange
        #: As in `TensorSink`: called for every tensor.
        self.pushed: Callable[[Peer, TensorArrival], None] = exchange.pushed
        #: The handlers of either end of a connection; None while nothing is dialled.
        self.service: Service | None = None
        self.addresses = dict(addresses)
        self._limits = limits
        self._security = security
        self._connect_seconds = connect_seconds
        self._dialling: dict[str, trio.Lock] = {}
        self._arrivals = trio.lowlevel.ParkingLot()
        #: Called with a lost peer and the reason.
        self.on_lost: list[Callable[[Peer, OpError], None]] = []

    # Keeps `TensorSink`, for the exchange, and records connections as they open and close.

    def peer_opened(self, peer: Peer) -> None:
        old = self._exchange.peer(peer.identity.task)
        self._exchange.peer_opened(peer)
        if old is not None and old.identity.incarnation != peer.identity.incarnation:
            # No message may announce its end, if the machine or the network failed.
            task = peer.identity.task
            old.fail(ConnectionLostError(f"{old.connection.address}: {task} has restarted and dialled anew"))
        self._arrivals.unpark_all()

    def peer_event(self, peer: Peer, event: Event) -> None:
        self._exchange.peer_event(peer, event)

    def peer_lost(self, peer: Peer, error: OpError) -> None:
        self._exchange.peer_lost(peer, error)
        for call in self.on_lost:
            call(peer, error)

    # Finding a peer.

    def open_peer(self, task: str) -> Peer | None:
        """Return the open connection to a task, if there is one."""
        peer = self._exchange.peer(task)
        return peer if peer is not None and peer.connection.state is State.OPEN else None

    async def peer(self, task: str, incarnation: int = 0) -> Peer:
        """Return the connection to a task, and dial if there is none.

        incarnation   the expected incarnation of the task; 0 for any

        Raises UnavailableError if no server answers in time or no address is known, AbortedError if the task
        has another incarnation.
        """
        found = self._open_peer_in(task, incarnation)
        if found is None:
            async with self._dialling.setdefault(task, trio.Lock()):
                found = self._open_peer_in(task, incarnation) or await self._dial(task, incarnation)
        if incarnation not in (0, found.identity.incarnation):
            raise AbortedError(
                f"{task} has restarted: incarnation {incarnation} was meant, it is "
                f"{found.identity.incarnation} now"
            )
        return found

    def _open_peer_in(self, task: str, incarnation: int) -> Peer | None:
        """Return the open connection to this incarnation of a task, if there is one.

        A connection to another incarnation may belong to a lost machine, so the task itself is asked.
        """
        peer = self.open_peer(task)
        return peer if peer is not None and incarnation in (0, peer.identity.incarnation) else None

    async def meet(self, task: str, incarnation: int = 0) -> Peer:
        """Connect as `peer` does, to a task that also connects to us: the names decide which one dials."""
        if self._identity.task > task:
            with trio.move_on_after(_PATIENCE_SECONDS):
                while self.open_peer(task) is None:
                    await self._arrivals.park()
        return await self.peer(task, incarnation)

    async def _dial(self, task: str, incarnation: int) -> Peer:
        address = self.addresses.get(task)
        if address is None:
            raise UnavailableError(f"no address of {task} is known to {self._identity.task}")
        try:
            with trio.fail_after(self._connect_seconds):
                return await connect(
                    self._nursery,
                    address,
                    identity=self._identity,
                    key=self._key,
                    security=self._security,
                    limits=self._limits,
                    service=self.service,
                    tensors=self,
                    expected_task=task,
                    expected_incarnation=incarnation,
                )
        except trio.TooSlowError:
            raise UnavailableError(
                f"{task} at {address} did not answer {self._identity.task} within {self._connect_seconds:g} s"
            ) from None
        except FailedPreconditionError as error:
            # The other side says so: it has restarted, or is another task than expected.
            raise AbortedError(f"{task}: {error.message}") from None
        except OpError as error:
            error.message = f"{task}, dialled by {self._identity.task}: {error.message}"
            raise


__all__ = ["Links"]
