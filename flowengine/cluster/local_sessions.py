"""Sessions at a master of the same process, which call its handlers without a connection.

A server that listens registers here under its address. A session whose target is that address finds it, if
both belong to the same run of trio, hold the same key and mean the same cluster. If they do not, the session
dials, and the server refuses the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from hmac import compare_digest
from typing import Any, Final

import trio

from flowengine.cluster.completion import Completion
from flowengine.core.arrays import Value
from flowengine.transport.calls.service import IncomingCall, Reply, Service, as_reply
from flowengine.transport.calls.templates import CallTemplate
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.wire.identity import Identity

#: The schemes of addresses that a target can have.
_SCHEMES: Final = ("tcp://", "tls://")


class NearMaster:
    """A server, as the sessions of its process see it."""

    __slots__ = ("_key", "_token", "address", "cluster", "is_open", "service")

    def __init__(self, address: str, cluster: str, key: bytes | None, service: Service) -> None:
        self.address = address
        self.cluster = cluster
        self.service = service
        self.is_open = True
        self._key = key
        self._token = trio.lowlevel.current_trio_token()

    def takes(self, cluster: str, key: bytes) -> bool:
        """Return whether a session with this cluster's name and this key may call the server directly."""
        return (
            self.is_open
            and self._token is trio.lowlevel.current_trio_token()
            and self.cluster == cluster
            and self._key is not None
            and compare_digest(self._key, key)
        )


_masters: Final[dict[str, NearMaster]] = {}


def enter(address: str, cluster: str, key: bytes | None, service: Service) -> NearMaster | None:
    """Register a server for sessions of this process; None if its address cannot be a session's target."""
    if not address.startswith(_SCHEMES):
        return None
    near = _masters[address] = NearMaster(address, cluster, key, service)
    return near


def leave(near: NearMaster) -> None:
    """Accept no more calls."""
    near.is_open = False
    if _masters.get(near.address) is near:
        del _masters[near.address]


def find(address: str, cluster: str, key: bytes) -> NearMaster | None:
    """Return the server of this run of trio at an address, if it accepts this key."""
    near = _masters.get(address)
    return near if near is not None and near.takes(cluster, key) else None


class NearPeer:
    """A master in this process, called instead of a connection.

    It has the part of `Peer` that sessions use.
    """

    def __init__(self, near: NearMaster, identity: Identity) -> None:
        self._near = near
        self._identity = identity
        self._is_closed = False
        #: The calls under way that are not steps. Closing does not wait for them.
        self._scopes: set[trio.CancelScope] = set()

    @property
    def is_open(self) -> bool:
        """Whether calls can be made."""
        return self._near.is_open and not self._is_closed

    async def call(self, method: str, arguments: Any = None, tensors: Sequence[Value] = ()) -> Reply:
        """Call a handler and wait for its answer.

        Raises its error; ConnectionLostError if the server is gone.
        """
        if not self.is_open:
            raise ConnectionLostError(f"'{method}' cannot be called: {self._near.address} has closed")
        await trio.lowlevel.checkpoint_if_cancelled()
        handler = self._near.service.find(method)
        request = IncomingCall(self._identity, method, arguments, list(tensors))
        if handler.begin is not None:
            completion = Completion()
            running = handler.begin(request, completion.settle)
            if running is not None:
                return as_reply(await completion.wait(running))
        result = handler.function(request)
        return as_reply(await self._while_open(method, result) if handler.is_async else result)

    async def _while_open(self, method: str, answer: Awaitable[Any]) -> Any:
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await answer
            finally:
                self._scopes.discard(scope)
        raise ConnectionLostError(f"'{method}' has no answer: the session was closed")

    async def call_again(self, template: CallTemplate, *numbers: int) -> Reply:
        """Prepare a `call` that will be repeated."""
        return await self.call(template.method, template.arguments(*numbers))

    async def aclose(self, reason: str = "") -> None:
        """Accept no more calls. Those under way end with ConnectionLostError."""
        self._is_closed = True
        for scope in self._scopes:
            scope.cancel()
        await trio.lowlevel.checkpoint()


__all__ = ["NearMaster", "NearPeer", "enter", "find", "leave"]
