"""The methods that one side offers to the other: handlers by name.

    service = Service({"add": add, "train": train})

A plain function runs where the call was read and must be short. A coroutine function gets its own task, which
is cancelled if the caller abandons the call or the connection ends. A function in `begun` also runs where the
call was read, and answers later: it receives the function to answer with, and returns an object to cancel
when nobody waits for the answer any more.
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
    """A call that a handler receives. `arguments` are plain values of msgpack; tensors come beside them."""

    peer: Identity
    method: str
    arguments: Any
    tensors: list[Value]


class Reply(NamedTuple):
    """The answer to a call: plain values, with tensors beside them."""

    result: Any = None
    tensors: list[Value] | tuple[Value, ...] = ()


#: The empty answer.
NOTHING: Final = Reply()

#: The answer to a call: a `Reply`, a plain result, or the error for the caller.
Answer = Callable[[Any, BaseException | None], None]


class RunningCall(Protocol):
    """A call that is being answered and can be abandoned; this has no effect on a call that is over."""

    def cancel(self) -> None:
        """Abandon the call."""


class Handler(NamedTuple):
    """A handler and whether it needs a task, or a function of `begun`."""

    function: Callable[[IncomingCall], Any]
    is_async: bool = False
    begin: Callable[[IncomingCall, Answer], RunningCall | None] | None = None


class Service:
    """Handlers by name; each takes an `IncomingCall` and returns a `Reply` or a plain result."""

    def __init__(
        self,
        handlers: Mapping[str, Callable[[IncomingCall], Any]],
        begun: Mapping[str, Callable[[IncomingCall, Answer], RunningCall | None]] | None = None,
        templates: Sequence[CallTemplate] = (),
    ) -> None:
        """Create the service. Raises InvalidArgumentError for names that cannot be sent.

        begun       functions that answer later; if one returns None, the handler of the same name answers
        templates   calls that are recognized by their first bytes from the first one on
        """
        self.templates = templates
        self._handlers: dict[str, Handler] = {}
        for name, function in handlers.items():
            self._handlers[_checked(name)] = Handler(function, inspect.iscoroutinefunction(function))
        for name, begin in (begun or {}).items():
            plain = self._handlers.get(name, Handler(_unanswerable))
            self._handlers[_checked(name)] = plain._replace(begin=begin)

    def find(self, method: str) -> Handler:
        """Return the handler of this name; NotFoundError that lists the others."""
        try:
            return self._handlers[method]
        except KeyError:
            known = ", ".join(sorted(self._handlers)) or "none"
            raise NotFoundError(f"there is no method '{method}' here; there are: {known}") from None


class TensorSink(Protocol):
    """The receiver of tensors that peers send: see `exchange`. Its methods never wait."""

    def peer_opened(self, peer: Any) -> None:
        """Record a new peer."""

    def pushed(self, peer: Any, event: TensorArrival) -> None:
        """Take a tensor."""

    def peer_event(self, peer: Any, event: Event) -> None:
        """Handle another event of tensors."""

    def peer_lost(self, peer: Any, error: OpError) -> None:
        """Record that a peer is lost."""


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
