"""Calls of the other side that are still being answered when the connection ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowengine.transport import events as e
from flowengine.transport.calls.service import IncomingCall, Service
from flowengine.transport.calls.serving import ServedCalls
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.wire.payload import NO_TENSORS
from tests.tools.links import ConnectionLink


class Giving:
    """A call that answers at once when it is given up."""

    def __init__(self, answer: Callable[[Any, BaseException | None], None], given_up: list[Giving]) -> None:
        self.answer, self.given_up = answer, given_up

    def cancel(self) -> None:
        self.given_up.append(self)
        self.answer(None, ConnectionLostError("gone"))


def test_calls_that_end_as_they_are_given_up_are_all_given_up() -> None:
    link = ConnectionLink()
    link.open()
    given_up: list[Giving] = []

    def begin(request: IncomingCall, answer: Callable[[Any, BaseException | None], None]) -> Giving:
        return Giving(answer, given_up)

    served = ServedCalls(
        link.listener.wire, link.listener.requests, Service({}, begun={"go": begin}), lambda: None
    )
    assert link.listener.peer is not None
    served.opened(link.listener.peer)
    for _ in range(3):
        link.dialler.calls.request("go", None, NO_TENSORS)
    link.settle()
    for event in link.listener.take_events():
        if isinstance(event, e.CallArrival):
            served.requested(event)
    assert not given_up
    served.end()
    assert len(set(given_up)) == len(given_up) == 3


def test_a_call_is_given_up_that_was_begun_while_the_connection_ended() -> None:
    """A handler that begins an answer may send something, and so find the link broken."""
    link = ConnectionLink()
    link.open()
    given_up: list[Giving] = []

    def begin(request: IncomingCall, answer: Callable[[Any, BaseException | None], None]) -> Giving:
        served.end()
        return Giving(answer, given_up)

    served = ServedCalls(
        link.listener.wire, link.listener.requests, Service({}, begun={"go": begin}), lambda: None
    )
    assert link.listener.peer is not None
    served.opened(link.listener.peer)
    link.dialler.calls.request("go", None, NO_TENSORS)
    link.settle()
    (event,) = link.listener.take_events()
    assert isinstance(event, e.CallArrival)
    served.requested(event)
    assert len(given_up) == 1
