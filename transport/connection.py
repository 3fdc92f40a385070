"""One connection: bytes in, events out; wishes in, bytes out. Sans-I/O, without a clock of its own.

    buffers = connection.receive_buffers()           where the next bytes go
    connection.bytes_received(count, now)            they are there
    for event in connection.take_events(): ...       what that meant
    connection.calls.request("run", None, tensors)   what we want to say: calls, requests, tensors, deliveries
    connection.data_to_send(), bytes_sent(count)     what that takes
    connection.next_deadline(), handle_time(now)     what time brings

The same class plays both sides. What may be received and sent when is the table in `wire.states`; how much,
the limits. A fault of the other side raises RemoteProtocolError once. From then on the connection is closed:
it holds nothing, offers no buffers and takes no wishes. Events that were complete before stay to be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from flowengine.core.errors import OpError, UnavailableError
from flowengine.transport import events as e
from flowengine.transport.calls.incoming import IncomingCalls
from flowengine.transport.calls.outgoing import OutgoingCalls
from flowengine.transport.errors import ConnectionLostError, RemoteProtocolError, plain
from flowengine.transport.limits import CHUNK_BYTES_MAX, Limits, PeerLimits
from flowengine.transport.tensors.deliveries import Deliveries
from flowengine.transport.tensors.ledger import TensorLedger
from flowengine.transport.tensors.traffic import TensorTraffic
from flowengine.transport.wire import messages as m
from flowengine.transport.wire.counters import Counters
from flowengine.transport.wire.framing import FrameReader
from flowengine.transport.wire.handshake import Handshake, Refusal
from flowengine.transport.wire.heartbeat import Heartbeat
from flowengine.transport.wire.identity import Identity, Statement
from flowengine.transport.wire.prefix import is_tls, what_speaks
from flowengine.transport.wire.reading import MessageReader
from flowengine.transport.wire.states import TRUSTED, Side, State
from flowengine.transport.wire.wire import Wire

#: Longest reason of a goodbye, in characters: it fits the smallest header.
_REASON_MAX: Final = 700


class Connection:
    """One side of a connection; see the head of this module.

    calls        ours, and their answers
    requests     the other side's calls, and our answers
    tensors      of steps, by their keys
    deliveries   of these, the small ones along edges that are used again and again
    """

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
        channel_binding: Callable[[], bytes] = bytes,
        expected_incarnation: int = 0,
    ) -> None:
        """`is_channel_authenticated`: the stream proves its peer itself, by certificate or because it never
        leaves the process. Otherwise `key` must be given. InvalidArgumentError if neither is so.
        `channel_binding`: see `Handshake`."""
        self.limits = limits = limits if limits is not None else Limits()
        self.wire = wire = Wire(side, limits=limits, address=address, now=now)
        self.heartbeat = Heartbeat(wire)
        self.calls = OutgoingCalls(wire)
        self.requests = IncomingCalls(wire)
        self._ledger = TensorLedger(limits)
        self.tensors = TensorTraffic(wire, self._ledger)
        self.deliveries = Deliveries(wire, self._ledger)
        #: Who is there, once proved.
        self.peer: Identity | None = None
        self._messages = MessageReader(
            wire,
            carriers={
                m.REQUEST: self.requests,
                m.REPLY: self.calls,
                m.PUSH: self.tensors,
                m.DELIVER: self.deliveries,
            },
            quick={m.REQUEST: self.requests.request_came, m.REPLY: self.calls.reply_came},
            handlers={
                **{number: partial(self._handshake_came, number) for number in m.HANDSHAKE},
                m.PING: self.heartbeat.ping_came,
                m.PONG: self.heartbeat.pong_came,
                m.GOODBYE: self._goodbye_came,
                m.FAILURE: self.calls.failure_came,
                m.CANCEL: self.requests.cancel_came,
                m.ANNOUNCE: self.tensors.announce_came,
                m.PULL: self.tensors.pull_came,
                m.CREDIT: self.tensors.credit_came,
                m.OVERFLOW: self.tensors.overflow_came,
                m.STEP_FAILED: self.tensors.step_failure_came,
                m.ROUTE: self.deliveries.route_came,
            },
        )
        self._reader = FrameReader(
            self._messages,
            message_bytes_max=limits.message_bytes_max,
            incoming_bytes_max=limits.incoming_bytes_max,
            streams_max=limits.streams_max,
            templates=wire.templates,
        )
        #: Where the next bytes go, in order; nothing once the connection is closed.
        self.receive_buffers: Callable[[], list[memoryview]] = self._reader.receive_buffers
        self._opened_at = now
        self._handshake: Handshake | None = Handshake(
            side,
            Statement(identity, limits.announced(), expected_incarnation),
            key=key,
            is_channel_authenticated=is_channel_authenticated,
            channel_binding=channel_binding,
            address=address,
        )
        if side is Side.DIALLER:
            wire.send(*self._handshake.first())

    def __repr__(self) -> str:
        return f"<Connection {self.wire.side.value} {self.state.value}, {self.address}>"

    @property
    def state(self) -> State:
        """The state of the connection."""
        return self.wire.state

    @property
    def address(self) -> str:
        """How errors name the other side."""
        return self.wire.address

    @property
    def peer_limits(self) -> PeerLimits | None:
        """The limits of the other side; None until it has sent them."""
        return self.wire.peer_limits

    @property
    def counters(self) -> Counters:
        """The counters of the connection so far."""
        return self.wire.counters

    # What arrives.

    def bytes_received(self, count: int, now: float) -> bool:
        """`count` bytes lie in the buffers last offered. Raises what the other side did wrong.

        False if nothing came of it, no event and nothing to be sent, and less came than there was room for.
        """
        wire = self.wire
        wire.now = self.heartbeat.received_at = now
        wire.counters.bytes_received += count
        try:
            return self._reader.bytes_received(count, now)
        except OpError as error:
            raise self._broken(error) from None

    def receive_end(self) -> None:
        """No more bytes will come. Raises ConnectionLostError unless both sides had finished."""
        if self.state is State.CLOSED:
            return
        if self.state in (State.LEFT, State.LEAVING) and self._reader.is_between_frames:
            self.close()
            return
        if self.state not in TRUSTED:
            begun = self._reader.unread
            if is_tls(begun):
                # A refusal in TLS is shorter than a prefix of ours.
                self.close()
                raise RemoteProtocolError(f"{self.address}: {what_speaks(begun)}")
            text = f"{self.address} closed the connection before it was open (while: {self.state.value})"
        elif self._reader.is_between_frames:
            text = f"{self.address} closed the connection without a goodbye"
        else:
            text = f"{self.address} closed the connection in the middle of a message"
        self.close()
        raise ConnectionLostError(text)

    def take_events(self) -> list[e.Event]:
        """Return the events since the last call, in order."""
        wire = self.wire
        events, wire.events = wire.events, []
        return events

    def _handshake_came(self, number: int, *fields: Any) -> None:
        handshake, wire = self._handshake, self.wire
        assert handshake is not None, "a handshake message passed the table after the handshake"
        try:
            answer = handshake.receive(number, list(fields))
        except Refusal as refused:
            if refused.answer is not None:
                wire.send(*refused.answer)
            raise refused.error from None
        if answer is not None:
            wire.send(*answer)
        peer = handshake.peer
        if peer is None:
            return
        self._handshake = None
        self.peer = peer.identity
        limits = wire.peer_limits = peer.limits
        self._ledger.opened(limits.credit_bytes, limits.pulls_max)
        wire.outbox.incoming_bytes_max = limits.incoming_bytes_max
        wire.outbox.streams_max = limits.streams_max
        wire.templates.open()
        self._reader.header_bytes_max = self.limits.header_bytes_max
        self._reader.is_trusted = True
        wire.address = f"{peer.identity.task} at {wire.address}"
        wire.events.append(e.ConnectionOpened(peer.identity))

    # How it ends.

    def _goodbye_came(self, reason: str) -> None:
        # It has finished nothing since: what was under way is dropped, and chunks after this are a fault.
        self._reader.drop_streams()
        self.wire.templates.close()
        if self.state is State.CLOSED:
            self.close()
        self.wire.events.append(e.Goodbye(reason))

    def goodbye(self, reason: str = "") -> None:
        """Say that nothing more will be sent. LocalProtocolError where it cannot be said."""
        self.wire.send(m.GOODBYE, (plain(reason, _REASON_MAX),))
        self.wire.templates.close()
        self.wire.outbox.drop_streams()

    def close(self) -> None:
        """Drop everything: the stream is gone."""
        self._forget_all()
        self._messages.close()
        self.wire.outbox.clear()

    def _forget_all(self) -> None:
        self.wire.state = State.CLOSED
        self._reader.break_off()
        self.wire.templates.close()
        self._messages.memory.clear()
        self.calls.clear()
        self.requests.clear()
        self._ledger.clear()
        self.deliveries.clear()

    def _broken(self, error: OpError) -> OpError:
        """Close for this error, say why to a peer that is known, and drop all else."""
        can_say_why = self.peer is not None and self.state in (State.OPEN, State.LEFT)
        self._forget_all()
        outbox = self.wire.outbox
        if can_say_why:
            outbox.clear(keep_current=True)
            outbox.add_small(m.write_header(m.GOODBYE, plain(error.message, _REASON_MAX)), [], 0)
        elif isinstance(error, RemoteProtocolError) and self.wire.side is Side.LISTENER:
            outbox.clear()
            if error.last_words:
                outbox.add_frame(error.last_words, [], 0)
        if self.peer is not None and self.address not in error.message:
            error.message = f"{self.address}: {error.message}"
            error.args = (error.message,)
        return error

    # What time brings.

    def next_deadline(self) -> float:
        """When `handle_time` must be called at the latest."""
        soon = self.wire.now + self.limits.heartbeat_seconds / 2
        if self.state not in TRUSTED:
            return min(self._opened_at + self.limits.handshake_seconds, soon)
        return soon

    def handle_time(self, now: float) -> None:
        """See what time brings: a heartbeat, or an end. Raises ConnectionLostError or RemoteProtocolError."""
        self.wire.now = now
        self._messages.memory.trim(now)
        if self.state is State.CLOSED:
            return
        problem: OpError | None = None
        if self.state in TRUSTED:
            problem = self.heartbeat.look(self._reader.oldest_progress())
        elif now >= self._opened_at + self.limits.handshake_seconds:
            problem = UnavailableError(
                f"{self.address} did not finish the handshake within {self.limits.handshake_seconds} s "
                f"(while: {self.state.value})"
            )
        if problem is not None:
            raise self._broken(problem)

    # What is to be sent.

    @property
    def has_output(self) -> bool:
        """Whether anything is to be sent."""
        return bool(self.wire.outbox) or self.heartbeat.pong_due is not None

    @property
    def queued_bytes(self) -> int:
        """The bytes that wait here to be sent."""
        return self.wire.outbox.queued_bytes

    def send_chunks_of(self, count: int) -> None:
        """Let so many bytes of a stream go out before whatever else waits, from the next chunk on."""
        assert 0 < count <= CHUNK_BYTES_MAX, "no receiver takes such chunks"
        self.wire.outbox.chunk_bytes = count

    @property
    def lends_last(self) -> bool:
        """Whether the last of the buffers last given may be lent instead of being copied.

        It is held, with all of its tensor, until the other side has read it or `Heartbeat.take_lent`.
        """
        return self.wire.outbox.lends_last

    def data_to_send(self) -> list[memoryview | bytes]:
        """The buffers to send next, in order; empty if there is nothing. They stay the same until sent."""
        if self.heartbeat.pong_due is not None and not self.wire.outbox.is_under_way:
            self.heartbeat.answer()
        return self.wire.outbox.buffers()

    def send_with(
        self,
        send: Callable[[Sequence[memoryview | bytes]], int],
        lend: Callable[[Sequence[memoryview | bytes]], int] | None = None,
    ) -> bool:
        """Give what is to be sent to `send`, which says how much it took; whether more is to be sent.

        Buffers of which the last may be lent go to `lend`, if there is one.
        """
        outbox, counters = self.wire.outbox, self.wire.counters
        if self.heartbeat.pong_due is None:
            only = outbox.take_only()
            if only is not None:
                if not only:
                    return False
                count = 0
                try:
                    count = send((only,))
                finally:
                    counters.bytes_sent += count
                    if count != len(only):
                        outbox.put_back(memoryview(only)[count:])
                return count != len(only)
        buffers = self.data_to_send()
        if not buffers:
            return False
        return self.bytes_sent(lend(buffers) if lend is not None and outbox.lends_last else send(buffers))

    def bytes_sent(self, count: int) -> bool:
        """The first `count` bytes of the buffers last given are on their way; whether more is to be sent."""
        self.wire.counters.bytes_sent += count
        return self.wire.outbox.bytes_sent(count) or self.heartbeat.pong_due is not None


__all__ = ["Connection"]
