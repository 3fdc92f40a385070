"""The calls of a connection: ours and the other side's, and their answers. Sans-I/O.

`Connection` adds tensors to it. What nearly every call and answer is takes a short way; whatever else comes
is left to the longer one, which says what is wrong.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Value
from flowengine.core.errors import CancelledError, OpError, ResourceExhaustedError
from flowengine.transport import events as e
from flowengine.transport.calls.books import CallsIn, CallsOut
from flowengine.transport.calls.call_forms import (
    ANSWER,
    AnswerForm,
    CallForm,
    FixedCall,
    HeardAnswers,
    answer_of,
)
from flowengine.transport.errors import error_from_wire, error_to_wire
from flowengine.transport.limits import HANDSHAKE_HEADER_BYTES_MAX, INLINE_BYTES_MAX, NAME_BYTES_MAX
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.encoding import read_scalar
from flowengine.transport.wire.forms import Known
from flowengine.transport.wire.known_forms import AnyForm, KnownForms
from flowengine.transport.wire.outbox import Large
from flowengine.transport.wire.payload import NO_TENSORS, IncomingMessage, Payload
from flowengine.transport.wire.states import State, after_sending
from flowengine.transport.wire.wire import Wire

#: Headers up to this every side takes.
_SMALL_HEADER_BYTES: Final = HANDSHAKE_HEADER_BYTES_MAX
#: A tensor of so few bytes is copied behind its header: a buffer more costs more than that.
_JOINED_BYTES: Final = 2048


class Calling(Wire):
    """What is said and heard of calls."""

    def _set_up(self) -> None:
        super()._set_up()
        self._calls_out = CallsOut()
        self._calls_in = CallsIn(self.limits)
        #: What is told by its first bytes, tensors along known edges too.
        self._known = self._reader.known = KnownForms()
        self._handlers.update({m.FAILURE: self._failure_came, m.CANCEL: self._cancel_came})
        self._quick = {m.REQUEST: self._plain_request_came, m.REPLY: self._plain_reply_came}

    def _forget_all(self) -> None:
        self._calls_out.clear()
        self._calls_in.clear()
        self._known.clear()

    def _started(self, incoming: IncomingMessage, payload_bytes: int) -> None:
        number, fields = incoming.number, incoming.fields
        if number == m.REQUEST:
            self._calls_in.started(fields[0], payload_bytes)
        elif number == m.REPLY:
            self._calls_out.answer_started(fields[0])

    def _finished(self, incoming: IncomingMessage) -> None:
        fields = incoming.fields
        tensors = [tensor.value() for tensor in incoming.tensors]
        if incoming.number == m.REQUEST:
            self._calls_in.arrived(fields[0])
            self._events.append(e.Requested(fields[0], fields[1], fields[2], tensors))
        else:
            self._answered(fields[0], fields[1], tensors, None)

    def _abandoned(self, incoming: IncomingMessage) -> None:
        if incoming.number == m.REQUEST:
            self._calls_in.settled(incoming.fields[0])
        elif incoming.number == m.REPLY:
            self._calls_out.answer_abandoned(incoming.fields[0])

    # What arrives at once.

    def _plain_request_came(self, parts: list[Any], inline: bytearray | None) -> bool:
        if inline is not None or len(parts) != 4:
            return False
        _, number, method, arguments = parts
        if type(number) is not int or type(method) is not str or len(method) > NAME_BYTES_MAX or number < 1:
            return False
        self._calls_in.came_whole(number)
        self._events.append(e.Requested(number, method, arguments, []))
        return True

    def _plain_reply_came(self, parts: list[Any], inline: bytearray | None) -> bool:
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
        self._answer_came_whole(parts[1], parts[2], tensors)
        return True

    def know_calls(self, method: str) -> None:
        """Read calls of this method by their first bytes where they begin a part of a step."""
        self._known.know(CallForm(method))

    def message_known(self, known: AnyForm, number: int, behind: memoryview) -> bool:
        """What has come is known but for a number (a step, a call) and what lies behind it.

        False, and nothing is done, where it is not: then the longer way says what it is.
        """
        if self.state is not State.OPEN:
            return False
        if isinstance(known, AnswerForm):
            self._answer_came_whole(number, None, [])
        elif isinstance(known, HeardAnswers):
            heard = known.read(behind)
            if heard is None:
                return False
            self._answer_came_whole(number, heard[0], [heard[1]])
        else:
            assert not isinstance(known, Known), "a tensor came where there are only calls"
            call = known.read(behind)
            if call is None:
                return False
            self._calls_in.came_whole(number)
            self._events.append(e.Requested(number, call[0], call[1], []))
        self.counters.messages_received += 1
        return True

    def _answer_came_whole(self, number: int, result: Any, tensors: list[Value]) -> None:
        call = self._calls_out.answered_whole(number)
        if not call.is_cancelled:
            self._events.append(e.Answered(call, result, tensors, None))

    def _may_come_again(self, parts: list[Any], header: memoryview, inline: bytearray | None) -> None:
        if parts[0] == m.REQUEST:
            self._known.learn_call(header, parts[2], parts[3])
        elif inline is not None:
            self._known.learn_answer(header, len(inline), parts[2], parts[3])

    def _came_whole(self, incoming: IncomingMessage, header: memoryview, payload_bytes: int) -> None:
        if incoming.number == m.REPLY and incoming.tensors:
            descriptions = [tensor.description for tensor in incoming.tensors]
            self._known.learn_answer(header, payload_bytes, incoming.fields[1], descriptions)

    # What is said.

    @property
    def calls_waiting(self) -> int:
        """Calls of ours without an answer yet."""
        return self._calls_out.count

    @property
    def calls_serving(self) -> int:
        """Calls of the other side that we have not answered yet."""
        return len(self._calls_in)

    def has_room_for_call(self, payload: Payload) -> bool:
        """Whether the other side takes this call now; if not, it will once earlier calls are answered."""
        assert self.peer_limits is not None, "the connection was never open"
        return self._calls_out.has_room(payload.size, self.peer_limits)

    def request(self, method: str, arguments: Any, payload: Payload) -> e.OutgoingCall:
        """Call a method of the other side.

        Raises LocalProtocolError where no call can be made, InvalidArgumentError for arguments that cannot
        travel, ResourceExhaustedError for more than the other side takes.
        """
        if self.state is not State.OPEN:
            after_sending(self.side, self.state, m.REQUEST)
        assert self.peer_limits is not None
        if payload.size > self.peer_limits.request_bytes_max:
            raise ResourceExhaustedError(
                f"{self.address} takes calls of {self.peer_limits.request_bytes_max} bytes, "
                f"'{method}' has {payload.size}: raise Limits.request_bytes_max there"
            )
        call = e.OutgoingCall(method, payload.size)
        if payload.size <= INLINE_BYTES_MAX:
            # The number is taken last, so that a call that cannot be sent leaves no gap.
            header = self._header(m.REQUEST, (self._calls_out.next_number, method, arguments), payload)
            if payload.size or len(header) > _SMALL_HEADER_BYTES:
                self._check(header, payload)
            self._calls_out.add(call)
            self._calls_out.begin(call)
            self._queue(header, payload)
        else:

            def begin() -> bytes:
                return self._header(m.REQUEST, (self._calls_out.begin(call), method, arguments), payload)

            # A trial with the longest number: nothing may go wrong when the call's turn has come.
            self._check(self._header(m.REQUEST, (1 << 62, method, arguments), payload), payload)
            self._calls_out.add(call)
            call.large = self._queue_large(begin, payload)
        self.counters.calls_made += 1
        return call

    def request_fixed(self, form: FixedCall) -> e.OutgoingCall:
        """As `request`, of what is called again and again."""
        if not form.is_small:
            return self.request(form.method, form.arguments, NO_TENSORS)
        if self.state is not State.OPEN:
            after_sending(self.side, self.state, m.REQUEST)
        return self._request_frame(form.method, form.frame(self._calls_out.next_number))

    def request_step(self, form: CallForm, handle: int, step: int, first: int, last: int) -> e.OutgoingCall:
        """As `request` of a method with the arguments [handle, step, [first, last], False]."""
        if self.state is not State.OPEN:
            after_sending(self.side, self.state, m.REQUEST)
        frame = form.frame(self._calls_out.next_number, handle, step, first, last)
        return self._request_frame(form.method, frame)

    def _request_frame(self, method: str, frame: bytes) -> e.OutgoingCall:
        calls = self._calls_out
        call = e.OutgoingCall(method, 0)
        calls.add(call)
        calls.begin(call)
        self._outbox.add_frame(frame, (), 0)
        counters = self.counters
        counters.messages_sent += 1
        counters.calls_made += 1
        return call

    def reply_nothing(self, call: int) -> None:
        """Answer a call with None and no tensors."""
        if self.state is not State.OPEN:
            after_sending(self.side, self.state, m.REPLY)
        self._calls_in.answered_whole(call)
        self._outbox.add_frame(ANSWER.frame(call), (), 0)
        counters = self.counters
        counters.messages_sent += 1
        counters.calls_served += 1

    def reply_tensor(self, call: int, result: Any, value: Value) -> bool:
        """Answer a call with one small tensor, with None or an empty table beside it; whether that was it."""
        form = answer_of(result, value)
        limits = self.peer_limits
        if form is None or limits is None or self.state is not State.OPEN:
            return False
        size = form.size
        if size > limits.message_bytes_max or size > limits.incoming_bytes_max:
            return False
        self._calls_in.answered_whole(call)
        self._queue_small(form.frame(call), value, size)
        counters = self.counters
        counters.messages_sent += 1
        counters.calls_served += 1
        return True

    def _queue_small(self, frame: bytes, value: Value, size: int) -> None:
        """A frame, and behind it the bytes of a small array or number as they lie."""
        if size <= _JOINED_BYTES:
            self._outbox.add_frame(frame + value.tobytes(), (), 0)
        else:
            self._outbox.add_frame(frame, (value.reshape(-1).view(np.uint8).data,), size)

    def cancel(self, call: e.OutgoingCall) -> None:
        """Give up a call: no Answered will come for it. What has not been sent of it is not sent any more."""
        if call.is_cancelled:
            return
        call.is_cancelled = True
        if self.state is not State.OPEN:
            return
        large: Large | None = call.large
        if large is not None and self._outbox.abandon(large):
            self._calls_out.forget(call)
        elif self._calls_out.is_begun(call):
            self._send(m.CANCEL, (call.number,))

    def reply(self, call: int, result: Any, payload: Payload) -> None:
        """Answer a call. Raises as `request` does; the call is then still to be answered, with `fail`."""
        self._calls_in.check_answerable(call)
        if not payload.size and not payload.descriptions and self.state is State.OPEN:
            header = self._header(m.REPLY, (call, result), None)
            if len(header) <= _SMALL_HEADER_BYTES:
                self._queue(header, None)
                self._calls_in.settled(call)
                self.counters.calls_served += 1
                return
        large = self._send(m.REPLY, (call, result), payload, lambda _: self._calls_in.settled(call))
        if large is None:
            self._calls_in.settled(call)
        else:
            self._calls_in.replies[call] = large
        self.counters.calls_served += 1

    def fail(self, call: int, error: BaseException) -> None:
        """Answer a call with an error."""
        self._calls_in.check_answerable(call)
        self._send_error(m.FAILURE, call, error)
        self._calls_in.settled(call)
        self.counters.calls_served += 1

    def _send_error(self, number: int, subject: int, error: BaseException) -> None:
        try:
            self._send(number, (subject, *error_to_wire(error)))
        except ResourceExhaustedError:
            # The other side takes small headers only; the class and the message matter most.
            self._send(number, (subject, *error_to_wire(error, brief=True)))

    def _answered(self, number: int, result: Any, tensors: list[Value], error: OpError | None) -> None:
        call = self._calls_out.answered(number)
        if not call.is_cancelled:
            self._events.append(e.Answered(call, result, tensors, error))

    def _failure_came(self, number: int, code: int, message: str, details: dict[str, Any]) -> None:
        self._calls_out.answer_started(number)
        self._answered(number, None, [], error_from_wire(code, message, details))

    def _cancel_came(self, number: int) -> None:
        if not self._calls_in.cancelled(number):
            return
        reply = self._calls_in.replies.get(number)
        if reply is None:
            self._events.append(e.RequestCancelled(number))
        elif self._outbox.abandon(reply) and self.state is State.OPEN:
            del self._calls_in.replies[number]
            self.fail(number, CancelledError("the caller gave the call up"))


__all__ = ["Calling"]
