"""Our calls to the other side, and its answers. Sans-I/O.

Numbers count up by one as calls begin on the wire, so a call that is repeated or out of order is recognized
at once and no memory of old calls is kept. Every call that has begun is answered exactly once, also a
cancelled one: only then is its number settled on both sides. A call begins when its header is sent.

A short path handles nearly every answer; the longer one handles the rest and raises the right error.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from flowengine.core.arrays import Value
from flowengine.core.errors import OpError, ResourceExhaustedError
from flowengine.transport import events as e
from flowengine.transport.calls.templates import BEFORE_TENSOR, NO_ANSWER, CallTemplate
from flowengine.transport.errors import RemoteProtocolError, error_from_wire
from flowengine.transport.limits import HANDSHAKE_HEADER_BYTES_MAX, INLINE_BYTES_MAX
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.encoding import read_scalar, read_small, type_of
from flowengine.transport.wire.outbox import LargeMessage
from flowengine.transport.wire.payload import NO_TENSORS, IncomingMessage, Payload
from flowengine.transport.wire.states import State
from flowengine.transport.wire.templates import BEFORE_BYTES
from flowengine.transport.wire.wire import Wire


class OutgoingCalls:
    """Calls of this side, from their bytes to those of the answers. Implements `Carrier` for REPLY."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        #: {number: call} of the calls that have begun and are not answered.
        self._begun: dict[int, e.OutgoingCall] = {}
        self._last = 0
        #: The number of calls that are not answered, begun or not, and that of their tensors.
        self.waiting = 0
        self._payload_bytes = 0
        wire.templates.give(NO_ANSWER, 0, self._empty_answer)

    # Messages to send.

    def has_room(self, payload: Payload) -> bool:
        """Return whether the other side accepts this call now; if not, it will later."""
        limits = self._wire.peer_limits
        assert limits is not None, "the connection was never open"
        return (
            self.waiting < limits.calls_max and self._payload_bytes + payload.size <= limits.request_bytes_max
        )

    def request(self, method: str, arguments: Any, payload: Payload) -> e.OutgoingCall:
        """Call a method of the other side.

        Raises LocalProtocolError if no call can be made, InvalidArgumentError for arguments that cannot be
        sent, ResourceExhaustedError for more than the other side accepts.
        """
        wire = self._wire
        wire.check_open(m.REQUEST)
        assert wire.peer_limits is not None
        if payload.size > wire.peer_limits.request_bytes_max:
            raise ResourceExhaustedError(
                f"{wire.address} takes calls of {wire.peer_limits.request_bytes_max} bytes, "
                f"'{method}' has {payload.size}: raise Limits.request_bytes_max there"
            )
        call = e.OutgoingCall(method, payload.size)
        if payload.size <= INLINE_BYTES_MAX:
            # The number is taken last, so that a call that cannot be sent leaves no gap.
            header = wire.header(m.REQUEST, (self._last + 1, method, arguments), payload)
            if payload.size or len(header) > HANDSHAKE_HEADER_BYTES_MAX:
                wire.check(header, payload)
            self._add(call)
            self._begin(call)
            wire.queue(header, payload)
        else:

            def begin() -> bytes:
                return wire.header(m.REQUEST, (self._begin(call), method, arguments), payload)

            # A trial with the longest number, so that nothing can fail when the call's turn has come.
            wire.check(wire.header(m.REQUEST, (1 << 62, method, arguments), payload), payload)
            self._add(call)
            call.large = wire.queue_large(begin, payload)
        wire.counters.calls_made += 1
        return call

    def request_again(self, template: CallTemplate, *numbers: int) -> e.OutgoingCall:
        """Make a call as `request` does, from a template and new numbers."""
        if not template.is_small:
            return self.request(template.method, template.arguments(*numbers), NO_TENSORS)
        wire = self._wire
        if wire.state is not State.OPEN:
            wire.check_open(m.REQUEST)
        frame = template.frame(self._last + 1, *numbers)
        call = e.OutgoingCall(template.method, 0)
        self._add(call)
        self._begin(call)
        wire.queue_frame(frame)
        wire.counters.calls_made += 1
        return call

    def cancel(self, call: e.OutgoingCall) -> None:
        """Abandon a call: its answer will not be reported. The unsent rest of it is not sent any more."""
        if call.is_cancelled:
            return
        call.is_cancelled = True
        wire = self._wire
        if wire.state is not State.OPEN:
            return
        large: LargeMessage | None = call.large
        if large is not None and wire.outbox.abandon(large):
            # The other side will never receive it completely.
            self._begun.pop(call.number, None)
            self._settled(call)
        elif call.number in self._begun:
            wire.send(m.CANCEL, (call.number,))

    def clear(self) -> None:
        """Forget everything, because the connection is closed."""
        self._begun.clear()
        self.waiting = self._payload_bytes = 0

    def _add(self, call: e.OutgoingCall) -> None:
        self.waiting += 1
        self._payload_bytes += call.payload_bytes

    def _begin(self, call: e.OutgoingCall) -> int:
        self._last = call.number = self._last + 1
        self._begun[call.number] = call
        return call.number

    def _settled(self, call: e.OutgoingCall) -> None:
        self.waiting -= 1
        self._payload_bytes -= call.payload_bytes

    # Messages that arrive: a complete answer.

    def reply_came(self, parts: list[Any], inline: bytearray | None, header: memoryview) -> bool:
        """Handle a REPLY of the usual form; return False, and do nothing, for any other."""
        if len(parts) < 3 or type(parts[1]) is not int or parts[1] < 1:
            return False
        tensors: list[Value] = []
        if inline is not None:
            value = read_scalar(parts[3], inline) if len(parts) == 4 and type(parts[3]) is list else None
            if value is None:
                return False
            tensors.append(value)
        elif len(parts) != 3:
            return False
        self._answered_whole(parts[1], parts[2], tensors)
        if inline is not None:
            self._learn(header, len(inline), parts[2], parts[3])
        return True

    def _learn(self, header: memoryview, payload_bytes: int, result: Any, descriptions: list[Any]) -> None:
        """Recognize later answers with a tensor of the same type and shape."""
        if header[:BEFORE_BYTES] != BEFORE_TENSOR or not payload_bytes or len(descriptions) != 1:
            return
        ((number, shape, *_),) = descriptions
        dtype = type_of(number)
        if dtype is not None and (result is None or result == {}):
            taker = partial(self._same_answer, result is not None, dtype, tuple(shape))
            self._wire.templates.learn(header, payload_bytes, taker)

    def _same_answer(
        self, has_table: bool, dtype: np.dtype[Any], shape: tuple[int, ...], number: int, payload: memoryview
    ) -> bool:
        self._answered_whole(number, {} if has_table else None, [read_small(payload, dtype, shape)])
        self._wire.counters.messages_received += 1
        return True

    def _empty_answer(self, number: int, rest: memoryview) -> bool:
        self._answered_whole(number, None, [])
        self._wire.counters.messages_received += 1
        return True

    def _answered_whole(self, number: int, result: Any, tensors: list[Value]) -> None:
        call = self._begun.pop(number, None)
        if call is None or call.is_being_answered:
            self._answer_started(number)  # which raises the right error
            raise AssertionError(f"call {number} waits for an answer and does not")
        self.waiting -= 1
        self._payload_bytes -= call.payload_bytes
        if not call.is_cancelled:
            self._wire.events.append(e.CallAnswer(call, result, tensors, None))

    # Messages that arrive: an answer in pieces, or an error.

    def started(self, incoming: IncomingMessage, payload_bytes: int) -> None:
        """Handle the header of REPLY."""
        self._answer_started(incoming.fields[0])

    def finished(self, incoming: IncomingMessage) -> None:
        """Handle a complete REPLY."""
        number, result = incoming.fields
        self._answered(number, result, [tensor.value() for tensor in incoming.tensors], None)

    def abandoned(self, incoming: IncomingMessage) -> None:
        """Handle a REPLY whose rest will not arrive."""
        self._begun[incoming.fields[0]].is_being_answered = False

    def came_whole(self, incoming: IncomingMessage, header: memoryview, payload_bytes: int) -> None:
        """Record that a REPLY that arrived complete was handled."""
        if incoming.tensors:
            descriptions = [tensor.description for tensor in incoming.tensors]
            self._learn(header, payload_bytes, incoming.fields[1], descriptions)

    def failure_came(self, number: int, code: int, message: str, details: dict[str, Any]) -> None:
        """Handle FAILURE."""
        self._answer_started(number)
        self._answered(number, None, [], error_from_wire(code, message, details))

    def _answer_started(self, number: int) -> None:
        call = self._begun.get(number)
        if call is None or call.is_being_answered:
            raise RemoteProtocolError(f"an answer came to call {number}, which waits for none")
        call.is_being_answered = True

    def _answered(self, number: int, result: Any, tensors: list[Value], error: OpError | None) -> None:
        call = self._begun.pop(number)
        self._settled(call)
        if not call.is_cancelled:
            self._wire.events.append(e.CallAnswer(call, result, tensors, error))


__all__ = ["OutgoingCalls"]
