"""The order in which messages leave: small ones first, large ones in chunks between them. Sans-I/O.

A payload of at most 64 KiB is sent whole with its header. A larger one becomes a stream: its header is sent
like a small message and its bytes follow in chunks, in turn with those of other streams. Between any two
chunks all waiting small messages are sent, so that none waits for more than one chunk of ours.

Bytes are not joined, except for messages so small that gathering them costs more: a caller sends the buffers
that it is given, one after another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from flowengine.transport.limits import CHUNK_BYTES, INLINE_BYTES_MAX
from flowengine.transport.wire.framing import VIEWS_MAX
from flowengine.transport.wire.lent_memory import LentMemory
from flowengine.transport.wire.prefix import abandon_prefix, after_stream, data_prefix, message_prefix

#: Small messages taken together for one system call.
_BATCH_BYTES: Final = 256 * 1024
#: So few bytes are joined: gathering them costs the system more than the copy.
_JOINED_BYTES: Final = 2048


class LargeMessage:
    """A message on its way as a stream, or waiting to become one."""

    __slots__ = (
        "buffers",
        "header",
        "is_abandoned",
        "may_be_lent",
        "on_sent",
        "payload_bytes",
        "remaining",
        "stream",
    )

    def __init__(
        self,
        header: Callable[[], bytes],
        buffers: list[memoryview],
        payload_bytes: int,
        on_sent: Callable[[LargeMessage], object] | None,
    ) -> None:
        self.header = header
        self.buffers = buffers
        self.payload_bytes = payload_bytes
        self.remaining = payload_bytes
        self.on_sent = on_sent
        #: Its number once it has begun, 0 before.
        self.stream = 0
        self.is_abandoned = False
        #: Whether its memory, one buffer, may be sent without a copy.
        self.may_be_lent = False


class Outbox:
    """The sending half of a connection, from encoded messages down to buffers."""

    def __init__(self) -> None:
        self._small: deque[memoryview | bytes] = deque()
        self._waiting: deque[LargeMessage] = deque()
        self._streams: deque[LargeMessage] = deque()
        #: Buffers given out and not yet sent whole, in order.
        self._current: list[memoryview | bytes] = []
        #: Whether the last of those may be lent to the stream.
        self._lends_last = False
        #: The accounts of lent memory; None if the stream copies.
        self.lent: LentMemory | None = None
        self._last_stream = 0
        #: The bytes of a stream that are sent before any other message.
        self.chunk_bytes = CHUNK_BYTES
        #: Bytes of open streams, counted whole: the room that the receiver has made.
        self.open_bytes = 0
        #: The limits of the receiver; set when it has sent them.
        self.incoming_bytes_max = 0
        self.streams_max = 0
        #: Everything queued and not yet sent, in bytes.
        self.queued_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._current or self._small or self._streams or self._waiting)

    @property
    def is_under_way(self) -> bool:
        """Return whether buffers were given out that are not sent whole yet."""
        return bool(self._current)

    @property
    def lends_last(self) -> bool:
        """Return whether the last of the buffers given out may be lent: `lent` holds all of its tensor."""
        return self._lends_last and len(self._current) <= VIEWS_MAX

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    @property
    def waiting_streams(self) -> int:
        return len(self._waiting)

    def add_small(self, header: bytes, buffers: list[memoryview], payload_bytes: int) -> None:
        """Queue a message whose payload is sent with its header."""
        assert payload_bytes <= INLINE_BYTES_MAX, "a large message was queued as a small one"
        self.add_frame(message_prefix(len(header), 0, payload_bytes) + header, buffers, payload_bytes)

    def add_frame(self, head: bytes, buffers: Sequence[memoryview], payload_bytes: int) -> None:
        """Queue a message, prefix and header joined, whose payload is sent with it."""
        self._small.append(head)
        if buffers:
            self._small.extend(buffers)
        self.queued_bytes += len(head) + payload_bytes

    def add_large(
        self,
        header: Callable[[], bytes],
        buffers: list[memoryview],
        payload_bytes: int,
        on_sent: Callable[[LargeMessage], object] | None = None,
    ) -> LargeMessage:
        """Queue a message as a stream. `header()` is called when its turn comes; `on_sent(it)` at its end."""
        assert payload_bytes > INLINE_BYTES_MAX, "a small message was queued as a stream"
        large = LargeMessage(header, list(buffers), payload_bytes, on_sent)
        self._waiting.append(large)
        self.queued_bytes += payload_bytes
        self._begin_streams()
        return large

    def abandon(self, large: LargeMessage) -> bool:
        """Stop sending this message; False if all of it is on its way already.

        If its header has been sent, the receiver is told that the rest will not come.
        """
        if large.is_abandoned or not large.remaining:
            return large.is_abandoned
        large.is_abandoned = True
        self.queued_bytes -= large.remaining
        if not large.stream:
            self._waiting.remove(large)
            return True
        self._streams.remove(large)
        self.open_bytes -= large.payload_bytes
        # A chunk under way ends first: frames are never cut.
        prefix = abandon_prefix(large.stream)
        self._small.append(prefix)
        self.queued_bytes += len(prefix)
        if self.lent is not None:
            self.lent.given_out(large)
        self._begin_streams()
        return True

    def buffers(self) -> list[memoryview | bytes]:
        """Return the buffers to send next, in order; empty if there is nothing."""
        current = self._current
        if not current:
            small = self._small
            if len(small) == 1 and not self._streams:
                current.append(small.popleft())
            else:
                self._fill(current)
        return current if len(current) <= VIEWS_MAX else current[:VIEWS_MAX]

    def take_only(self) -> memoryview | bytes | None:
        """Take the one buffer that there is to send; empty if there is none, None if there are more.

        The unsent rest of it goes back by `put_back`.
        """
        small = self._small
        if self._current or self._streams or len(small) > 1:
            return None
        if not small:
            return b""
        buffer = small.popleft()
        self.queued_bytes -= len(buffer)
        return buffer

    def put_back(self, rest: memoryview) -> None:
        """Put back the rest of a taken buffer, to be sent next."""
        assert not self._current, "something else was given out meanwhile"
        self._current.append(rest)
        self.queued_bytes += len(rest)

    def bytes_sent(self, count: int) -> bool:
        """Record that the first `count` bytes of the last buffers are sent; return whether more remain."""
        self.queued_bytes -= count
        current = self._current
        if len(current) == 1:
            rest = len(current[0]) - count
            if rest:
                current[0] = memoryview(current[0])[-rest:]
                return True
            current.clear()
            self._lends_last = False
            return bool(self._small or self._streams or self._waiting)
        done = 0
        for buffer in current:
            size = len(buffer)
            if count < size:
                break
            count -= size
            done += 1
        del current[:done]
        if count:
            current[0] = memoryview(current[0])[count:]
        if not current:
            self._lends_last = False
        return bool(self)

    def drop_streams(self) -> None:
        """Send nothing more of large messages but the chunk under way."""
        self.queued_bytes -= sum(large.remaining for large in (*self._waiting, *self._streams))
        self._waiting.clear()
        self._streams.clear()
        self.open_bytes = 0

    def clear(self, *, keep_current: bool = False) -> None:
        """Forget everything; with `keep_current`, except the frames under way, which are never cut."""
        self._small.clear()
        self._waiting.clear()
        self._streams.clear()
        if not keep_current:
            self._current = []
            self._lends_last = False
        self.queued_bytes = sum(map(len, self._current))
        self.open_bytes = 0

    def _fill(self, current: list[memoryview | bytes]) -> None:
        small = self._small
        if small:
            size = 0
            while small and size < _BATCH_BYTES:
                buffer = small.popleft()
                current.append(buffer)
                size += len(buffer)
            if size <= _JOINED_BYTES and len(current) > 1:
                current[:] = (b"".join(current),)
        if small or not self._streams:
            return
        large = self._streams[0]
        chunk = min(self.chunk_bytes, large.remaining)
        prefix = data_prefix(large.stream, chunk)
        self.queued_bytes += len(prefix)
        current.append(prefix)
        large.remaining -= chunk
        if large.may_be_lent and self.lent is not None:
            self._lends_last = self.lent.give_out(large, large.buffers[0], chunk)
        while chunk:
            head = large.buffers[0]
            if len(head) > chunk:
                current.append(head[:chunk])
                large.buffers[0] = head[chunk:]
                break
            current.append(large.buffers.pop(0))
            chunk -= len(head)
        if large.remaining:
            self._streams.rotate(-1)
            return
        self._streams.popleft()
        self.open_bytes -= large.payload_bytes
        if large.on_sent is not None:
            large.on_sent(large)
        if self.lent is not None:
            self.lent.given_out(large)
        self._begin_streams()

    def _begin_streams(self) -> None:
        """Give waiting messages their streams, in order, as far as the receiver has room."""
        while self._waiting and len(self._streams) < self.streams_max:
            large = self._waiting[0]
            if self.open_bytes + large.payload_bytes > self.incoming_bytes_max:
                return
            self._waiting.popleft()
            self._last_stream = after_stream(self._last_stream)
            large.stream = self._last_stream
            header = large.header()
            head = message_prefix(len(header), large.stream, large.payload_bytes) + header
            self._small.append(head)
            self.queued_bytes += len(head)
            self._streams.append(large)
            self.open_bytes += large.payload_bytes


__all__ = ["LargeMessage", "Outbox"]
