"""The part of a connection that does not depend on what is talked about: bytes, handshake, life. Sans-I/O.

`Connection` adds calls and tensors to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError, OpError, ResourceExhaustedError, UnavailableError
from flowengine.transport import events as e
from flowengine.transport.errors import ConnectionLostError, RemoteProtocolError, plain
from flowengine.transport.limits import CHUNK_BYTES_MAX, INLINE_BYTES_MAX, Limits, PeerLimits
from flowengine.transport.statistics import Counters
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.encoding import IncomingTensor
from flowengine.transport.wire.framing import FrameReader
from flowengine.transport.wire.handshake import Handshake, Refused
from flowengine.transport.wire.identity import Identity, Statement
from flowengine.transport.wire.lent import LentMemory
from flowengine.transport.wire.memory import ReceivedMemory
from flowengine.transport.wire.outbox import Large, Outbox
from flowengine.transport.wire.payload import IncomingMessage, Payload
from flowengine.transport.wire.states import FIRST, TRUSTED, Side, State, after_receiving, after_sending

#: Longest reason of a goodbye, in characters: it fits the smallest header.
_REASON_MAX: Final = 700

#: What a header begins with whose parts lie where they do in all of its kind: see `call_forms`.
_WIDE_ARRAY: Final = 0xDC

_HANDSHAKE: Final = frozenset({m.HELLO, m.CHALLENGE, m.PROOF, m.WELCOME, m.REFUSED})


class Wire:
    """What every conversation needs: a handshake, a life, an order of output. See `connection`."""

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
        #: Where the next bytes go, in order; nothing once the connection is closed.
        self.receive_buffers: Callable[[], list[memoryview]] = self._reader.receive_buffers
        #: {number: who takes the parts of a header and the payload, or leaves them to the longer way} of what
        #: nearly all messages are, while open
        self._quick: dict[int, Callable[[list[Any], bytearray | None], bool]] = {}
        #: {number: who takes its fields} of messages that carry no tensors
        self._handlers: dict[int, Callable[..., None]] = {
            m.PING: self._ping_came,
            m.PONG: self._pong_came,
            m.GOODBYE: self._goodbye_came,
        }
        self._memory = ReceivedMemory()
        self._now = now
        self._opened_at = now
        self._received_at = now
        self._ping_number = 0
        #: The last that was answered.
        self._pong_number = 0
        #: The sign of life that was asked for, and when; None while none is awaited.
        self._heartbeat_number = 0
        self._ping_sent_at: float | None = None
        #: What the other side may still read from here; None where all is copied.
        self._lent: LentMemory | None = None
        self._pong: int | None = None
        #: (bytes sent so far, when that was first seen): output that does not move is found by it.
        self._output_seen = (0, now)
        self._set_up()
        if side is Side.DIALLER:
            self._send(*self._handshake.first())

    def __repr__(self) -> str:
        return f"<Connection {self.side.value} {self.state.value}, {self.address}>"

    # What arrives.

    def bytes_received(self, count: int, now: float) -> bool:
        """`count` bytes lie in the buffers last offered. Raises what the other side did wrong.

        False if nothing came of it, no event and nothing to be sent, and less came than there was room for.
        """
        self._now = self._received_at = now
        self.counters.bytes_received += count
        try:
            return self._reader.bytes_received(count, now)
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

    def message_whole(self, header: memoryview, inline: bytearray | None) -> None:
        parts = m.unpack_header(header)
        if self.state is State.OPEN:
            quick = self._quick.get(parts[0])
            if quick is not None and quick(parts, inline):
                self.counters.messages_received += 1
                if header[0] == _WIDE_ARRAY:
                    self._may_come_again(parts, header, inline)
                return
        incoming = self._message_started(*m.check_header(parts), inline)
        self.message_finished(incoming)
        if self.state is State.OPEN:
            self._came_whole(incoming, header, 0 if inline is None else len(inline))

    def _may_come_again(self, parts: list[Any], header: memoryview, inline: bytearray | None) -> None:
        """What nearly all messages are has been taken, written as what says the same again."""

    def message_known(self, known: Any, number: int, payload: memoryview) -> bool:
        """A frame of a known form has come: see `connection`."""
        return False

    def message_started(self, header: memoryview, payload_bytes: int) -> IncomingMessage:
        number, fields, descriptions = m.read_header(header)
        return self._message_started(number, fields, descriptions, None, payload_bytes)

    def _message_started(
        self,
        number: int,
        fields: list[Any],
        descriptions: list[Any],
        inline: bytearray | None,
        payload_bytes: int = 0,
    ) -> IncomingMessage:
        """Take a header: `inline` is its payload if that is here, `payload_bytes` how much will follow."""
        if inline is not None:
            payload_bytes = len(inline)
        following = after_receiving(self.side, self.state, number)
        tensors = [IncomingTensor(each) for each in descriptions]
        size = sum(tensor.size for tensor in tensors)
        if size != payload_bytes:
            raise RemoteProtocolError(
                f"{m.name_of(number)} describes tensors of {size} bytes and announces {payload_bytes}"
            )
        incoming = IncomingMessage(number, fields, tensors)
        if number in _HANDSHAKE:
            self.state = following
            return incoming
        # Everything that bounds memory is checked here, before there is any.
        self._started(incoming, payload_bytes)
        if inline is not None:
            offset = 0
            for tensor in tensors:
                offset = tensor.adopt(inline, offset)
        else:
            for tensor in tensors:
                view = tensor.allocate(self._memory if number == m.PUSH else None, self._now)
                if view is not None:
                    incoming.views.append(view)
        self.state = following
        return incoming

    def message_finished(self, incoming: IncomingMessage) -> None:
        self.counters.messages_received += 1
        number, fields = incoming.number, incoming.fields
        if number in _HANDSHAKE:
            self._handshake_message(number, fields)
            return
        handler = self._handlers.get(number)
        if handler is not None:
            handler(*fields)
        else:
            self._finished(incoming)

    def message_abandoned(self, incoming: IncomingMessage) -> None:
        self._abandoned(incoming)

    # What a conversation is about: see `connection`.

    def _started(self, incoming: IncomingMessage, payload_bytes: int) -> None:
        """Check a message whose header has come, before there is room for its tensors."""

    def _finished(self, incoming: IncomingMessage) -> None:
        """Take a message of the conversation."""

    def _came_whole(self, incoming: IncomingMessage, header: memoryview, payload_bytes: int) -> None:
        """A message that came at once has been taken; its header is still here."""

    def _abandoned(self, incoming: IncomingMessage) -> None:
        """Forget a message that will not be finished."""

    def _set_up(self) -> None:
        """Have what a conversation keeps, before anything is said."""

    def _opened(self, limits: PeerLimits) -> None:
        """The other side has proved who it is and said what it takes."""

    def _forget_all(self) -> None:
        """The connection is closed."""

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
            self._opened(peer.limits)
            self._outbox.incoming_bytes_max = peer.limits.incoming_bytes_max
            self._outbox.streams_max = peer.limits.streams_max
            self._reader.header_bytes_max = self.limits.header_bytes_max
            self._reader.is_trusted = True
            self.address = f"{peer.identity.task} at {self.address}"
            self._events.append(e.Opened(peer.identity))

    # Life and death.

    def _ping_came(self, number: int) -> None:
        # One answer to many: who asks faster than it reads gets the last number only.
        self._pong = number

    def _pong_came(self, number: int) -> None:
        if not self._pong_number < number <= self._ping_number:
            raise RemoteProtocolError(f"PONG {number} answers no PING")
        self._pong_number = number
        if self._lent is not None:
            self._lent.returned(number)
        if self._ping_sent_at is not None and number >= self._heartbeat_number:
            self.round_trip_seconds = self._now - self._ping_sent_at
            self._ping_sent_at = None

    def _ping(self) -> int:
        """Ask for a PONG; the number that it will have, or 0 where nothing can be asked."""
        if self.state is not State.OPEN:
            return 0
        self._ping_number += 1
        self._send(m.PING, (self._ping_number,))
        return self._ping_number

    def _goodbye_came(self, reason: str) -> None:
        # It has finished nothing since: what was under way is dropped, and chunks after this are a fault.
        self._reader.drop_streams()
        if self.state is State.CLOSED:
            self._close()
        self._events.append(e.SaidGoodbye(reason))

    def goodbye(self, reason: str = "") -> None:
        """Say that nothing more will be sent. LocalProtocolError where it cannot be said."""
        self._send(m.GOODBYE, (plain(reason, _REASON_MAX),))
        self._outbox.drop_streams()

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
        self._memory.trim(now)
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
        if silent >= limits.silence_seconds and self._had_time_to_answer(now):
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
            self._heartbeat_number = self._ping()
            self._ping_sent_at = now

    def _had_time_to_answer(self, now: float) -> bool:
        """Whether the other side was asked for a sign of life long enough ago.

        If not, it was this side that stood still meanwhile: its process was stopped, or had no time.
        """
        if self.state is not State.OPEN:
            return True
        limits = self.limits
        asked = self._ping_sent_at
        return asked is not None and now - asked >= limits.silence_seconds - 1.5 * limits.heartbeat_seconds

    def _broken(self, error: OpError) -> OpError:
        """Close for this error, say why to a peer that is known, and drop all else."""
        can_say_why = self.peer is not None and self.state in (State.OPEN, State.LEFT)
        self._close(keep_output=True)
        if can_say_why:
            self._outbox.clear(keep_current=True)
            self._outbox.add_small(m.write_header(m.GOODBYE, plain(error.message, _REASON_MAX)), [], 0)
        if self.peer is not None and self.address not in error.message:
            error.message = f"{self.address}: {error.message}"
            error.args = (error.message,)
        return error

    def _close(self, *, keep_output: bool = False) -> None:
        self.state = State.CLOSED
        self._reader.break_off()
        self._memory.clear()
        if not keep_output:
            self._outbox.clear()
        self._forget_all()

    # What is to be sent.

    @property
    def has_output(self) -> bool:
        return bool(self._outbox) or self._pong is not None

    @property
    def queued_bytes(self) -> int:
        """What waits here to be sent."""
        return self._outbox.queued_bytes

    def send_chunks_of(self, count: int) -> None:
        """Let so many bytes of a stream go out before whatever else waits, from the next chunk on."""
        assert 0 < count <= CHUNK_BYTES_MAX, "no receiver takes such chunks"
        self._outbox.chunk_bytes = count

    def lend_memory(self) -> None:
        """Let large tensors go out without being copied: `lends_last` may hold from now on."""
        self._lent = self._outbox.lent = LentMemory(self._ping)

    @property
    def lends_last(self) -> bool:
        """Whether the last of the buffers last given may be lent instead of being copied.

        It is held, with all of its tensor, until the other side has read it or `take_lent`.
        """
        return self._outbox.lends_last

    def take_lent(self) -> list[memoryview]:
        """The memory that the other side may still read from, once the connection is closed."""
        return self._lent.take() if self._lent is not None else []

    def data_to_send(self) -> list[memoryview | bytes]:
        """The buffers to send next, in order; empty if there is nothing. They stay the same until sent."""
        if self._pong is not None and not self._outbox.is_under_way:
            number, self._pong = self._pong, None
            if self.state is State.OPEN:
                self._send(m.PONG, (number,))
        return self._outbox.buffers()

    def send_with(
        self,
        send: Callable[[Sequence[memoryview | bytes]], int],
        lend: Callable[[Sequence[memoryview | bytes]], int] | None = None,
    ) -> bool:
        """Give what is to be sent to `send`, which says how much it took; whether more is to be sent.

        Buffers of which the last may be lent go to `lend`, if there is one.
        """
        outbox = self._outbox
        if self._pong is None:
            only = outbox.take_only()
            if only is not None:
                if not only:
                    return False
                count = 0
                try:
                    count = send((only,))
                finally:
                    self.counters.bytes_sent += count
                    if count != len(only):
                        outbox.put_back(memoryview(only)[count:])
                return count != len(only)
        buffers = self.data_to_send()
        if not buffers:
            return False
        count = lend(buffers) if lend is not None and outbox.lends_last else send(buffers)
        self.counters.bytes_sent += count
        return outbox.bytes_sent(count) or self._pong is not None

    def bytes_sent(self, count: int) -> bool:
        """The first `count` bytes of the buffers last given are on their way; whether more is to be sent."""
        self.counters.bytes_sent += count
        return self._outbox.bytes_sent(count) or self._pong is not None

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


__all__ = ["Wire"]
