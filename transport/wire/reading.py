"""From frames to messages: each is checked, given room, and handed to the taker of its number. Sans-I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.encoding import IncomingTensor
from flowengine.transport.wire.memory import ReceivedMemory
from flowengine.transport.wire.payload import IncomingMessage
from flowengine.transport.wire.states import State, after_receiving
from flowengine.transport.wire.wire import Wire


class Carrier(Protocol):
    """The taker of messages of one number, which may carry tensors."""

    def started(self, incoming: IncomingMessage, payload_bytes: int) -> None:
        """Check a message whose header has arrived, before room for its tensors is made."""

    def finished(self, incoming: IncomingMessage) -> None:
        """Take a complete message."""

    def abandoned(self, incoming: IncomingMessage) -> None:
        """Forget a message that will not be finished."""

    def came_whole(self, incoming: IncomingMessage, header: memoryview, payload_bytes: int) -> None:
        """Handle the end of a message that arrived complete; its header is still here."""


class MessageReader:
    """The reader of messages. Implements `FrameOwner`.

    carriers   {number: the taker of its messages}, of those that may carry tensors
    quick      {number: the function for the usual form of its messages}, while the connection is open. It
               takes the parts of a header, the payload and the header, or leaves them to the longer path
    handlers   {number: the function for its fields}, of messages that carry no tensors
    """

    def __init__(
        self,
        wire: Wire,
        *,
        carriers: Mapping[int, Carrier],
        quick: Mapping[int, Callable[[list[Any], bytearray | None, memoryview], bool]],
        handlers: Mapping[int, Callable[..., None]],
    ) -> None:
        self._wire = wire
        self._carriers = carriers
        self._quick = quick
        self._handlers = handlers
        #: The memory for tensors of steps.
        self.memory = ReceivedMemory()

    def close(self) -> None:
        """Take nothing more: the takers refer to this reader."""
        self._carriers, self._quick, self._handlers = {}, {}, {}

    def message_whole(self, header: memoryview, inline: bytearray | None) -> None:
        parts = m.unpack_header(header)
        wire = self._wire
        if wire.state is State.OPEN:
            quick = self._quick.get(parts[0])
            if quick is not None and quick(parts, inline, header):
                wire.counters.messages_received += 1
                return
        incoming = self._started(*m.check_header(parts), inline, 0 if inline is None else len(inline))
        self.message_finished(incoming)
        if wire.state is State.OPEN:
            carrier = self._carriers.get(incoming.number)
            if carrier is not None:
                carrier.came_whole(incoming, header, 0 if inline is None else len(inline))

    def message_started(self, header: memoryview, payload_bytes: int) -> IncomingMessage:
        return self._started(*m.read_header(header), None, payload_bytes)

    def _started(
        self,
        number: int,
        fields: list[Any],
        descriptions: list[Any],
        inline: bytearray | None,
        payload_bytes: int,
    ) -> IncomingMessage:
        """Take a header: `inline` is its payload if that is here."""
        wire = self._wire
        following = after_receiving(wire.side, wire.state, number)
        tensors = [IncomingTensor(each) for each in descriptions]
        size = sum(tensor.size for tensor in tensors)
        if size != payload_bytes:
            raise RemoteProtocolError(
                f"{m.name_of(number)} describes tensors of {size} bytes and announces {payload_bytes}"
            )
        incoming = IncomingMessage(number, fields, tensors)
        carrier = self._carriers.get(number)
        if carrier is not None:
            # All bounds on memory are checked here, before any is allocated.
            carrier.started(incoming, payload_bytes)
        if inline is not None:
            offset = 0
            for tensor in tensors:
                offset = tensor.adopt(inline, offset)
        else:
            for tensor in tensors:
                view = tensor.allocate(self.memory if number == m.PUSH else None, wire.now)
                if view is not None:
                    incoming.views.append(view)
        wire.state = following
        return incoming

    def message_finished(self, incoming: IncomingMessage) -> None:
        self._wire.counters.messages_received += 1
        carrier = self._carriers.get(incoming.number)
        if carrier is not None:
            carrier.finished(incoming)
        else:
            self._handlers[incoming.number](*incoming.fields)

    def message_abandoned(self, incoming: IncomingMessage) -> None:
        self._carriers[incoming.number].abandoned(incoming)


__all__ = ["Carrier", "MessageReader"]
