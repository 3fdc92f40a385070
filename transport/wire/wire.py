"""The ground that a connection's parts share: its state, its events, its output. Sans-I/O.

`calls` and `tensors` speak through it; `connection` puts them together with what is received.
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

#: A tensor of so few bytes is copied behind its header: a buffer more costs more than that.
_JOINED_BYTES: Final = 2048


class Wire:
    """The state of one side of a connection, and its way out."""

    def __init__(self, side: Side, *, limits: Limits, address: str, now: float) -> None:
        self.side = side
        self.limits = limits
        self.address = address
        self.state = FIRST[side]
        #: What the other side takes, once it has said so.
        self.peer_limits: PeerLimits | None = None
        self.counters = Counters()
        #: What happened, in order, until somebody takes it.
        self.events: list[Event] = []
        self.outbox = Outbox()
        #: Frames that are known by what they begin with.
        self.templates = TemplateTable()
        #: When something was last received or time was looked at.
        self.now = now

    def check_open(self, number: int) -> None:
        """LocalProtocolError where this message, one of an open connection, cannot be sent."""
        if self.state is not State.OPEN:
            after_sending(self.side, self.state, number)

    def send(
        self,
        number: int,
        fields: Sequence[object],
        payload: Payload | None = None,
        on_sent: Callable[[LargeMessage], object] | None = None,
    ) -> LargeMessage | None:
        """Queue a message; what it is as a stream, if it is large.

        on_sent   called when all of a large one has gone out

        Raises LocalProtocolError where it cannot be said, InvalidArgumentError for fields that cannot travel,
        ResourceExhaustedError for more than the other side takes.
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
        """Queue a message that tells of an error."""
        try:
            self.send(number, (subject, *error_to_wire(error)))
        except ResourceExhaustedError:
            # The other side takes small headers only; the class and the message matter most.
            self.send(number, (subject, *error_to_wire(error, brief=True)))

    # The parts of sending, for whoever knows that some are not needed.

    def header(self, number: int, fields: Sequence[object], payload: Payload | None) -> bytes:
        """A message's header; InvalidArgumentError for fields that cannot travel."""
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
        """ResourceExhaustedError for a message that the other side does not take."""
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
        """Queue a large message, whose header is asked for when its turn has come."""
        self.counters.messages_sent += 1
        self.counters.bytes_copied_to_send += payload.copied
        return self.outbox.add_large(header, payload.buffers, payload.size, on_sent)

    def queue_frame(self, frame: bytes) -> None:
        """Queue a frame that was made of a template, without a payload."""
        self.counters.messages_sent += 1
        self.outbox.add_frame(frame, (), 0)

    def queue_tensor(self, frame: bytes, value: Value, size: int) -> None:
        """Queue a frame that was made of a template, and behind it the bytes of a small tensor."""
        self.counters.messages_sent += 1
        if size <= _JOINED_BYTES:
            self.outbox.add_frame(frame + value.tobytes(), (), 0)
        else:
            self.outbox.add_frame(frame, (value.reshape(-1).view(np.uint8).data,), size)


__all__ = ["Wire"]
