"""Calls over a running connection: each waits for its answer, or has a function called with it.

A caller waits in line while the other side accepts no more of our calls or bytes. A call that is abandoned,
or that loses its connection, leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import trio

from flowengine.core.arrays import Value
from flowengine.core.errors import CancelledError, OpError
from flowengine.transport import events as e
from flowengine.transport.calls.outgoing import OutgoingCalls
from flowengine.transport.calls.service import NOTHING, Reply
from flowengine.transport.calls.templates import CallTemplate
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.wire.payload import NO_TENSORS, Payload
from flowengine.transport.wire.states import State
from flowengine.transport.wire.wire import Wire

#: A function that is called with the answer to a call, or with the error.
AnswerTaker = Callable[[Reply | None, OpError | None], None]


class _CallWaiter:
    """The task that waits for a call's answer."""

    __slots__ = ("_caller", "error", "is_settled", "reply", "task")

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        #: The task to wake; None while no task sleeps.
        self.task: trio.lowlevel.Task | None = None
        self.is_settled = False
        self.reply: Reply | None = None
        self.error: OpError | None = None

    def settle(self, reply: Reply | None, error: OpError | None) -> None:
        """Receive the answer."""
        self.is_settled = True
        self.reply, self.error = reply, error
        task, self.task = self.task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def sleep(self, call: e.OutgoingCall) -> None:
        """Wait until the answer has been read. If cancelled, the call is abandoned."""

        def give_up(_: object) -> trio.lowlevel.Abort:
            self.task = None
            self._caller.give_up(call)
            return trio.lowlevel.Abort.SUCCEEDED

        self.task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(give_up)


class Caller:
    """The calling half of one connection, which makes, awaits and abandons calls."""

    def __init__(self, wire: Wire, calls: OutgoingCalls, flush: Callable[[], None]) -> None:
        """`flush` sends queued bytes, and may find the link broken: then `end` is called."""
        self._wire = wire
        self._calls = calls
        self._flush: Callable[[], object] = flush
        #: The reason why no more calls can be made.
        self._failure: OpError | None = None
        #: {call: the receiver of its answer}
        self._waiting: dict[e.OutgoingCall, AnswerTaker] = {}
        self._room = trio.lowlevel.ParkingLot()

    async def call(self, method: str, arguments: Any = None, tensors: Sequence[Value] = ()) -> Reply:
        """Call a method of the other side and wait for its answer.

        Waits first, in line, while the peer accepts no more of our calls or bytes. If cancelled, it tells the
        peer, sends no more of the call, and leaves nothing behind. Raises the handler's error under the same
        class, and ConnectionLostError if the peer is lost before it has answered.
        """
        payload = Payload(tensors) if tensors else NO_TENSORS
        return await self._run(method, payload, partial(self._calls.request, method, arguments, payload))

    async def call_again(self, template: CallTemplate, *numbers: int) -> Reply:
        """Make a prepared call as `call` does."""
        request = partial(self._calls.request_again, template, *numbers)
        return await self._run(template.method, NO_TENSORS, request)

    def begin_call(
        self, method: str, arguments: Any, payload: Payload, answered: AnswerTaker
    ) -> e.OutgoingCall:
        """Make a call as `call` does, without a task; there must be room for the call.

        `answered` is called once with the answer or the error, unless the call is abandoned before; before
        this returns, if the link is found broken. Raises if nothing was sent.
        """
        return self._begin(method, partial(self._calls.request, method, arguments, payload), answered)

    def begin_again(
        self, template: CallTemplate, numbers: Sequence[int], answered: AnswerTaker
    ) -> e.OutgoingCall:
        """Make a prepared call as `begin_call` does."""
        request = partial(self._calls.request_again, template, *numbers)
        return self._begin(template.method, request, answered)

    def has_room(self, payload: Payload) -> bool:
        """Return whether a call with this payload can be made without waiting."""
        # With nothing in flight there is room, or there never will be: then the request reports it.
        return not self._calls.waiting or self._calls.has_room(payload)

    def give_up(self, call: e.OutgoingCall) -> None:
        """Abandon the call: its `answered` will not be called."""
        if self._waiting.pop(call, None) is not None:
            self._calls.cancel(call)
            self._flush()
            self._room.unpark_all()

    async def _run(self, method: str, payload: Payload, request: Callable[[], e.OutgoingCall]) -> Reply:
        await trio.lowlevel.checkpoint_if_cancelled()
        self._check_open(method)
        # All waiting callers wake together and check in the same order: first come, first served, but a small
        # call may pass a large one that has no room yet.
        while not self.has_room(payload):
            await self._room.park()
            self._check_open(method)
        waiter = _CallWaiter(self)
        call = self._begin(method, request, waiter.settle)
        # Sending may have found the link broken, and then there is nothing to wait for.
        if not waiter.is_settled:
            await waiter.sleep(call)
        if waiter.error is not None:
            error, waiter.error = waiter.error, None
            try:
                raise error
            finally:
                del error  # its frames refer to the waiter
        assert waiter.reply is not None, "a call was woken without an answer"
        return waiter.reply

    def _begin(
        self, method: str, request: Callable[[], e.OutgoingCall], answered: AnswerTaker
    ) -> e.OutgoingCall:
        self._check_open(method)
        call = request()
        self._waiting[call] = answered
        self._flush()
        return call

    def _check_open(self, method: str) -> None:
        if self._failure is not None:
            raise ConnectionLostError(f"'{method}' cannot be called: {self._failure.message}")
        if self._wire.state is not State.OPEN:
            raise ConnectionLostError(
                f"'{method}' cannot be called: the connection to {self._wire.address} "
                f"is in state '{self._wire.state.value}'"
            )

    # Messages that arrive.

    def answered(self, event: e.CallAnswer) -> None:
        """Handle an answer."""
        call, result, tensors, error = event
        if error is not None:
            self._settle(call, None, error)
        elif result is None and not tensors:
            self._settle(call, NOTHING, None)
        else:
            self._settle(call, Reply(result, tensors), None)
        if self._room:
            self._room.unpark_all()

    def let_go(self) -> None:
        """Forget the functions of the driver, because the connection is not driven any more."""
        self._flush = bool

    def end(self, error: OpError) -> None:
        """Fail the calls in flight, because the connection is lost."""
        self._failure = error
        kind = CancelledError if isinstance(error, CancelledError) else ConnectionLostError
        for call in list(self._waiting):
            self._settle(call, None, kind(f"'{call.method}' has no answer: {error.message}"))
        self._room.unpark_all()

    def _settle(self, call: e.OutgoingCall, reply: Reply | None, error: OpError | None) -> None:
        answered = self._waiting.pop(call, None)
        if answered is not None:
            answered(reply, error)


__all__ = ["AnswerTaker", "Caller"]
