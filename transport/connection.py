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

from typing import Any

from flowengine.core.arrays import Value
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport import events as e
from flowengine.transport.calls.calling import Calling
from flowengine.transport.errors import RemoteProtocolError, error_from_wire
from flowengine.transport.limits import (
    ENTRY_BYTES,
    INLINE_BYTES_MAX,
    PeerLimits,
)
from flowengine.transport.tensors.credit import push_cost
from flowengine.transport.tensors.ledger import TensorLedger
from flowengine.transport.tensors.routes import Route, RoutesIn, RoutesOut, may_be_numbered
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.forms import Known, form_of, head_of, make_form
from flowengine.transport.wire.known_forms import AnyForm
from flowengine.transport.wire.lent import is_worth_lending
from flowengine.transport.wire.payload import IncomingMessage, Payload
from flowengine.transport.wire.states import State


class Connection(Calling):
    """Both sides of the protocol; see the head of this module."""

    def _set_up(self) -> None:
        super()._set_up()
        self._ledger = self.ledger = TensorLedger(self.limits)
        self._routes_out = RoutesOut()
        self._routes_in = RoutesIn()
        self._handlers.update(
            {
                m.ANNOUNCE: self._announce_came,
                m.PULL: self._pull_came,
                m.CREDIT: self._credit_came,
                m.OVERFLOW: self._overflow_came,
                m.STEP_FAILED: self._step_failure_came,
                m.ROUTE: self._route_came,
            }
        )

    def _opened(self, limits: PeerLimits) -> None:
        self._ledger.opened(limits.credit_bytes, limits.pulls_max)

    def _forget_all(self) -> None:
        super()._forget_all()
        self._ledger.clear()
        self._routes_in.clear()

    def _started(self, incoming: IncomingMessage, payload_bytes: int) -> None:
        if incoming.number == m.PUSH:
            self._push_started(incoming, payload_bytes)
        elif incoming.number == m.DELIVER:
            self._delivery_started(incoming, payload_bytes)
        else:
            super()._started(incoming, payload_bytes)

    def _finished(self, incoming: IncomingMessage) -> None:
        if incoming.number == m.PUSH:
            self._push_came(incoming)
        elif incoming.number == m.DELIVER:
            self._delivery_came(incoming)
        else:
            super()._finished(incoming)

    def _abandoned(self, incoming: IncomingMessage) -> None:
        if incoming.cost:
            self.give_back(incoming.cost)
        else:
            super()._abandoned(incoming)

    def message_known(self, known: AnyForm, number: int, behind: memoryview) -> bool:
        """See `Calling`; also of tensors along known edges."""
        if not isinstance(known, Known):
            return super().message_known(known, number, behind)
        if self.state is not State.OPEN:
            return False
        credit, cost = self._ledger.credit_in, known.cost
        if cost > credit.left:
            credit.charge(cost)  # which says what is wrong
        credit.left -= cost
        counters = self.counters
        counters.messages_received += 1
        counters.tensors_received += 1
        key = RendezvousKey(number, *known.route)
        self._events.append(e.Pushed(key, known.value(behind), False, cost))
        return True

    def _came_whole(self, incoming: IncomingMessage, header: memoryview, payload_bytes: int) -> None:
        if incoming.number != m.DELIVER:
            super()._came_whole(incoming, header, payload_bytes)
        elif incoming.tensors and incoming.key is not None:
            self._known.learn(header, payload_bytes, incoming.key[1:5], incoming.tensors[0].description)

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

    def _delivery_came(self, incoming: IncomingMessage) -> None:
        assert incoming.key is not None, "a tensor came along no edge"
        is_dead = incoming.fields[2]
        value = None if is_dead else incoming.tensors[0].value()
        self.counters.tensors_received += 1
        self._events.append(e.Pushed(incoming.key, value, is_dead, incoming.cost))

    def _route_came(self, route: int, source: str, incarnation: int, edge: str, target: str) -> None:
        if route == 1:
            self._known.clear()
        self._routes_in.define(route, (source, incarnation, edge, target))

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
        else:
            self._queue_small(frame, value, size)
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
            large.may_be_lent = len(payload.buffers) == 1 and is_worth_lending(payload.size)
            self._ledger.stream_began(step, large, cost)

    def _push_started(self, incoming: IncomingMessage, payload_bytes: int) -> None:
        key, is_dead, is_pulled = incoming.fields
        if len(incoming.tensors) != (not is_dead):
            raise RemoteProtocolError(f"PUSH carries {len(incoming.tensors)} tensors where dead is {is_dead}")
        incoming.cost = self._ledger.push_started(m.key_from_wire(key), is_pulled, payload_bytes)

    def _push_came(self, incoming: IncomingMessage) -> None:
        key, is_dead, _ = incoming.fields
        value = None if is_dead else incoming.tensors[0].value()
        self.counters.tensors_received += 1
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
