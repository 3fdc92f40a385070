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

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from flowengine.core.arrays import Value
from flowengine.core.errors import (
    CancelledError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
)
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport import events as e
from flowengine.transport import messages as m
from flowengine.transport.calls import CallsIn, CallsOut
from flowengine.transport.credit import push_cost
from flowengine.transport.errors import (
    ConnectionLostError,
    RemoteProtocolError,
    error_from_wire,
    error_to_wire,
)
from flowengine.transport.framing import FrameReader
from flowengine.transport.handshake import Handshake, Refused
from flowengine.transport.identity import Identity, Statement
from flowengine.transport.ledger import TensorLedger
from flowengine.transport.limits import ENTRY_BYTES, INLINE_BYTES_MAX, Limits, PeerLimits
from flowengine.transport.outbox import Large, Outbox
from flowengine.transport.states import FIRST, TRUSTED, Side, State, after_receiving, after_sending
from flowengine.transport.statistics import Counters
from flowengine.transport.tensors import IncomingTensor, encode

_HANDSHAKE: Final = frozenset({m.HELLO, m.CHALLENGE, m.PROOF, m.WELCOME, m.REFUSED})


class Payload:
    """Tensors ready to be sent with a message."""

    __slots__ = ("buffers", "copied", "descriptions", "size")

    def __init__(self, tensors: Iterable[Value]) -> None:
        self.descriptions: list[Any] = []
        self.buffers: list[memoryview] = []
        self.size = 0
        self.copied = 0
        for tensor in tensors:
            encoded = encode(tensor)
            self.descriptions.append(encoded.description)
            self.buffers.extend(encoded.buffers)
            self.size += encoded.size
            self.copied += encoded.copied


class _Incoming:
    """A message under reception: its header read, its tensors on their way."""

    __slots__ = ("cost", "fields", "number", "tensors", "views")

    def __init__(self, number: int, fields: list[Any], tensors: list[IncomingTensor]) -> None:
        self.number = number
        self.fields = fields
        self.tensors = tensors
        self.views: list[memoryview] = []
        self.cost = 0


class Connection:
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
        """`is_channel_authenticated`: the stream proves its peer itself, by certificate or because it never
        leaves the process. Otherwise `key` must be given. InvalidArgumentError if neither is so."""
        self.limits = limits = limits if limits is not None else Limits()
        self.side = side
        self.address = address
        self.state = FIRST[side]
        #: Who is there, once proved.
        self.peer: Identity | None = None
        self.peer_limits: PeerLimits | None = None
        self.counters = Counters()
        self.round_trip_seconds: float | None = None
        self._handshake: Handshake | None = Handshake(
            side,
            Statement(identity, limits.announced(), expected_incarnation),
            key=key,
            is_channel_authenticated=is_channel_authenticated,
            address=address,
        )
        self._events: list[e.Event] = []
        self._outbox = Outbox()
        self._reader = FrameReader(
            self,
            message_bytes_max=limits.message_bytes_max,
            incoming_bytes_max=limits.incoming_bytes_max,
            streams_max=limits.streams_max,
        )
        self._calls_out = CallsOut()
        self._calls_in = CallsIn(limits)
        self._ledger = TensorLedger(limits)
        self._now = now
        self._opened_at = now
        self._received_at = now
        self._ping_number = 0
        self._ping_sent_at: float | None = None
        self._pong: int | None = None
        #: (bytes sent so far, when that was first seen): output that does not move is found by it.
        self._output_seen = (0, now)
        if side is Side.DIALLER:
            self._send(*self._handshake.first())

    def __repr__(self) -> str:
        return f"<Connection {self.side.value} {self.state.value}, {self.address}>"

    # What arrives.

    def receive_buffers(self) -> list[memoryview]:
        """Where the next bytes go, in order; empty once the connection is closed."""
        return self._reader.receive_buffers() if self.state is not State.CLOSED else []

    def bytes_received(self, count: int, now: float) -> None:
        """`count` bytes lie in the buffers last offered. Raises what the other side did wrong."""
        self._now = self._received_at = now
        self.counters.bytes_received += count
        try:
            self._reader.bytes_received(count, now)
        except OpError as error:
            raise self._broken(error) from None

    def receive_end(self) -> None:
        """No more bytes will come. Raises ConnectionLostError unless both sides had finished."""
        if self.state is State.CLOSED:
            return
        if self.state in (State.LEFT, State.LEAVING) and self._reader.is_between_frames:
            self._close()
            return
        if self.state not in TRUSTED:
            text = f"{self.address} closed the connection before it was open (while: {self.state.value})"
        elif self._reader.is_between_frames:
            text = f"{self.address} closed the connection without a goodbye"
        else:
            text = f"{self.address} closed the connection in the middle of a message"
        self._close()
        raise ConnectionLostError(text)

    def take_events(self) -> list[e.Event]:
        """What happened since the last call, in order."""
        events, self._events = self._events, []
        return events

    # FrameReader's owner.

    def message_started(self, header: memoryview, payload_bytes: int) -> _Incoming:
        number, fields, descriptions = m.read_header(header)
        following = after_receiving(self.side, self.state, number)
        tensors = [IncomingTensor(each) for each in descriptions]
        size = sum(tensor.size for tensor in tensors)
        if size != payload_bytes:
            raise RemoteProtocolError(
                f"{m.name_of(number)} describes tensors of {size} bytes and announces {payload_bytes}"
            )
        incoming = _Incoming(number, fields, tensors)
        if number in _HANDSHAKE:
            self.state = following
            return incoming
        # Everything that bounds memory is checked here, before there is any.
        if number == m.REQUEST:
            self._calls_in.started(fields[0], payload_bytes)
        elif number == m.REPLY:
            self._calls_out.answer_started(fields[0])
        elif number == m.PUSH:
            self._push_started(incoming, payload_bytes)
        for tensor in tensors:
            view = tensor.allocate()
            if view is not None:
                incoming.views.append(view)
        self.state = following
        return incoming

    def message_finished(self, incoming: _Incoming) -> None:
        self.counters.messages_received += 1
        number, fields = incoming.number, incoming.fields
        if number in _HANDSHAKE:
            self._handshake_message(number, fields)
            return
        tensors = [tensor.value() for tensor in incoming.tensors]
        if number == m.REQUEST:
            self._calls_in.arrived(fields[0])
            self._events.append(e.Requested(fields[0], fields[1], fields[2], tensors))
        elif number == m.REPLY:
            self._answered(fields[0], fields[1], tensors, None)
        elif number == m.PUSH:
            self._push_came(incoming, tensors)
        else:
            _HANDLERS[number](self, *fields)

    def message_abandoned(self, incoming: _Incoming) -> None:
        number, fields = incoming.number, incoming.fields
        if number == m.REQUEST:
            self._calls_in.settled(fields[0])
        elif number == m.REPLY:
            self._calls_out.answer_abandoned(fields[0])
        elif incoming.cost:
            self.give_back(incoming.cost)

    def _handshake_message(self, number: int, fields: list[Any]) -> None:
        handshake = self._handshake
        assert handshake is not None, "a handshake message passed the table after the handshake"
        try:
            answer = handshake.receive(number, fields)
        except Refused as refused:
            if refused.answer is not None:
                self._send(*refused.answer)
            raise refused.error from None
        if answer is not None:
            self._send(*answer)
        peer = handshake.peer
        if peer is not None:
            self._handshake = None
            self.peer = peer.identity
            self.peer_limits = peer.limits
            self._ledger.opened(peer.limits.credit_bytes, peer.limits.pulls_max)
            self._outbox.incoming_bytes_max = peer.limits.incoming_bytes_max
            self._outbox.streams_max = peer.limits.streams_max
            self._reader.header_bytes_max = self.limits.header_bytes_max
            self._reader.is_trusted = True
            self.address = f"{peer.identity.task} at {self.address}"
            self._events.append(e.Opened(peer.identity))

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
        large = self._send(m.REPLY, (call, result), payload, lambda _: self._calls_in.settled(call))
        if large is None:
            self._calls_in.settled(call)
        else:
            self._calls_in.replies[call] = large
        self.counters.calls_served += 1

    def fail(self, call: int, error: BaseException) -> None:
        """Answer a call with an error."""
        self._calls_in.check_answerable(call)
        self._send(m.FAILURE, (call, *error_to_wire(error)))
        self._calls_in.settled(call)
        self.counters.calls_served += 1

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

    def pull(self, key: RendezvousKey) -> None:
        """Ask for a tensor. Asking again while it is owed says nothing."""
        if self._ledger.may_pull(key, self.address):
            self._send(m.PULL, (m.key_to_wire(key),))
            self._ledger.pull_sent(key)

    def give_back(self, cost: int) -> None:
        """What cost this much has been taken or dropped here."""
        grant = self._ledger.credit_in.give_back(cost)
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
            self._send(m.STEP_FAILED, (step, *error_to_wire(error)))

    def _send_tensor(self, key: RendezvousKey, payload: Payload, is_dead: bool, cost: int) -> None:
        step = key.step
        fields = (m.key_to_wire(key), is_dead, not cost)
        large = self._send(m.PUSH, fields, payload, lambda sent: self._ledger.stream_sent(step, sent))
        if large is not None:
            self._ledger.stream_began(step, large, cost)

    def _push_started(self, incoming: _Incoming, payload_bytes: int) -> None:
        key, is_dead, is_pulled = incoming.fields
        if len(incoming.tensors) != (not is_dead):
            raise RemoteProtocolError(f"PUSH carries {len(incoming.tensors)} tensors where dead is {is_dead}")
        incoming.cost = self._ledger.push_started(m.key_from_wire(key), is_pulled, payload_bytes)

    def _push_came(self, incoming: _Incoming, tensors: list[Value]) -> None:
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

    # Life and death.

    def _ping_came(self, number: int) -> None:
        # One answer to many: who asks faster than it reads gets the last number only.
        self._pong = number

    def _pong_came(self, number: int) -> None:
        if number != self._ping_number or self._ping_sent_at is None:
            raise RemoteProtocolError(f"PONG {number} answers no PING")
        self.round_trip_seconds = self._now - self._ping_sent_at
        self._ping_sent_at = None

    def _goodbye_came(self, reason: str) -> None:
        if self.state is State.CLOSED:
            self._close()
        self._events.append(e.SaidGoodbye(reason))

    def goodbye(self, reason: str = "") -> None:
        """Say that nothing more will be sent. LocalProtocolError where it cannot be said."""
        self._send(m.GOODBYE, (reason[:1000],))

    def close(self) -> None:
        """Drop everything: the stream is gone."""
        self._close()

    def next_deadline(self) -> float:
        """When `handle_time` must be called at the latest."""
        if self.state not in TRUSTED:
            return min(
                self._opened_at + self.limits.handshake_seconds, self._now + self.limits.heartbeat_seconds / 2
            )
        return self._now + self.limits.heartbeat_seconds / 2

    def handle_time(self, now: float) -> None:
        """See what time brings: a heartbeat, or an end. Raises ConnectionLostError or RemoteProtocolError."""
        self._now = now
        limits = self.limits
        if self.state is State.CLOSED:
            return
        if self.state not in TRUSTED:
            if now >= self._opened_at + limits.handshake_seconds:
                raise self._broken(
                    UnavailableError(
                        f"{self.address} did not finish the handshake within {limits.handshake_seconds} s "
                        f"(while: {self.state.value})"
                    )
                )
            return
        silent = now - self._received_at
        if silent >= limits.silence_seconds:
            raise self._broken(ConnectionLostError(f"{self.address} gave no sign of life for {silent:.1f} s"))
        sent = self.counters.bytes_sent
        if not self._outbox or self._output_seen[0] != sent:
            self._output_seen = (sent, now)
        elif now - self._output_seen[1] >= limits.silence_seconds:
            raise self._broken(
                ConnectionLostError(
                    f"{self.address} has read nothing for {now - self._output_seen[1]:.1f} s, "
                    f"{self._outbox.queued_bytes} bytes wait for it"
                )
            )
        oldest = self._reader.oldest_progress()
        if oldest is not None and now - oldest >= limits.frame_seconds:
            raise self._broken(
                RemoteProtocolError(f"{self.address} left a message unfinished for {now - oldest:.1f} s")
            )
        if silent >= limits.heartbeat_seconds and self._ping_sent_at is None and self.state is State.OPEN:
            self._ping_number += 1
            self._ping_sent_at = now
            self._send(m.PING, (self._ping_number,))

    def _broken(self, error: OpError) -> OpError:
        """Close for this error, say why to a peer that is known, and drop all else."""
        can_say_why = self.peer is not None and self.state in (State.OPEN, State.LEFT)
        self._close(keep_output=True)
        if can_say_why:
            self._outbox.clear(keep_current=True)
            self._outbox.add_small(m.write_header(m.GOODBYE, error.message[:1000]), [], 0)
        if self.peer is not None and self.address not in error.message:
            error.message = f"{self.address}: {error.message}"
            error.args = (error.message,)
        return error

    def _close(self, *, keep_output: bool = False) -> None:
        self.state = State.CLOSED
        self._reader.break_off()
        if not keep_output:
            self._outbox.clear()
        self._calls_out.clear()
        self._calls_in.clear()
        self._ledger.clear()

    # What is to be sent.

    @property
    def has_output(self) -> bool:
        return bool(self._outbox) or self._pong is not None

    @property
    def queued_bytes(self) -> int:
        """What waits here to be sent."""
        return self._outbox.queued_bytes

    def data_to_send(self) -> list[memoryview | bytes]:
        """The buffers to send next, in order; empty if there is nothing. They stay the same until sent."""
        if self._pong is not None and not self._outbox.is_under_way:
            number, self._pong = self._pong, None
            if self.state is State.OPEN:
                self._send(m.PONG, (number,))
        return self._outbox.buffers()

    def bytes_sent(self, count: int) -> None:
        """The first `count` bytes of the buffers last given are on their way."""
        self.counters.bytes_sent += count
        self._outbox.bytes_sent(count)

    def _header(self, number: int, fields: Sequence[Any], payload: Payload | None) -> bytes:
        try:
            if payload is None or not payload.descriptions:
                return m.write_header(number, *fields)
            return m.write_header(number, *fields, payload.descriptions)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(
                f"{m.name_of(number)}: {error}; beside tensors only None, bool, int, float, str, bytes, "
                "lists and dicts travel"
            ) from None

    def _check(self, header: bytes, payload: Payload | None) -> None:
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

    def _queue(self, header: bytes, payload: Payload | None) -> None:
        self.counters.messages_sent += 1
        if payload is None:
            self._outbox.add_small(header, [], 0)
        else:
            self.counters.bytes_copied_to_send += payload.copied
            self._outbox.add_small(header, payload.buffers, payload.size)

    def _queue_large(
        self, header: Callable[[], bytes], payload: Payload, on_sent: Callable[[Large], object] | None = None
    ) -> Large:
        self.counters.messages_sent += 1
        self.counters.bytes_copied_to_send += payload.copied
        return self._outbox.add_large(header, payload.buffers, payload.size, on_sent)

    def _send(
        self,
        number: int,
        fields: Sequence[Any],
        payload: Payload | None = None,
        on_sent: Callable[[Large], object] | None = None,
    ) -> Large | None:
        following = after_sending(self.side, self.state, number)
        header = self._header(number, fields, payload)
        self._check(header, payload)
        self.state = following
        if payload is None or payload.size <= INLINE_BYTES_MAX:
            self._queue(header, payload)
            return None
        return self._queue_large(lambda: header, payload, on_sent)


_HANDLERS: Final[dict[int, Callable[..., None]]] = {
    m.PING: Connection._ping_came,
    m.PONG: Connection._pong_came,
    m.GOODBYE: Connection._goodbye_came,
    m.FAILURE: Connection._failure_came,
    m.CANCEL: Connection._cancel_came,
    m.ANNOUNCE: Connection._announce_came,
    m.PULL: Connection._pull_came,
    m.CREDIT: Connection._credit_came,
    m.OVERFLOW: Connection._overflow_came,
    m.STEP_FAILED: Connection._step_failure_came,
}

__all__ = ["Connection", "Payload"]
