"""One connection: bytes in, events out; requests in, bytes out. Sans-I/O, without a clock of its own.

    buffers = connection.receive_buffers()           the buffers for the next bytes
    connection.bytes_received(count, now)            they have arrived
    for event in connection.take_events(): ...       the events of these bytes
    connection.calls.request("run", None, tensors)   messages of ours: calls, requests, tensors, deliveries
    connection.data_to_send(), bytes_sent(count)     their bytes
    connection.next_deadline(), handle_time(now)     time limits and heartbeats

The same class plays both sides. The table in `wire.states` says which messages may be received and sent when;
the limits say how many. A fault of the other side raises RemoteProtocolError once. From then on the
connection is closed: it holds nothing, offers no buffers and accepts no messages. Events that were complete
before can still be taken.
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
    tensors      tensors of steps, by their keys
    deliveries   those of them that are small and use a numbered route
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
        """Create one side.

        is_channel_authenticated   the stream proves its peer itself, by certificate or because it never
                                   leaves the process; otherwise `key` must be given
        channel_binding            see `Handshake`

        Raises InvalidArgumentError without a key on a stream that proves nothing.
        """
        self.limits = limits = limits if limits is not None else Limits()
        self.wire = wire = Wire(side, limits=limits, address=address, now=now)
        self.heartbeat = Heartbeat(wire)
        self.calls = OutgoingCalls(wire)
        self.requests = IncomingCalls(wire)
        self._ledger = TensorLedger(limits)
        self.tensors = TensorTraffic(wire, self._ledger)
        self.deliveries = Deliveries(wire, self._ledger)
        #: The identity of the other side, once proved.
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
        #: The buffers for the next bytes, in order; empty once the connection is closed.
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
        """Return the state of the connection."""
        return self.wire.state

    @property
    def address(self) -> str:
        """Return the name of the other side in errors."""
        return self.wire.address

    @property
    def peer_limits(self) -> PeerLimits | None:
        """Return the limits of the other side; None until it has sent them."""
        return self.wire.peer_limits

    @property
    def counters(self) -> Counters:
        """Return the counters of the connection so far."""
        return self.wire.counters

    # Bytes that arrive.

    def bytes_received(self, count: int, now: float) -> bool:
        """Handle `count` bytes in the buffers last offered. Raises the protocol errors of the other side.

        Returns False if there is no event and nothing to send, and fewer bytes came than there was room for.
        """
        wire = self.wire
        wire.now = self.heartbeat.received_at = now
        wire.counters.bytes_received += count
        try:
            return self._reader.bytes_received(count, now)
        except OpError as error:
            raise self._broken(error) from None

    def receive_end(self) -> None:
        """Record the end of the stream. Raises ConnectionLostError unless both sides had finished."""
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

    # The end of the connection.

    def _goodbye_came(self, reason: str) -> None:
        # It has finished nothing since: transfers under way are dropped, and later chunks are a fault.
        self._reader.drop_streams()
        self.wire.templates.close()
        if self.state is State.CLOSED:
            self.close()
        self.wire.events.append(e.Goodbye(reason))

    def goodbye(self, reason: str = "") -> None:
        """Announce that nothing more will be sent.

        Raises LocalProtocolError if the state does not allow it.
        """
        self.wire.send(m.GOODBYE, (plain(reason, _REASON_MAX),))
        self.wire.templates.close()
        self.wire.outbox.drop_streams()

    def close(self) -> None:
        """Drop everything, because the stream is lost."""
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
        """Close for this error, send the reason to an authenticated peer, and drop everything else."""
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

    # Time limits.

    def next_deadline(self) -> float:
        """Return the latest time at which `handle_time` must be called."""
        soon = self.wire.now + self.limits.heartbeat_seconds / 2
        if self.state not in TRUSTED:
            return min(self._opened_at + self.limits.handshake_seconds, soon)
        return soon

    def handle_time(self, now: float) -> None:
        """Send a heartbeat, or close if it is time. Raises ConnectionLostError or RemoteProtocolError."""
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

    # Bytes to send.

    @property
    def has_output(self) -> bool:
        """Return whether there is anything to send."""
        return bool(self.wire.outbox) or self.heartbeat.pong_due is not None

    @property
    def queued_bytes(self) -> int:
        """Return the number of bytes that wait here to be sent."""
        return self.wire.outbox.queued_bytes

    def send_chunks_of(self, count: int) -> None:
        """Let so many bytes of a stream go out before other messages, from the next chunk on."""
        assert 0 < count <= CHUNK_BYTES_MAX, "no receiver takes such chunks"
        self.wire.outbox.chunk_bytes = count

    @property
    def lends_last(self) -> bool:
        """Return whether the last of the buffers last given may be lent instead of being copied.

        It is held, with all of its tensor, until the other side has read it or `Heartbeat.take_lent` is
        called.
        """
        return self.wire.outbox.lends_last

    def data_to_send(self) -> list[memoryview | bytes]:
        """Return the buffers to send next, in order; empty if there are none.

        They stay the same until sent.
        """
        if self.heartbeat.pong_due is not None and not self.wire.outbox.is_under_way:
            self.heartbeat.answer()
        return self.wire.outbox.buffers()

    def send_with(
        self,
        send: Callable[[Sequence[memoryview | bytes]], int],
        lend: Callable[[Sequence[memoryview | bytes]], int] | None = None,
    ) -> bool:
        """Pass the bytes to send to `send`, which returns how many it took; return whether more remain.

        Buffers of which the last may be lent go to `lend`, if it is given.
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
        """Record that the first `count` bytes of the last buffers are sent; return whether more remain."""
        self.wire.counters.bytes_sent += count
        return self.wire.outbox.bytes_sent(count) or self.heartbeat.pong_due is not None


__all__ = ["Connection"]
