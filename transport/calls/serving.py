"""The service of the other side's calls: each finds its handler and is answered once.

A plain handler answers where the call was read; a coroutine gets a task; a function of `begun` answers later
by itself. The caller can abandon all of them, and so does the end of the connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import trio

from flowengine.core.errors import CancelledError, OpError
from flowengine.transport import events as e
from flowengine.transport.calls.incoming import IncomingCalls
from flowengine.transport.calls.service import (
    NOTHING,
    Handler,
    IncomingCall,
    Reply,
    RunningCall,
    Service,
    as_reply,
)
from flowengine.transport.wire.identity import Identity
from flowengine.transport.wire.payload import NO_TENSORS, Payload
from flowengine.transport.wire.states import State
from flowengine.transport.wire.wire import Wire

logger = logging.getLogger("flowengine.transport")


class ServedCalls:
    """The calls of the other side that are being answered on one connection.

    nursery   the nursery of the coroutines, while the connection is driven
    """

    def __init__(
        self, wire: Wire, requests: IncomingCalls, service: Service, answered: Callable[[], None]
    ) -> None:
        """`answered` is called for an answer that waits to be sent and came after its call was read."""
        self._wire = wire
        self._requests = requests
        self._service = service
        self._answered: Callable[[], object] = answered
        self.nursery: trio.Nursery | None = None
        self._is_over = False
        self._running: dict[int, RunningCall] = {}
        #: Calls that were answered before their function of `begun` returned.
        self._ended_early: set[int] = set()
        #: The caller's identity, once it is proved.
        self._who: Identity | None = None
        for template in service.templates:
            requests.know(template)

    def opened(self, who: Identity) -> None:
        """Record the proved identity of the other side."""
        self._who = who

    def requested(self, event: e.CallArrival) -> None:
        """Handle a call."""
        assert self._who is not None, "a call was read before the connection was open"
        request = IncomingCall(self._who, event.method, event.arguments, event.tensors)
        try:
            handler = self._service.find(event.method)
            if handler.begin is not None:
                running = handler.begin(request, partial(self._begun_ended, event.call))
                if running is not None:
                    self._begun(event.call, running)
                    return
            if handler.is_async:
                assert self.nursery is not None, "a call was read while no nursery was open"
                scope = trio.CancelScope()
                self._running[event.call] = scope
                self.nursery.start_soon(self._run, event.call, handler, request, scope)
                return
            reply = as_reply(handler.function(request))
        except Exception as error:
            self._answer_error(event.call, error)
            return
        self._answer(event.call, reply)

    def cancelled(self, call: int) -> None:
        """Handle the cancellation of a call. It is answered all the same."""
        running = self._running.get(call)
        if running is not None:
            running.cancel()

    def let_go(self) -> None:
        """Forget the functions of the driver, because the connection is not driven any more."""
        self._answered = bool

    def end(self) -> None:
        """Cancel all running calls, because nobody waits for an answer any more."""
        self._is_over = True
        for running in list(self._running.values()):
            running.cancel()

    def _begun(self, call: int, running: RunningCall) -> None:
        if call in self._ended_early:
            self._ended_early.discard(call)
        elif self._is_over:
            running.cancel()
        else:
            self._running[call] = running

    def _begun_ended(self, call: int, result: Any, error: BaseException | None) -> None:
        """Send the answer of a call from a function of `begun`."""
        if self._running.pop(call, None) is None:
            self._ended_early.add(call)
        if self._is_over:
            return
        if error is not None:
            self._answer_error(call, error)
        elif result is not NOTHING:
            self._answer(call, as_reply(result))
        elif self._wire.state is State.OPEN:
            self._requests.reply_nothing(call)
        self._answered()

    async def _run(self, call: int, handler: Handler, request: IncomingCall, scope: trio.CancelScope) -> None:
        reply: Reply | None = None
        error: Exception = CancelledError("the caller cancelled the call")
        try:
            with scope:
                reply = as_reply(await handler.function(request))
        except Exception as raised:
            error = raised
        finally:
            del self._running[call]
        if reply is not None:
            self._answer(call, reply)
        else:
            self._answer_error(call, error)
        self._answered()

    def _answer(self, call: int, reply: Reply) -> None:
        if self._wire.state is not State.OPEN:
            return
        tensors = reply.tensors
        try:
            if len(tensors) == 1 and self._requests.reply_tensor(call, reply.result, tensors[0]):
                return
            self._requests.reply(call, reply.result, Payload(tensors) if tensors else NO_TENSORS)
        except OpError as error:
            self._requests.fail(call, error)

    def _answer_error(self, call: int, error: BaseException) -> None:
        if not isinstance(error, OpError):
            logger.error("a handler failed on a call of %s", self._wire.address, exc_info=error)
        if self._wire.state is State.OPEN:
            self._requests.fail(call, error)


__all__ = ["ServedCalls"]
