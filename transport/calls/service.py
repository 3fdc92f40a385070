"""The methods that one side offers to the other: handlers by name.

    service = Service({"add": add, "train": train})

A plain function is run where the call was read and must be short. A coroutine function gets a task of its
own, which is cancelled if the caller gives the call up or the connection ends. A function in `begun` is run
where the call was read, too, and answers it when it can: it is given the function to answer with, and returns
what is to be cancelled if nobody waits for the answer any more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError, NotFoundError, OpError
from flowengine.transport.calls.templates import CallTemplate
from flowengine.transport.events import Event, TensorArrival
from flowengine.transport.limits import NAME_BYTES_MAX
from flowengine.transport.wire.identity import Identity


class IncomingCall(NamedTuple):
    """A call that a handler gets. `arguments` is what msgpack carries; tensors come beside it."""

    peer: Identity
    method: str
    arguments: Any
    tensors: list[Value]


class Reply(NamedTuple):
    """The answer to a call: plain values, with tensors beside them."""

    result: Any = None
    tensors: list[Value] | tuple[Value, ...] = ()


#: The answer that says nothing.
NOTHING: Final = Reply()

#: What a call is answered with: a `Reply` or a plain result, or the error that the caller is to see.
Answer = Callable[[Any, BaseException | None], None]


class RunningCall(Protocol):
    """A call that is being answered and may be given up; giving up one that is over has no effect."""

    def cancel(self) -> None:
        """Give it up."""


class Handler(NamedTuple):
    """A handler, and whether it needs a task; or what begins to answer."""

    function: Callable[[IncomingCall], Any]
    is_async: bool = False
    begin: Callable[[IncomingCall, Answer], RunningCall | None] | None = None


class Service:
    """Handlers by name; each takes a `IncomingCall` and returns a `Reply` or a plain result."""

    def __init__(
        self,
        handlers: Mapping[str, Callable[[IncomingCall], Any]],
        begun: Mapping[str, Callable[[IncomingCall, Answer], RunningCall | None]] | None = None,
        templates: Sequence[CallTemplate] = (),
    ) -> None:
        """InvalidArgumentError for names that cannot travel.

        begun       what begins to answer; where that returns None, the handler of the same name answers
        templates   calls that are known by their first bytes from the first one on
        """
        self.templates = templates
        self._handlers: dict[str, Handler] = {}
        for name, function in handlers.items():
            self._handlers[_checked(name)] = Handler(function, inspect.iscoroutinefunction(function))
        for name, begin in (begun or {}).items():
            plain = self._handlers.get(name, Handler(_unanswerable))
            self._handlers[_checked(name)] = plain._replace(begin=begin)

    def find(self, method: str) -> Handler:
        """The handler of this name; NotFoundError that lists the others."""
        try:
            return self._handlers[method]
        except KeyError:
            known = ", ".join(sorted(self._handlers)) or "none"
            raise NotFoundError(f"there is no method '{method}' here; there are: {known}") from None


class TensorSink(Protocol):
    """The taker of tensors that peers send: see `exchange`. Nothing here waits."""

    def peer_opened(self, peer: Any) -> None:
        """A peer is there."""

    def pushed(self, peer: Any, event: TensorArrival) -> None:
        """A tensor has come."""

    def peer_event(self, peer: Any, event: Event) -> None:
        """Something else about tensors happened."""

    def peer_lost(self, peer: Any, error: OpError) -> None:
        """A peer that was there is gone."""


def _checked(name: str) -> str:
    if not name or len(name) > NAME_BYTES_MAX:
        raise InvalidArgumentError(f"a method's name has 1 to {NAME_BYTES_MAX} characters, not {name!r}")
    return name


def _unanswerable(_: IncomingCall) -> Any:
    raise AssertionError("a method that is begun was called as a plain one")


def as_reply(value: Any) -> Reply:
    """Convert the result of a handler to a Reply."""
    return value if isinstance(value, Reply) else Reply(value)


__all__ = ["NOTHING", "Answer", "IncomingCall", "Reply", "RunningCall", "Service", "TensorSink"]
