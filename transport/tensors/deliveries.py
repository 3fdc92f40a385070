"""Small tensors along edges that carry one step after step: a push in its shortest form. Sans-I/O.

A frame names its edge by a number that both sides know (see `routes`). All frames of its edge, type and shape
are equal but for the step and the bytes (see `wire.templates`).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

import msgpack
import numpy as np

from flowengine.core.arrays import Value
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport import events as e
from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.limits import ENTRY_BYTES, INLINE_BYTES_MAX
from flowengine.transport.tensors.credit import push_cost
from flowengine.transport.tensors.ledger import TensorLedger
from flowengine.transport.tensors.routes import Route, RoutesIn, RoutesOut, may_be_numbered
from flowengine.transport.tensors.traffic import tensor_came
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.encoding import read_small, type_of
from flowengine.transport.wire.payload import IncomingMessage, Payload
from flowengine.transport.wire.states import State
from flowengine.transport.wire.templates import (
    BEFORE_BYTES,
    TAIL_BEGINS,
    FrameTemplate,
    TensorTemplates,
    small_tensor,
)
from flowengine.transport.wire.wire import Wire

#: The part of a header before the number of its edge, and the part behind it.
_BEFORE_ROUTE: Final = bytes((0x95, m.DELIVER, 0xCD))
_BEFORE_STEP: Final = b"\xcf"
#: Whether the tensor is dead.
_ALIVE: Final = b"\xc2"
_DEAD: Final = b"\xc3"


def before_step(route: int) -> bytes:
    """Return the bytes before the step in the header of a tensor along this edge."""
    return _BEFORE_ROUTE + route.to_bytes(2, "big") + _BEFORE_STEP


def _templates_of(route: int) -> TensorTemplates:
    return TensorTemplates(before_step(route), _ALIVE)


class KnownDelivery(NamedTuple):
    """The part that all frames with such a tensor along an edge share."""

    route: Route
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    #: The credit that one of them uses.
    cost: int


class Deliveries:
    """Small tensors along numbered edges, out and in. Implements `Carrier` for DELIVER."""

    def __init__(self, wire: Wire, ledger: TensorLedger) -> None:
        self._wire = wire
        self._ledger = ledger
        self._routes_out: RoutesOut[TensorTemplates] = RoutesOut()
        self._routes_in = RoutesIn()

    def clear(self) -> None:
        """Forget everything, because the connection is closed."""
        self._routes_in.clear()

    def deliver(self, route: Route, step: int, value: Value, is_dead: bool) -> bool:
        """Send a small tensor outside of loops on credit, along an edge; return whether that was possible.

        Returns False, and sends nothing, for a large tensor, for one that is pulled, and if the credit does
        not suffice. Raises InvalidArgumentError for a value that cannot be sent.
        """
        ledger, wire = self._ledger, self._wire
        if wire.state is not State.OPEN or ledger.pulls_in:
            return False
        payload: Payload | None = None
        small = None if is_dead else small_tensor(value)
        if small is not None:
            size = small.size
        else:
            payload = Payload(() if is_dead else (value,))
            size = payload.size
            if size > INLINE_BYTES_MAX:
                return False
        credit = ledger.credit_out
        cost = size + ENTRY_BYTES
        if credit.left - cost < credit.reserve:
            return False
        numbered = self._routes_out.find(route)
        if numbered is None:
            if not may_be_numbered(route):
                return False
            numbered = self._routes_out.add(route, _templates_of)
            wire.send(m.ROUTE, (numbered.number, *route))
        if small is not None:
            wire.queue_tensor(numbered.kept[small].frame(step), value, size)
        else:
            assert payload is not None, "neither a small tensor nor a payload is to be sent"
            tail = (_DEAD if is_dead else _ALIVE) + msgpack.packb(payload.descriptions)
            template = FrameTemplate(before_step(numbered.number), tail, payload_bytes=size)
            wire.outbox.add_frame(template.frame(step), payload.buffers, size)
            wire.counters.messages_sent += 1
            wire.counters.bytes_copied_to_send += payload.copied
        credit.left -= cost
        wire.counters.tensors_pushed += 1
        return True

    # Messages that arrive.

    def route_came(self, route: int, source: str, incarnation: int, edge: str, target: str) -> None:
        """Handle ROUTE."""
        if route == 1:
            # The meaning of all numbers changes from now on.
            self._wire.templates.forget()
        self._routes_in.define(route, (source, incarnation, edge, target))

    def started(self, incoming: IncomingMessage, payload_bytes: int) -> None:
        """Handle the header of DELIVER."""
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

    def finished(self, incoming: IncomingMessage) -> None:
        """Handle a complete DELIVER."""
        tensor_came(self._wire, incoming, is_dead=incoming.fields[2])

    def abandoned(self, incoming: IncomingMessage) -> None:
        """Never called: the payload of DELIVER comes at once."""
        raise AssertionError("DELIVER came as a stream")

    def came_whole(self, incoming: IncomingMessage, header: memoryview, payload_bytes: int) -> None:
        """Recognize later frames of the same form, after DELIVER has been handled."""
        if not incoming.tensors or incoming.key is None or len(header) <= TAIL_BEGINS:
            return
        if bytes(header[:3]) != _BEFORE_ROUTE or bytes(header[5:BEFORE_BYTES]) != _BEFORE_STEP:
            return
        number, shape, *_ = incoming.tensors[0].description
        dtype = type_of(number)
        if dtype is None or bytes(header[TAIL_BEGINS : TAIL_BEGINS + 1]) != _ALIVE:
            return
        known = KnownDelivery(incoming.key[1:5], dtype, tuple(shape), incoming.cost)
        self._wire.templates.learn(header, payload_bytes, partial(self._same_delivery, known))

    def _same_delivery(self, known: KnownDelivery, step: int, payload: memoryview) -> bool:
        route, dtype, shape, cost = known
        credit, wire = self._ledger.credit_in, self._wire
        if cost > credit.left:
            credit.charge(cost)  # which raises the right error
        credit.left -= cost
        counters = wire.counters
        counters.messages_received += 1
        counters.tensors_received += 1
        key = RendezvousKey(step, *route)
        wire.events.append(e.TensorArrival(key, read_small(payload, dtype, shape), False, cost))
        return True


__all__ = ["Deliveries", "before_step"]
