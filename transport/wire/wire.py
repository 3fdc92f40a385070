"""The ground that a connection's parts share: its state, its events, its output. Sans-I/O.

`calls` and `tensors` send through it; `connection` joins them with the receiving half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError, ResourceExhaustedError
from flowengine.transport.errors import error_to_wire
from flowengine.transport.events import Event
from flowengine.transport.limits import INLINE_BYTES_MAX, Limits, PeerLimits
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.counters import Counters
from flowengine.transport.wire.outbox import LargeMessage, Outbox
from flowengine.transport.wire.payload import Payload
from flowengine.transport.wire.states import FIRST, Side, State, after_sending
from flowengine.transport.wire.templates import TemplateTable

#: A tensor of so few bytes is copied behind its header: another buffer costs more than that.
_JOINED_BYTES: Final = 2048


class Wire:
    """The state of one side of a connection, and its output."""

    def __init__(self, side: Side, *, limits: Limits, address: str, now: float) -> None:
        self.side = side
        self.limits = limits
        self.address = address
        self.state = FIRST[side]
        #: The limits of the other side, once it has sent them.
        self.peer_limits: PeerLimits | None = None
        self.counters = Counters()
        #: Events, in order, until they are taken.
        self.events: list[Event] = []
        self.outbox = Outbox()
        #: Frames that are recognized by their first bytes.
        self.templates = TemplateTable()
        #: The time when something was last received or the clock was read.
        self.now = now

    def check_open(self, number: int) -> None:
        """Raise LocalProtocolError if this message, one of an open connection, cannot be sent."""
        if self.state is not State.OPEN:
            after_sending(self.side, self.state, number)

    def send(
        self,
        number: int,
        fields: Sequence[object],
        payload: Payload | None = None,
        on_sent: Callable[[LargeMessage], object] | None = None,
    ) -> LargeMessage | None:
        """Queue a message; return its stream, if it is large.

        on_sent   called when all of a large one has been sent

        Raises LocalProtocolError if the state does not allow it, InvalidArgumentError for fields that cannot
        be sent, ResourceExhaustedError for more than the other side accepts.
        """
        following = after_sending(self.side, self.state, number)
        header = self.header(number, fields, payload)
        self.check(header, payload)
        self.state = following
        if payload is None or payload.size <= INLINE_BYTES_MAX:
            self.queue(header, payload)
            return None
        return self.queue_large(lambda: header, payload, on_sent)

    def send_error(self, number: int, subject: int, error: BaseException) -> None:
        """Queue a message that reports an error."""
        try:
            self.send(number, (subject, *error_to_wire(error)))
        except ResourceExhaustedError:
            # The other side accepts small headers only; the class and the message matter most.
            self.send(number, (subject, *error_to_wire(error, brief=True)))

    # The parts of sending, for callers that know that some are not needed.

    def header(self, number: int, fields: Sequence[object], payload: Payload | None) -> bytes:
        """Return a message's header. Raises InvalidArgumentError for fields that cannot be sent."""
        try:
            if payload is None or not payload.descriptions:
                return m.write_header(number, *fields)
            return m.write_header(number, *fields, payload.descriptions)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(
                f"{m.name_of(number)}: {error}; beside tensors only None, bool, int, float, str, bytes, "
                "lists and dicts travel"
            ) from None

    def check(self, header: bytes, payload: Payload | None) -> None:
        """Raise ResourceExhaustedError for a message that the other side does not accept."""
        limits = self.peer_limits
        if limits is None:
            return
        if len(header) > limits.header_bytes_max:
            raise ResourceExhaustedError(
                f"{self.address} takes headers of {limits.header_bytes_max} bytes, "
                f"this one has {len(header)}: send large arguments as tensors"
            )
        if payload is None:
            return
        if len(payload.descriptions) > m.TENSORS_MAX:
            raise ResourceExhaustedError(f"a message carries at most {m.TENSORS_MAX} tensors")
        if payload.size > min(limits.message_bytes_max, limits.incoming_bytes_max):
            raise ResourceExhaustedError(
                f"{self.address} takes messages of {limits.message_bytes_max} bytes, "
                f"this one has {payload.size}: raise Limits.message_bytes_max there"
            )

    def queue(self, header: bytes, payload: Payload | None) -> None:
        """Queue a small message."""
        self.counters.messages_sent += 1
        if payload is None:
            self.outbox.add_small(header, [], 0)
        else:
            self.counters.bytes_copied_to_send += payload.copied
            self.outbox.add_small(header, payload.buffers, payload.size)

    def queue_large(
        self,
        header: Callable[[], bytes],
        payload: Payload,
        on_sent: Callable[[LargeMessage], object] | None = None,
    ) -> LargeMessage:
        """Queue a large message; `header` is called when its turn has come."""
        self.counters.messages_sent += 1
        self.counters.bytes_copied_to_send += payload.copied
        return self.outbox.add_large(header, payload.buffers, payload.size, on_sent)

    def queue_frame(self, frame: bytes) -> None:
        """Queue a frame made from a template, without a payload."""
        self.counters.messages_sent += 1
        self.outbox.add_frame(frame, (), 0)

    def queue_tensor(self, frame: bytes, value: Value, size: int) -> None:
        """Queue a frame made from a template, and behind it the bytes of a small tensor."""
        self.counters.messages_sent += 1
        if size <= _JOINED_BYTES:
            self.outbox.add_frame(frame + value.tobytes(), (), 0)
        else:
            self.outbox.add_frame(frame, (value.reshape(-1).view(np.uint8).data,), size)


__all__ = ["Wire"]
