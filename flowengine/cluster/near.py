"""Sessions at a master of this very process: its handlers are called, and no connection lies between.

A server that listens is entered here under its address; a session whose target is that address finds it, if
both belong to the same run of trio. It must hold the same key and mean the same cluster as if it dialled:
what would be refused over a connection is left to a connection to refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from hmac import compare_digest
from typing import Any, Final

import trio

from flowengine.core.arrays import Value
from flowengine.transport.calls.service import Cancellable, Reply, Request, Service, as_reply
from flowengine.transport.calls.templates import CallTemplate
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.wire.identity import Identity

#: The one scheme of addresses that a target can have.
_SCHEME: Final = "tcp://"
_UNYIELDED_MAX: Final = 8


class NearMaster:
    """A server, as sessions of its own process see it."""

    __slots__ = ("_key", "_token", "address", "cluster", "is_open", "service")

    def __init__(self, address: str, cluster: str, key: bytes | None, service: Service) -> None:
        self.address = address
        self.cluster = cluster
        self.service = service
        self.is_open = True
        self._key = key
        self._token = trio.lowlevel.current_trio_token()

    def takes(self, cluster: str, key: bytes) -> bool:
        """Whether who means this cluster and holds this key may call it from here."""
        return (
            self.is_open
            and self._token is trio.lowlevel.current_trio_token()
            and self.cluster == cluster
            and self._key is not None
            and compare_digest(self._key, key)
        )


_masters: Final[dict[str, NearMaster]] = {}


def enter(address: str, cluster: str, key: bytes | None, service: Service) -> NearMaster | None:
    """Let sessions of this process find a server; None where its address can be no session's target."""
    if not address.startswith(_SCHEME):
        return None
    near = _masters[address] = NearMaster(address, cluster, key, service)
    return near


def leave(near: NearMaster) -> None:
    """The server takes no more calls."""
    near.is_open = False
    if _masters.get(near.address) is near:
        del _masters[near.address]


def find(address: str, cluster: str, key: bytes) -> NearMaster | None:
    """The server of this run of trio at an address, if it takes who holds this key."""
    near = _masters.get(address)
    return near if near is not None and near.takes(cluster, key) else None


class _Waiter:
    """A task that waits for what was begun to be answered. Cancelled, it still sees it end."""

    __slots__ = ("_error", "_is_settled", "_raise_cancel", "_result", "_task")

    #: So many answers that nobody waited for may follow one another before others get their turn.
    _unyielded = 0

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None
        self._is_settled = False
        self._result: Any = None
        self._error: BaseException | None = None

    def settle(self, result: Any, error: BaseException | None) -> None:
        self._is_settled = True
        self._result, self._error = result, error
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def wait(self, running: Cancellable) -> Any:
        """The answer; raises the error, or trio.Cancelled once what runs has ended."""
        if self._is_settled:
            # A host that runs one step after another still gets its turn.
            _Waiter._unyielded += 1
            if _Waiter._unyielded >= _UNYIELDED_MAX:
                _Waiter._unyielded = 0
                await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            try:
                await self._sleep()
            except BaseException:
                running.cancel()
                with trio.CancelScope(shield=True):
                    while not self._is_settled:
                        await self._sleep()
                raise
        if self._error is not None:
            raise self._error
        result, self._result = self._result, None
        return result

    async def _sleep(self) -> None:
        def abort(_: object) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)


class NearPeer:
    """What a session calls instead of a connection. As `Peer`, as far as a session uses it."""

    def __init__(self, near: NearMaster, identity: Identity) -> None:
        self._near = near
        self._identity = identity
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether calls can be made."""
        return self._near.is_open and not self._is_closed

    async def call(self, method: str, arguments: Any = None, tensors: Sequence[Value] = ()) -> Reply:
        """Call a handler and wait for its answer. Raises what it does; ConnectionLostError if it is gone."""
        if not self.is_open:
            raise ConnectionLostError(f"'{method}' cannot be called: {self._near.address} has closed")
        await trio.lowlevel.checkpoint_if_cancelled()
        handler = self._near.service.find(method)
        request = Request(self._identity, method, arguments, list(tensors))
        if handler.begin is not None:
            waiter = _Waiter()
            running = handler.begin(request, waiter.settle)
            if running is not None:
                return as_reply(await waiter.wait(running))
        result = handler.function(request)
        return as_reply(await result if handler.is_async else result)

    async def call_again(self, template: CallTemplate, *numbers: int) -> Reply:
        """As `call`, of what is called again and again."""
        return await self.call(template.method, template.arguments(*numbers))

    async def aclose(self, reason: str = "") -> None:
        """Make no more calls."""
        self._is_closed = True
        await trio.lowlevel.checkpoint()


__all__ = ["NearMaster", "NearPeer", "enter", "find", "leave"]
