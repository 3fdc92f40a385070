"""Events of a connection: one small record each, in the order in which they happened."""

from __future__ import annotations

from typing import Any, NamedTuple

from flowengine.core.arrays import Value
from flowengine.core.errors import OpError
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport.wire.identity import Identity


class ConnectionOpened(NamedTuple):
    """The handshake is over; `peer` is the identity of the other side."""

    peer: Identity


class CallArrival(NamedTuple):
    """A call that this side must answer, once, with `reply` or `fail`."""

    call: int
    method: str
    arguments: Any
    tensors: list[Value]


class CallCancellation(NamedTuple):
    """The caller does not need this call's answer any more. It is answered all the same."""

    call: int


class CallAnswer(NamedTuple):
    """The answer to a call of ours: a result with tensors, or an error."""

    call: OutgoingCall
    result: Any
    tensors: list[Value]
    error: OpError | None


class TensorArrival(NamedTuple):
    """A tensor for a key. `cost` is the credit that it used, 0 if it was pulled."""

    key: RendezvousKey
    value: Value
    is_dead: bool
    cost: int


class Announcement(NamedTuple):
    """A tensor waits at the other side until it is pulled; the announcement took `cost` of the credit."""

    key: RendezvousKey
    size: int
    cost: int


class TensorPull(NamedTuple):
    """The other side waits for this key."""

    key: RendezvousKey


class CreditGain(NamedTuple):
    """The other side has taken some of the pushed tensors."""


class CreditOverflow(NamedTuple):
    """The other side holds values that it could not even announce: pull every awaited tensor."""


class StepFailure(NamedTuple):
    """The other side sends nothing more for this step."""

    step: int
    error: OpError


class Goodbye(NamedTuple):
    """The other side is closing the connection; it accepts no more requests."""

    reason: str


class OutgoingCall:
    """A call of ours. `number` is 0 until its header is sent."""

    __slots__ = (
        "context",
        "is_being_answered",
        "is_cancelled",
        "large",
        "method",
        "number",
        "payload_bytes",
    )

    def __init__(self, method: str, payload_bytes: int) -> None:
        self.method = method
        self.payload_bytes = payload_bytes
        self.number = 0
        self.is_cancelled = False
        #: Whether its answer has begun to arrive.
        self.is_being_answered = False
        #: Its place in the outbox, if its payload is large.
        self.large: Any = None
        #: For the use of the connection's driver.
        self.context: Any = None


Event = (
    ConnectionOpened
    | CallArrival
    | CallCancellation
    | CallAnswer
    | TensorArrival
    | Announcement
    | TensorPull
    | CreditGain
    | CreditOverflow
    | StepFailure
    | Goodbye
)

__all__ = [
    "Announcement",
    "CallAnswer",
    "CallArrival",
    "CallCancellation",
    "ConnectionOpened",
    "CreditGain",
    "CreditOverflow",
    "Event",
    "Goodbye",
    "OutgoingCall",
    "StepFailure",
    "TensorArrival",
    "TensorPull",
]
