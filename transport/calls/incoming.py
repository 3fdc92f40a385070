"""The other side's calls, and our answers. Sans-I/O. See `outgoing` for the meaning of numbers."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from flowengine.core.arrays import Value
from flowengine.core.errors import CancelledError, InvalidArgumentError
from flowengine.transport import events as e
from flowengine.transport.calls.templates import (
    BEFORE_CALL,
    BEFORE_TENSOR,
    NO_ANSWER,
    CallTemplate,
    known_answer,
)
from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.limits import HANDSHAKE_HEADER_BYTES_MAX, NAME_BYTES_MAX
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.outbox import LargeMessage
from flowengine.transport.wire.payload import IncomingMessage, Payload
from flowengine.transport.wire.states import State
from flowengine.transport.wire.templates import BEFORE_BYTES, TensorTemplates, small_tensor
from flowengine.transport.wire.wire import Wire

#: Frames of answers with one small tensor, beside None and beside an empty table.
_BESIDE_NONE: Final = TensorTemplates(BEFORE_TENSOR, known_answer(has_table=False))
_BESIDE_TABLE: Final = TensorTemplates(BEFORE_TENSOR, known_answer(has_table=True))


class IncomingCalls:
    """Calls of the other side, from their bytes to the bytes of the answers.

    Implements `Carrier` for REQUEST.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        #: {number: payload bytes} of calls that we have not answered; those under reception have not
        #: `arrived`.
        self._waiting: dict[int, int] = {}
        self._arrived: set[int] = set()
        #: Answers that are sent as streams.
        self._replies: dict[int, LargeMessage] = {}
        self._last = 0
        self._payload_bytes = 0

    @property
    def waiting(self) -> int:
        """Return the number of calls that we have not answered yet."""
        return len(self._waiting)

    def know(self, template: CallTemplate) -> None:
        """Recognize such calls by their first bytes, from the first one on."""
        taker = partial(self._call_of, template)
        self._wire.templates.give(template.frame_template, template.rest_bytes, taker)

    def clear(self) -> None:
        """Forget everything, because the connection is closed."""
        self._waiting.clear()
        self._arrived.clear()
        self._replies.clear()
        self._payload_bytes = 0

    # Messages that arrive: a complete call.

    def request_came(self, parts: list[Any], inline: bytearray | None, header: memoryview) -> bool:
        """Handle a REQUEST of the usual form; return False, and do nothing, for any other."""
        if inline is not None or len(parts) != 4:
            return False
        _, number, method, arguments = parts
        if type(number) is not int or type(method) is not str or len(method) > NAME_BYTES_MAX or number < 1:
            return False
        self._arrived_whole(number)
        # The called function could change anything nested deeper in the arguments.
        if (
            header[:BEFORE_BYTES] == BEFORE_CALL
            and type(arguments) is list
            and not any(isinstance(each, list | dict) for each in arguments)
        ):
            taker = partial(self._same_call, method, arguments.copy())
            self._wire.templates.learn(header, 0, taker)
        self._wire.events.append(e.CallArrival(number, method, arguments, []))
        return True

    def _same_call(self, method: str, arguments: list[Any], number: int, rest: memoryview) -> bool:
        self._arrived_whole(number)
        self._wire.events.append(e.CallArrival(number, method, arguments.copy(), []))
        self._wire.counters.messages_received += 1
        return True

    def _call_of(self, template: CallTemplate, number: int, rest: memoryview) -> bool:
        arguments = template.read(rest)
        if arguments is None:
            return False
        self._arrived_whole(number)
        self._wire.events.append(e.CallArrival(number, template.method, arguments, []))
        self._wire.counters.messages_received += 1
        return True

    def _arrived_whole(self, number: int) -> None:
        """Begin a call without tensors, all of which has arrived, as `_begin` does."""
        if number != self._last + 1 or len(self._waiting) >= self._wire.limits.calls_max:
            self._begin(number, 0)  # which raises the right error
        self._last = number
        self._waiting[number] = 0
        self._arrived.add(number)

    # Messages that arrive: a call in pieces, or its cancellation.

    def started(self, incoming: IncomingMessage, payload_bytes: int) -> None:
        """Handle the header of REQUEST, and check it before memory for its tensors is allocated."""
        self._begin(incoming.fields[0], payload_bytes)

    def _begin(self, number: int, payload_bytes: int) -> None:
        limits = self._wire.limits
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

    def finished(self, incoming: IncomingMessage) -> None:
        """Handle a complete REQUEST."""
        number, method, arguments = incoming.fields
        tensors = [tensor.value() for tensor in incoming.tensors]
        self._arrived.add(number)
        self._wire.events.append(e.CallArrival(number, method, arguments, tensors))

    def abandoned(self, incoming: IncomingMessage) -> None:
        """Forget a REQUEST whose rest will not arrive: the call was never made."""
        self._settled(incoming.fields[0])

    def came_whole(self, incoming: IncomingMessage, header: memoryview, payload_bytes: int) -> None:
        """Record that a REQUEST that arrived complete was handled."""

    def cancel_came(self, number: int) -> None:
        """Handle CANCEL: the caller abandons the call. An answer may have crossed the message."""
        if number > self._last or (number in self._waiting and number not in self._arrived):
            raise RemoteProtocolError(f"call {number} was cancelled before it was made")
        if number not in self._waiting:
            return
        reply = self._replies.get(number)
        if reply is None:
            self._wire.events.append(e.CallCancellation(number))
        elif self._wire.outbox.abandon(reply) and self._wire.state is State.OPEN:
            del self._replies[number]
            self.fail(number, CancelledError("the caller cancelled the call"))

    # Messages to send.

    def reply_nothing(self, call: int) -> None:
        """Answer a call with None and no tensors."""
        wire = self._wire
        if wire.state is not State.OPEN:
            wire.check_open(m.REPLY)
        self._answered_whole(call)
        wire.queue_frame(NO_ANSWER.frame(call))

    def reply_tensor(self, call: int, result: Any, value: Value) -> bool:
        """Answer a call with one small tensor, beside None or an empty table; return whether it was that."""
        if result is None:
            templates = _BESIDE_NONE
        elif type(result) is dict and not result:
            templates = _BESIDE_TABLE
        else:
            return False
        small, wire = small_tensor(value), self._wire
        limits = wire.peer_limits
        if small is None or limits is None or wire.state is not State.OPEN:
            return False
        size = small.size
        if size > limits.message_bytes_max or size > limits.incoming_bytes_max:
            return False
        self._answered_whole(call)
        wire.queue_tensor(templates[small].frame(call), value, size)
        return True

    def reply(self, call: int, result: Any, payload: Payload) -> None:
        """Answer a call. Raises as `OutgoingCalls.request`; then the call still has to be answered."""
        self._check_answerable(call)
        wire = self._wire
        if not payload.descriptions and wire.state is State.OPEN:
            header = wire.header(m.REPLY, (call, result), None)
            if len(header) <= HANDSHAKE_HEADER_BYTES_MAX:
                wire.queue(header, None)
                self._settled(call)
                wire.counters.calls_served += 1
                return
        large = wire.send(m.REPLY, (call, result), payload, lambda _: self._settled(call))
        if large is None:
            self._settled(call)
        else:
            self._replies[call] = large
        wire.counters.calls_served += 1

    def fail(self, call: int, error: BaseException) -> None:
        """Answer a call with an error."""
        self._check_answerable(call)
        self._wire.send_error(m.FAILURE, call, error)
        self._settled(call)
        self._wire.counters.calls_served += 1

    def _check_answerable(self, number: int) -> None:
        if number not in self._arrived or number in self._replies:
            raise InvalidArgumentError(f"call {number} is answered already, or was never made")

    def _answered_whole(self, number: int) -> None:
        """Check and settle an answer that is sent at once, as `_check_answerable` and `_settled` do."""
        if number not in self._arrived or number in self._replies:
            self._check_answerable(number)  # which raises the right error
        self._payload_bytes -= self._waiting.pop(number)
        self._arrived.discard(number)
        self._wire.counters.calls_served += 1

    def _settled(self, number: int) -> None:
        """Forget a call that was answered, or that its sender abandoned."""
        self._payload_bytes -= self._waiting.pop(number)
        self._arrived.discard(number)
        self._replies.pop(number, None)


__all__ = ["IncomingCalls"]
