"""One connection: bytes in, events out; wishes in, bytes out. Sans-I/O, without a clock of its own.

    buffers = connection.receive_buffers()           where the next bytes go
    connection.bytes_received(count, now)            they are there
    for event in connection.take_events(): ...       what that meant
    connection.request("run", arguments, tensors)    what we want to say
    connection.data_to_send(), bytes_sent(count)     what that takes
    connection.next_deadline(), handle_time(now)     what time brings

The same class plays both sides. What may be received and sent when is the table in `states`; how much, the
limits. A fault of the other side raises RemoteProtocolError once, and from then on the connection is closed:
it holds nothing, offers no buffers and takes no wishes. Events that were complete before stay to be taken.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Value
from flowengine.core.errors import CancelledError, OpError, ResourceExhaustedError
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport import events as e
from flowengine.transport import messages as m
from flowengine.transport.call_forms import (
    ANSWER,
    AnswerForm,
    CallForm,
    FixedCall,
    HeardAnswers,
    answer_of,
)
from flowengine.transport.calls import CallsIn, CallsOut
from flowengine.transport.credit import push_cost
from flowengine.transport.errors import RemoteProtocolError, error_from_wire, error_to_wire
from flowengine.transport.forms import Known, form_of, head_of, make_form
from flowengine.transport.identity import Identity
from flowengine.transport.known_forms import AnyForm, KnownForms
from flowengine.transport.ledger import TensorLedger
from flowengine.transport.limits import (
    ENTRY_BYTES,
    HANDSHAKE_HEADER_BYTES_MAX,
    INLINE_BYTES_MAX,
    NAME_BYTES_MAX,
    Limits,
    PeerLimits,
)
from flowengine.transport.outbox import Large
from flowengine.transport.payload import NO_TENSORS, IncomingMessage, Payload
from flowengine.transport.routes import Route, RoutesIn, RoutesOut, may_be_numbered
from flowengine.transport.states import Side, State, after_sending
from flowengine.transport.tensors import read_scalar
from flowengine.transport.wire import Wire

#: Headers up to this every side takes.
_SMALL_HEADER_BYTES: Final = HANDSHAKE_HEADER_BYTES_MAX
#: A tensor of so few bytes is copied behind its header: a buffer more costs more than that.
_JOINED_BYTES: Final = 2048


class Connection(Wire):
    """Both sides of the protocol; see the head of this module."""

    def __init__(
        self,
        side: Side,
        identity: Identity,
        *,
        address: str,
        now: float,
        key: bytes | None = None,
        limits: Limits | None = None,
        is_channel_authenticated: bool = False,
        expected_incarnation: int = 0,
    ) -> None:
        """See `Wire`."""
        limits = limits if limits is not None else Limits()
        self._calls_out = CallsOut()
        self._calls_in = CallsIn(limits)
        self._ledger = self.ledger = TensorLedger(limits)
        self._routes_out = RoutesOut()
        self._routes_in = RoutesIn()
        super().__init__(
            side,
            identity,
            address=address,
            now=now,
            key=key,
            limits=limits,
            is_channel_authenticated=is_channel_authenticated,
            expected_incarnation=expected_incarnation,
        )
        self._known = self._reader.known = KnownForms()
        self._handlers.update(
            {
                m.FAILURE: self._failure_came,
                m.CANCEL: self._cancel_came,
                m.ANNOUNCE: self._announce_came,
                m.PULL: self._pull_came,
                m.CREDIT: self._credit_came,
                m.OVERFLOW: self._overflow_came,
                m.STEP_FAILED: self._step_failure_came,
                m.ROUTE: self._route_came,
            }
        )
        self._quick = {
            m.REQUEST: self._plain_request_came,
            m.REPLY: self._plain_reply_came,
        }

    def _opened(self, limits: PeerLimits) -> None:
        self._ledger.opened(limits.credit_bytes, limits.pulls_max)

    def _forget_all(self) -> None:
        self._calls_out.clear()
        self._calls_in.clear()
        self._ledger.clear()
        self._routes_in.clear()
        self._known.clear()

    def _started(self, incoming: IncomingMessage, payload_bytes: int) -> None:
        number, fields = incoming.number, incoming.fields
        if number == m.REQUEST:
            self._calls_in.started(fields[0], payload_bytes)
        elif number == m.REPLY:
            self._calls_out.answer_started(fields[0])
        elif number == m.PUSH:
            self._push_started(incoming, payload_bytes)
        elif number == m.DELIVER:
            self._delivery_started(incoming, payload_bytes)

    def _finished(self, incoming: IncomingMessage) -> None:
        number, fields = incoming.number, incoming.fields
        tensors = [tensor.value() for tensor in incoming.tensors]
        if number == m.REQUEST:
            self._calls_in.arrived(fields[0])
            self._events.append(e.Requested(fields[0], fields[1], fields[2], tensors))
        elif number == m.REPLY:
            self._answered(fields[0], fields[1], tensors, None)
        elif number == m.PUSH:
            self._push_came(incoming, tensors)
        else:
            self._delivery_came(incoming, tensors)

    def _abandoned(self, incoming: IncomingMessage) -> None:
        number, fields = incoming.number, incoming.fields
        if number == m.REQUEST:
            self._calls_in.settled(fields[0])
        elif number == m.REPLY:
            self._calls_out.answer_abandoned(fields[0])
        elif incoming.cost:
            self.give_back(incoming.cost)

    # What nearly every message is. Whatever else it is, is left to the longer way, which says what is wrong.

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
        if isinstance(known, Known):
            credit, cost = self._ledger.credit_in, known.cost
            if cost > credit.left:
                credit.charge(cost)  # which says what is wrong
            credit.left -= cost
            self.counters.tensors_received += 1
            key = RendezvousKey(number, *known.route)
            self._events.append(e.Pushed(key, known.value(behind), False, cost))
        elif isinstance(known, AnswerForm):
            self._answer_came_whole(number, None, [])
        elif isinstance(known, HeardAnswers):
            heard = known.read(behind)
            if heard is None:
                return False
            self._answer_came_whole(number, heard[0], [heard[1]])
        else:
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
        if not incoming.tensors:
            return
        if incoming.number == m.DELIVER and incoming.key is not None:
            self._known.learn(header, payload_bytes, incoming.key[1:5], incoming.tensors[0].description)
        elif incoming.number == m.REPLY:
            descriptions = [tensor.description for tensor in incoming.tensors]
            self._known.learn_answer(header, payload_bytes, incoming.fields[1], descriptions)

    def _delivery_started(self, incoming: IncomingMessage, payload_bytes: int) -> None:
        route, step, is_dead = incoming.fields
        if payload_bytes > INLINE_BYTES_MAX:
            raise RemoteProtocolError(f"DELIVER came with {payload_bytes} bytes that follow")
        if len(incoming.tensors) != (not is_dead):
            raise RemoteProtocolError(
                f"DELIVER carries {len(incoming.tensors)} tensors where dead is {is_dead}"
            )
        incoming.key = self._routes_in.key(route, step)
        incoming.cost = push_cost(payload_bytes)
        self._ledger.credit_in.charge(incoming.cost)

    def _delivery_came(self, incoming: IncomingMessage, tensors: list[Value]) -> None:
        assert incoming.key is not None, "a tensor came along no edge"
        is_dead = incoming.fields[2]
        self.counters.tensors_received += 1
        value = None if is_dead else tensors[0]
        self._events.append(e.Pushed(incoming.key, value, is_dead, incoming.cost))

    def _route_came(self, route: int, source: str, incarnation: int, edge: str, target: str) -> None:
        if route == 1:
            self._known.clear()
        self._routes_in.define(route, (source, incarnation, edge, target))

    # Calls.

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
        frame = form.frame(call)
        if size <= _JOINED_BYTES:
            self._outbox.add_frame(frame + value.tobytes(), (), 0)
        else:
            self._outbox.add_frame(frame, (value.reshape(-1).view(np.uint8).data,), size)
        counters = self.counters
        counters.messages_sent += 1
        counters.calls_served += 1
        return True

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

    # Tensors.

    @property
    def credit_left(self) -> int:
        """What may still be left at the other side."""
        return self._ledger.credit_out.left

    @property
    def credit_given(self) -> int:
        """What the other side may still leave here."""
        return self._ledger.credit_in.left

    def may_push(self, payload: Payload) -> bool:
        """Whether the credit covers pushing this, and leaves enough for announcements."""
        return self._ledger.credit_out.may_push(payload.size)

    def may_announce(self) -> bool:
        """Whether the credit covers an announcement."""
        return self._ledger.credit_out.may_announce()

    def is_pulled(self, key: RendezvousKey) -> bool:
        """Whether the other side waits for this key and we owe it."""
        return self._ledger.is_pulled(key)

    def push(self, key: RendezvousKey, payload: Payload, is_dead: bool) -> None:
        """Send a tensor (a payload of one, of none if dead) on credit."""
        cost = push_cost(payload.size)
        self._ledger.credit_out.check(cost)
        self._send_tensor(key, payload, is_dead, cost)
        self._ledger.credit_out.charge(cost)
        self.counters.tensors_pushed += 1

    def deliver(self, route: Route, step: int, value: Value, is_dead: bool) -> bool:
        """Send a small tensor of no loop on credit, along a route; whether that is how it could be sent.

        False where nothing was sent: for a large one, one that is pulled, where the credit does not reach.
        Raises InvalidArgumentError for a value that cannot travel.
        """
        ledger = self._ledger
        if self.state is not State.OPEN or ledger.pulls_in:
            return False
        form = None if is_dead else form_of(value)
        buffers: list[Any] | None = None
        if form is None:
            payload = Payload(() if is_dead else (value,))
            if payload.size > INLINE_BYTES_MAX:
                return False
            form, buffers = make_form(payload.descriptions, payload.size, is_dead=is_dead), payload.buffers
            self.counters.bytes_copied_to_send += payload.copied
        size = form.size
        credit = ledger.credit_out
        cost = size + ENTRY_BYTES
        if credit.left - cost < credit.reserve:
            return False
        number = self._routes_out.find(route)
        if not number:
            if not may_be_numbered(route):
                return False
            number = self._routes_out.add(route)
            self._send(m.ROUTE, (number, *route))
        frame = head_of(form, number, step)
        if buffers is not None:
            self._outbox.add_frame(frame, buffers, size)
        elif size <= _JOINED_BYTES:
            self._outbox.add_frame(frame + value.tobytes(), (), 0)
        else:
            self._outbox.add_frame(frame, (value.reshape(-1).view(np.uint8).data,), size)
        credit.left -= cost
        counters = self.counters
        counters.messages_sent += 1
        counters.tensors_pushed += 1
        return True

    def answer_pull(self, key: RendezvousKey, payload: Payload, is_dead: bool) -> None:
        """Send a tensor that the other side has pulled."""
        self._ledger.check_pulled(key)
        self._send_tensor(key, payload, is_dead, 0)
        self._ledger.pull_answered(key)
        self.counters.tensors_pulled += 1

    def announce(self, key: RendezvousKey, size: int) -> None:
        """Tell the other side that this tensor waits here for its pull."""
        self._ledger.credit_out.check(ENTRY_BYTES)
        self._send(m.ANNOUNCE, (m.key_to_wire(key), size))
        self._ledger.credit_out.charge(ENTRY_BYTES)
        self.counters.tensors_announced += 1

    def pull(self, key: RendezvousKey) -> bool:
        """Ask for a tensor; whether it was asked for. Asking again while it is owed says nothing."""
        if not self._ledger.may_pull(key, self.address):
            return False
        self._send(m.PULL, (m.key_to_wire(key),))
        self._ledger.pull_sent(key)
        return True

    def give_back(self, cost: int) -> None:
        """What cost this much has been taken or dropped here."""
        credit = self._ledger.credit_in
        if credit.owed + cost < credit.instalment:
            credit.owed += cost
            return
        grant = credit.give_back(cost)
        if grant and self.state is State.OPEN:
            self._send(m.CREDIT, (grant,))

    def overflow(self) -> None:
        """Tell the other side to pull whatever it waits for, announced or not."""
        self._send(m.OVERFLOW, ())

    def end_step(self, step: int, error: BaseException, *, tell: bool = False) -> None:
        """Drop what is under way for a step. The other side is told if it may wait in vain, or if `tell`."""
        if self.state is not State.OPEN:
            return
        if self._ledger.end_step(step, self._outbox.abandon) or tell:
            self._send_error(m.STEP_FAILED, step, error)

    def _send_tensor(self, key: RendezvousKey, payload: Payload, is_dead: bool, cost: int) -> None:
        step = key.step
        fields = (m.key_to_wire(key), is_dead, not cost)
        large = self._send(m.PUSH, fields, payload, lambda sent: self._ledger.stream_sent(step, sent))
        if large is not None:
            self._ledger.stream_began(step, large, cost)

    def _push_started(self, incoming: IncomingMessage, payload_bytes: int) -> None:
        key, is_dead, is_pulled = incoming.fields
        if len(incoming.tensors) != (not is_dead):
            raise RemoteProtocolError(f"PUSH carries {len(incoming.tensors)} tensors where dead is {is_dead}")
        incoming.cost = self._ledger.push_started(m.key_from_wire(key), is_pulled, payload_bytes)

    def _push_came(self, incoming: IncomingMessage, tensors: list[Value]) -> None:
        key, is_dead, _ = incoming.fields
        self.counters.tensors_received += 1
        value = None if is_dead else tensors[0]
        self._events.append(e.Pushed(m.key_from_wire(key), value, is_dead, incoming.cost))

    def _announce_came(self, key: list[Any], size: int) -> None:
        self._ledger.credit_in.charge(ENTRY_BYTES)
        self._events.append(e.Announced(m.key_from_wire(key), size, ENTRY_BYTES))

    def _pull_came(self, fields: list[Any]) -> None:
        key = m.key_from_wire(fields)
        self._ledger.pulled(key)
        self._events.append(e.Pulled(key))

    def _credit_came(self, count: int) -> None:
        self._ledger.credit_out.grown(count)
        self._events.append(e.CreditGrew())

    def _overflow_came(self) -> None:
        self._events.append(e.Overflowed())

    def _step_failure_came(self, step: int, code: int, message: str, details: dict[str, Any]) -> None:
        self._ledger.step_failed_there(step)
        self._events.append(e.StepFailed(step, error_from_wire(code, message, details)))


__all__ = ["Connection"]
