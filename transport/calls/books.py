"""The books of calls in flight, one for each direction: numbers, bytes, who still owes an answer. Sans-I/O.

Numbers count up by one as calls are begun on the wire, so a call that comes twice or out of turn is known
at once and no memory of old calls is kept. Every call that was begun is answered exactly once, also one that
was cancelled: only then is its number settled on both sides.
"""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.events import OutgoingCall
from flowengine.transport.limits import Limits, PeerLimits
from flowengine.transport.wire.outbox import Large


class CallsOut:
    """Our calls."""

    def __init__(self) -> None:
        #: {number: call} begun and not answered.
        self._begun: dict[int, OutgoingCall] = {}
        self._last = 0
        #: Not answered, begun or not.
        self.count = 0
        self.payload_bytes = 0

    def has_room(self, payload_bytes: int, limits: PeerLimits) -> bool:
        return (
            self.count < limits.calls_max and self.payload_bytes + payload_bytes <= limits.request_bytes_max
        )

    def add(self, call: OutgoingCall) -> None:
        self.count += 1
        self.payload_bytes += call.payload_bytes

    @property
    def next_number(self) -> int:
        return self._last + 1

    def begin(self, call: OutgoingCall) -> int:
        """Give a call its number: its header is the next to go out."""
        self._last = call.number = self._last + 1
        self._begun[call.number] = call
        return call.number

    def is_begun(self, call: OutgoingCall) -> bool:
        return call.number in self._begun

    def forget(self, call: OutgoingCall) -> None:
        """A call that the other side will never see whole."""
        self._begun.pop(call.number, None)
        self.count -= 1
        self.payload_bytes -= call.payload_bytes

    def answer_started(self, number: int) -> None:
        call = self._begun.get(number)
        if call is None or call.is_being_answered:
            raise RemoteProtocolError(f"an answer came to call {number}, which waits for none")
        call.is_being_answered = True

    def answered_whole(self, number: int) -> OutgoingCall:
        """The call that an answer settles which came at once."""
        call = self._begun.pop(number, None)
        if call is None or call.is_being_answered:
            self.answer_started(number)  # which says what is wrong
            raise AssertionError(f"call {number} waits for an answer and does not")
        self.count -= 1
        self.payload_bytes -= call.payload_bytes
        return call

    def answer_abandoned(self, number: int) -> None:
        self._begun[number].is_being_answered = False

    def answered(self, number: int) -> OutgoingCall:
        """The call that this answer settles."""
        call = self._begun[number]
        self.forget(call)
        return call

    def clear(self) -> None:
        self._begun.clear()
        self.count = self.payload_bytes = 0


class CallsIn:
    """The other side's calls."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        #: {number: payload bytes} that wait for our answer; those under reception have not `arrived`.
        self._waiting: dict[int, int] = {}
        self._arrived: set[int] = set()
        #: Answers that go out as streams.
        self.replies: dict[int, Large] = {}
        self._last = 0
        self._payload_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def started(self, number: int, payload_bytes: int) -> None:
        """A call's header has come. Checked before there is room for its tensors."""
        limits = self._limits
        if number != self._last + 1:
            raise RemoteProtocolError(f"call {number} came where {self._last + 1} is next")
        if len(self._waiting) >= limits.calls_max:
            raise RemoteProtocolError(f"more than {limits.calls_max} calls wait for their answer")
        if self._payload_bytes + payload_bytes > limits.request_bytes_max:
            raise RemoteProtocolError(
                f"calls that wait for their answer hold {self._payload_bytes} bytes and {payload_bytes} more "
                f"came; {limits.request_bytes_max} are allowed"
            )
        self._last = number
        self._payload_bytes += payload_bytes
        self._waiting[number] = payload_bytes

    def arrived(self, number: int) -> None:
        self._arrived.add(number)

    def came_whole(self, number: int) -> None:
        """As `started` and `arrived`, of a call without tensors."""
        if number != self._last + 1 or len(self._waiting) >= self._limits.calls_max:
            self.started(number, 0)  # which says what is wrong
        self._last = number
        self._waiting[number] = 0
        self._arrived.add(number)

    def cancelled(self, number: int) -> bool:
        """Whether a call that the caller gives up still waits: an answer may have crossed the wish."""
        if number > self._last or (number in self._waiting and number not in self._arrived):
            raise RemoteProtocolError(f"call {number} was cancelled before it was made")
        return number in self._waiting

    def check_answerable(self, number: int) -> None:
        if number not in self._arrived or number in self.replies:
            raise InvalidArgumentError(f"call {number} is answered already, or was never made")

    def answered_whole(self, number: int) -> None:
        """As `check_answerable` and `settled`, of an answer that goes out at once."""
        if number not in self._arrived or number in self.replies:
            self.check_answerable(number)  # which says what is wrong
        self._payload_bytes -= self._waiting.pop(number)
        self._arrived.discard(number)

    def settled(self, number: int) -> None:
        """A call was answered, or its sender abandoned it."""
        self._payload_bytes -= self._waiting.pop(number)
        self._arrived.discard(number)
        self.replies.pop(number, None)

    def clear(self) -> None:
        self._waiting.clear()
        self._arrived.clear()
        self.replies.clear()
        self._payload_bytes = 0


__all__ = ["CallsIn", "CallsOut"]
