"""One peer: a stream, the connection on it, and the tasks that move bytes between the two.

    peer = await connect(nursery, "tcp://127.0.0.1:7000", identity=me, key=key)
    reply = await peer.call("add", {"by": 1}, [array])

Each peer has three tasks: one reads and handles, one writes bytes that could not be written at once, one
watches the clock. The sender of a small message writes it straight into the socket, without another task.

A lost peer fails the calls and tensors in flight, and only those, with its name and the reason.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any, Final

import trio

from flowengine.core.errors import CancelledError, FailedPreconditionError, InternalError, OpError
from flowengine.transport import events as e
from flowengine.transport.calls.caller import Caller
from flowengine.transport.calls.service import IncomingCall, Reply, Service, TensorSink
from flowengine.transport.calls.serving import ServedCalls
from flowengine.transport.connection import Connection
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.limits import CHUNK_BYTES_WITHIN_MACHINE
from flowengine.transport.statistics import PeerStatistics, peer_statistics
from flowengine.transport.streams.schemes import (
    ByteStream,
    is_within_machine,
    lends_memory,
)
from flowengine.transport.wire.identity import Identity
from flowengine.transport.wire.states import State

logger = logging.getLogger("flowengine.transport")

#: After this much without a pause the reader and the writer let others run: about half a millisecond.
_YIELD_BYTES: Final = 2 << 20
_YIELD_TURNS: Final = 32

#: The time that a closing side waits for its last bytes to be sent and for the other side to close, too.
_GRACE_SECONDS: Final = 1.0


class Peer:
    """A connection that is driven. `connect` and `serve` make it."""

    def __init__(
        self,
        stream: ByteStream,
        connection: Connection,
        *,
        service: Service | None = None,
        tensors: TensorSink | None = None,
    ) -> None:
        self.connection = connection
        self._wire = connection.wire
        if is_within_machine(stream):
            connection.send_chunks_of(CHUNK_BYTES_WITHIN_MACHINE)
        self._stream = stream
        self._send_nowait = stream.send_nowait
        #: Sends the last buffer without a copy, if the stream can.
        self._lend_nowait = self._lend_some = None
        if lends_memory(stream):
            connection.heartbeat.lend_memory()
            self._lend_nowait, self._lend_some = stream.lend_nowait, stream.lend_some
        self._caller = caller = Caller(connection.wire, connection.calls, self.flush)
        self.call = caller.call
        self.call_again = caller.call_again
        self.begin_call = caller.begin_call
        self.begin_again = caller.begin_again
        self.has_room = caller.has_room
        self.give_up = caller.give_up
        self._serving = ServedCalls(
            connection.wire,
            connection.requests,
            service if service is not None else Service({}),
            self._answered,
        )
        self._tensors = tensors
        self._pushed: Any = tensors.pushed if tensors is not None else None
        self._now = trio.current_time
        #: The bytes read since other tasks got their turn.
        self._unyielded_bytes = self._unyielded_turns = 0
        #: The reason why the peer is lost; None while it is connected.
        self.failure: OpError | None = None
        self._has_opened = False
        #: True while events are handled: messages that they cause are sent together, afterwards.
        self.is_handling = False
        self._output = trio.lowlevel.ParkingLot()
        self._is_writing = False
        self._idle: deque[trio.Event] = deque()
        self._ended = trio.Event()
        self._scope = trio.CancelScope()
        self._task_status: Any = trio.TASK_STATUS_IGNORED

    def __repr__(self) -> str:
        return f"<Peer {self.connection.address}, {self.connection.state.value}>"

    @property
    def identity(self) -> Identity:
        """Return the identity of the other side.

        Raises FailedPreconditionError before the handshake is over.
        """
        if self.connection.peer is None:
            raise FailedPreconditionError(f"{self.connection.address} is not authenticated yet")
        return self.connection.peer

    @property
    def is_open(self) -> bool:
        """Return whether calls and tensors can be sent."""
        return self._wire.state is State.OPEN

    def statistics(self) -> PeerStatistics:
        """Return the statistics of this peer: its work so far, and the memory that it holds."""
        return peer_statistics(self.identity, self.connection, self._stream.bytes_copied)

    async def aclose(self, reason: str = "") -> None:
        """Say goodbye and end, within a second. Calls in flight fail with CancelledError. May be repeated."""
        if self.is_open:
            self.connection.goodbye(reason)
            self.flush()
            with trio.move_on_after(_GRACE_SECONDS):
                await self._ended.wait()
        self._end(CancelledError(f"the connection to {self.connection.address} was closed on this side"))
        await self._ended.wait()

    def fail(self, error: OpError) -> None:
        """End at once, for a known reason. Calls in flight fail with ConnectionLostError."""
        self._end(error)

    async def drain(self) -> None:
        """Wait until no call is in flight in either direction and everything is sent, then `aclose`."""
        while self.is_open and not self._is_idle():
            event = trio.Event()
            self._idle.append(event)
            await event.wait()
        await self.aclose()

    def _is_idle(self) -> bool:
        connection = self.connection
        return not (connection.calls.waiting or connection.requests.waiting or connection.has_output)

    def _wake_idle(self) -> None:
        if self._idle and (self._is_idle() or self.failure is not None):
            while self._idle:
                self._idle.popleft().set()

    async def wait_ended(self) -> OpError:
        """Wait until the peer is lost; return the reason."""
        await self._ended.wait()
        assert self.failure is not None, "a peer ended without a reason"
        return self.failure

    # The tasks.

    async def run(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        """Drive the connection until it ends. `started` is called with the peer once it is open.

        Raises errors that happen before that; `failure` holds a later one.
        """
        self._task_status = task_status
        # The clock of `trio.current_time`, which looks up the run at each call.
        self._now = trio.lowlevel.current_clock().current_time
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._serving.nursery = nursery
                    nursery.start_soon(self._guard, self._write)
                    nursery.start_soon(self._guard, self._watch)
                    await self._guard(self._read)
                    self._scope.cancel()
            await self._say_last_words()
        finally:
            self._serving.nursery = None
            self._end(CancelledError(f"the connection to {self.connection.address} was cancelled"))
            self.connection.close()
            self._close_stream()
            self._ended.set()
            self._wake_idle()
            # Later events cannot concern this peer, and without these references the collector need not run.
            self._caller.let_go()
            self._serving.let_go()
            self._task_status = trio.TASK_STATUS_IGNORED
        if not self._has_opened and self.failure is not None:
            raise self.failure

    def _close_stream(self) -> None:
        stream, lent = self._stream, self.connection.heartbeat.take_lent()
        if lent and lends_memory(stream):
            stream.close_after(lent)
        else:
            stream.close()

    async def _guard(self, task: Any) -> None:
        try:
            await task()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Handle an error of the driver."""
        if not isinstance(error, OpError):
            logger.error(
                "a fault of our own on the connection to %s", self.connection.address, exc_info=error
            )
            error = InternalError(f"{self.connection.address}: {type(error).__name__}: {error}")
        self._end(error)

    async def _read(self) -> None:
        connection, stream = self.connection, self._stream
        while buffers := connection.receive_buffers():
            if not self._received(await stream.receive_into(buffers)):
                return
            if self._unyielded_bytes > _YIELD_BYTES or self._unyielded_turns > _YIELD_TURNS:
                self._unyielded_bytes = self._unyielded_turns = 0
                await trio.lowlevel.checkpoint()
        self._end(ConnectionLostError(f"{connection.address} closed the connection"))

    def _received(self, count: int) -> bool:
        """Handle so many bytes in the buffers last offered; return False at the end of the stream."""
        connection = self.connection
        if not count:
            connection.receive_end()
            self._end(ConnectionLostError(f"{connection.address} closed the connection"))
            return False
        self._unyielded_turns += 1
        is_news = True
        try:
            is_news = connection.bytes_received(count, self._now())
        finally:
            if is_news:
                self.is_handling = True
                try:
                    pushed = self._pushed
                    for event in connection.take_events():
                        if type(event) is e.TensorArrival and pushed is not None:
                            pushed(self, event)
                        elif type(event) is e.CallArrival:
                            self._serving.requested(event)
                        else:
                            self._handle(event)
                finally:
                    self.is_handling = False
        if is_news:
            self.flush()
            if self._idle:
                self._wake_idle()
            self._unyielded_bytes += count
        else:
            # No more bytes were there, so the stream waits next; if it does not, the turns notice.
            self._unyielded_bytes = 0
        return True

    async def _write(self) -> None:
        connection, stream = self.connection, self._stream
        size = turns = 0
        while True:
            buffers = connection.data_to_send()
            if not buffers:
                self._wake_idle()
                await self._output.park()
                continue
            offered = sum(map(len, buffers))
            self._is_writing = True
            try:
                if connection.lends_last and self._lend_some is not None:
                    count = await self._lend_some(buffers)
                else:
                    count = await stream.send_some(buffers)
            finally:
                self._is_writing = False
            # If fewer came than there was room for, the stream waits next.
            size = size + count if count == offered else 0
            turns += 1
            connection.bytes_sent(count)
            if size > _YIELD_BYTES or turns > _YIELD_TURNS:
                size = turns = 0
                await trio.lowlevel.checkpoint()

    async def _watch(self) -> None:
        connection = self.connection
        while connection.state is not State.CLOSED:
            await trio.sleep_until(connection.next_deadline())
            # Bytes that came while this process was stopped are read before the other side is called silent.
            await trio.lowlevel.checkpoint()
            connection.handle_time(trio.current_time())
            self.flush()

    def flush(self) -> None:
        """Send queued bytes as far as possible without waiting; the writer sends the rest."""
        if self._is_writing or self.is_handling:
            return
        try:
            is_more = self.connection.send_with(self._send_nowait, self._lend_nowait)
        except OpError as error:
            self._end(error)
            return
        if is_more:
            self._output.unpark()
        elif self._idle:
            self._wake_idle()

    async def _say_last_words(self) -> None:
        # A refusal, or a goodbye with its reason. The other side may be stuck, so the wait is short.
        with trio.move_on_after(_GRACE_SECONDS):
            try:
                while buffers := self.connection.data_to_send():
                    self.connection.bytes_sent(await self._stream.send_some(buffers))
            except OpError:
                return

    def _end(self, error: OpError) -> None:
        """Record the reason for the end; only the first one counts."""
        if self.failure is not None:
            return
        # Its frames refer to this peer: the two would live on until the collector runs.
        self.failure = error.with_traceback(None)
        logger.debug("%s ended: %s", self.connection.address, error.message)
        self._scope.cancel()
        self._caller.end(error)
        self._serving.end()
        if self._has_opened and self._tensors is not None:
            self._tensors.peer_lost(self, error)

    def _answered(self) -> None:
        if not self.is_handling:
            self.flush()
        if self._idle:
            self._wake_idle()

    # Events of the connection.

    def _handle(self, event: e.Event) -> None:
        if isinstance(event, e.CallAnswer):
            self._caller.answered(event)
        elif isinstance(event, e.CallCancellation):
            self._serving.cancelled(event.call)
        elif isinstance(event, e.ConnectionOpened):
            self._has_opened = True
            self._serving.opened(event.peer)
            if self._tensors is not None:
                self._tensors.peer_opened(self)
            self._task_status.started(self)
        elif isinstance(event, e.Goodbye):
            reason = f": {event.reason}" if event.reason else ""
            self._end(ConnectionLostError(f"{self.connection.address} said goodbye{reason}"))
            if self.connection.state is State.LEFT:
                self.connection.goodbye()
                self.flush()
        elif self._tensors is not None:
            self._tensors.peer_event(self, event)


__all__ = ["IncomingCall", "Peer", "Reply", "Service"]
