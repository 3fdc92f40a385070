"""Tensors of steps between two sides: pushed on credit, announced, pulled, dropped with their step. Sans-I/O.

`deliveries` sends small ones outside of loops in a shorter form.
"""

from __future__ import annotations

from typing import Any

from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport import events as e
from flowengine.transport.errors import RemoteProtocolError, error_from_wire
from flowengine.transport.limits import ENTRY_BYTES
from flowengine.transport.tensors.credit import push_cost
from flowengine.transport.tensors.ledger import TensorLedger
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.lent_memory import is_worth_lending
from flowengine.transport.wire.payload import IncomingMessage, Payload
from flowengine.transport.wire.states import State
from flowengine.transport.wire.wire import Wire


class TensorTraffic:
    """Tensors by their keys, out and in: pushed, announced, pulled. Implements `Carrier` for PUSH."""

    def __init__(self, wire: Wire, ledger: TensorLedger) -> None:
        self._wire = wire
        self.ledger = ledger

    @property
    def credit_left(self) -> int:
        """Return the bytes of credit that are left for pushes to the other side."""
        return self.ledger.credit_out.left

    @property
    def credit_given(self) -> int:
        """Return the bytes of credit that the other side has left for pushes here."""
        return self.ledger.credit_in.left

    def may_push(self, payload: Payload) -> bool:
        """Return whether the credit covers pushing this, and leaves enough for announcements."""
        return self.ledger.credit_out.may_push(payload.size)

    def may_announce(self) -> bool:
        """Return whether the credit covers an announcement."""
        return self.ledger.credit_out.may_announce()

    def is_pulled(self, key: RendezvousKey) -> bool:
        """Return whether the other side waits for this key and we owe it."""
        return self.ledger.is_pulled(key)

    # Messages to send.

    def push(self, key: RendezvousKey, payload: Payload, is_dead: bool) -> None:
        """Send a tensor (a payload of one, of none if dead) on credit."""
        cost = push_cost(payload.size)
        self.ledger.credit_out.check(cost)
        self._send_tensor(key, payload, is_dead, cost)
        self.ledger.credit_out.charge(cost)
        self._wire.counters.tensors_pushed += 1

    def answer_pull(self, key: RendezvousKey, payload: Payload, is_dead: bool) -> None:
        """Send a tensor that the other side has pulled."""
        self.ledger.check_pulled(key)
        self._send_tensor(key, payload, is_dead, 0)
        self.ledger.pull_answered(key)
        self._wire.counters.tensors_pulled += 1

    def _send_tensor(self, key: RendezvousKey, payload: Payload, is_dead: bool, cost: int) -> None:
        step = key.step
        fields = (m.key_to_wire(key), is_dead, not cost)
        large = self._wire.send(m.PUSH, fields, payload, lambda sent: self.ledger.stream_sent(step, sent))
        if large is not None:
            large.may_be_lent = len(payload.buffers) == 1 and is_worth_lending(payload.size)
            self.ledger.stream_began(step, large, cost)

    def announce(self, key: RendezvousKey, size: int) -> None:
        """Announce to the other side that this tensor waits here for its pull."""
        self.ledger.credit_out.check(ENTRY_BYTES)
        self._wire.send(m.ANNOUNCE, (m.key_to_wire(key), size))
        self.ledger.credit_out.charge(ENTRY_BYTES)
        self._wire.counters.tensors_announced += 1

    def pull(self, key: RendezvousKey) -> bool:
        """Ask for a tensor; return whether a message was sent. None is, while the tensor is owed."""
        if not self.ledger.may_pull(key, self._wire.address):
            return False
        self._wire.send(m.PULL, (m.key_to_wire(key),))
        self.ledger.pull_sent(key)
        return True

    def give_back(self, cost: int) -> None:
        """Return the credit for tensors of this cost, which have been taken or dropped here."""
        credit = self.ledger.credit_in
        if credit.owed + cost < credit.instalment:
            credit.owed += cost
            return
        grant = credit.give_back(cost)
        if grant and self._wire.state is State.OPEN:
            self._wire.send(m.CREDIT, (grant,))

    def overflow(self) -> None:
        """Tell the other side to pull every awaited tensor, announced or not."""
        self._wire.send(m.OVERFLOW, ())

    def end_step(self, step: int, error: BaseException, *, notify: bool = False) -> None:
        """Drop tensors under way for a step. The other side is told if it may wait in vain, or if `tell`."""
        if self._wire.state is not State.OPEN:
            return
        if self.ledger.end_step(step, self._wire.outbox.abandon) or notify:
            self._wire.send_error(m.STEP_FAILED, step, error)

    # Messages that arrive.

    def started(self, incoming: IncomingMessage, payload_bytes: int) -> None:
        """Handle the header of PUSH."""
        key, is_dead, is_pulled = incoming.fields
        if len(incoming.tensors) != (not is_dead):
            raise RemoteProtocolError(f"PUSH carries {len(incoming.tensors)} tensors where dead is {is_dead}")
        incoming.key = m.key_from_wire(key)
        incoming.cost = self.ledger.push_started(incoming.key, is_pulled, payload_bytes)

    def finished(self, incoming: IncomingMessage) -> None:
        """Handle a complete PUSH."""
        tensor_came(self._wire, incoming, is_dead=incoming.fields[1])

    def abandoned(self, incoming: IncomingMessage) -> None:
        """Handle a PUSH whose rest will not arrive."""
        if incoming.cost:
            self.give_back(incoming.cost)

    def came_whole(self, incoming: IncomingMessage, header: memoryview, payload_bytes: int) -> None:
        """Record that a PUSH that arrived complete was handled."""

    def announce_came(self, key: list[Any], size: int) -> None:
        """Handle ANNOUNCE."""
        self.ledger.credit_in.charge(ENTRY_BYTES)
        self._wire.events.append(e.Announcement(m.key_from_wire(key), size, ENTRY_BYTES))

    def pull_came(self, fields: list[Any]) -> None:
        """Handle PULL."""
        key = m.key_from_wire(fields)
        self.ledger.pulled(key)
        self._wire.events.append(e.TensorPull(key))

    def credit_came(self, count: int) -> None:
        """Handle CREDIT."""
        self.ledger.credit_out.grown(count)
        self._wire.events.append(e.CreditGain())

    def overflow_came(self) -> None:
        """Handle OVERFLOW."""
        self._wire.events.append(e.CreditOverflow())

    def step_failure_came(self, step: int, code: int, message: str, details: dict[str, Any]) -> None:
        """Handle STEP_FAILED."""
        self.ledger.step_failed_there(step)
        self._wire.events.append(e.StepFailure(step, error_from_wire(code, message, details)))


def tensor_came(wire: Wire, incoming: IncomingMessage, *, is_dead: bool) -> None:
    """Report an event for a present tensor."""
    assert incoming.key is not None, "a tensor came for no key"
    value = None if is_dead else incoming.tensors[0].value()
    wire.counters.tensors_received += 1
    wire.events.append(e.TensorArrival(incoming.key, value, is_dead, incoming.cost))


__all__ = ["TensorTraffic", "tensor_came"]
