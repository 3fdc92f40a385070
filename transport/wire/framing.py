"""Bytes to frames and back. Sans-I/O: its caller reports arrived bytes and gets the buffers for the next.

A frame is a prefix of 20 bytes and the parts that the prefix announces: see `prefix`. A payload of up to 64
KiB follows its header at once. A larger one follows as DATA frames of the stream that the message names,
between which other frames may come; ABANDON ends a stream that will not be finished.

Small messages are read as many at a time as have arrived, into a buffer that is reused, and a small payload
is copied out of it once. The chunks of a stream are placed exactly: they go to memory of their own that
becomes the tensors', together with the next prefix, so that a long stream costs one system call for each
chunk.
"""

from __future__ import annotations

from typing import Final, Generic, Protocol, TypeVar

from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.limits import CHUNK_BYTES_MAX, HANDSHAKE_HEADER_BYTES_MAX, INLINE_BYTES_MAX
from flowengine.transport.wire.placing import behind, place
from flowengine.transport.wire.prefix import (
    ABANDON,
    DATA,
    FORMAT,
    MAGIC,
    MESSAGE,
    PREFIX,
    PREFIX_BYTES,
    after_stream,
    answer_to,
    what_speaks,
)
from flowengine.transport.wire.templates import NUMBERED, NUMBERED_BYTES, TemplateTable

#: Buffers offered for one system call; the operating systems take 1024.
VIEWS_MAX: Final = 512

#: The size of the buffer for small frames: for a stranger, and the largest one for a trusted side.
_STAGING_BYTES: Final = 8 * 1024
_STAGING_BYTES_MAX: Final = 128 * 1024

_IN_FRAMES, _IN_CHUNK, _BROKEN = range(3)


class PendingMessage(Protocol):
    """A message whose header is known, and the room for its payload."""

    #: Memory for the chunks of a stream, in order; together exactly as long as the frame announced.
    views: list[memoryview]


T = TypeVar("T", bound=PendingMessage)


class FrameOwner(Protocol[T]):
    """The reader of headers. Each method may raise RemoteProtocolError, which breaks the frame reader."""

    def message_whole(self, header: memoryview, inline: bytearray | None) -> None:
        """Take a message that has arrived, with its payload if it has one.

        The header's memory is reused, the payload's belongs to the owner.
        """

    def message_started(self, header: memoryview, payload_bytes: int) -> T:
        """Take the header of a message whose payload will follow: make room for it."""

    def message_finished(self, incoming: T) -> None:
        """Take a message whose payload has arrived, too."""

    def message_abandoned(self, incoming: T) -> None:
        """Forget a message whose rest will not arrive."""


class _FrameStream(Generic[T]):
    __slots__ = ("incoming", "moved_at", "payload_bytes", "remaining", "views")

    def __init__(self, incoming: T, payload_bytes: int, now: float) -> None:
        self.incoming = incoming
        self.views = incoming.views
        self.payload_bytes = payload_bytes
        self.remaining = payload_bytes
        self.moved_at = now

    def take(self, count: int) -> list[memoryview]:
        """Return the memory for the next `count` bytes."""
        self.remaining -= count
        taken: list[memoryview] = []
        views = self.views
        while count:
            head = views[0]
            if len(head) > count:
                taken.append(head[:count])
                views[0] = head[count:]
                break
            taken.append(views.pop(0))
            count -= len(head)
        return taken


class FrameReader(Generic[T]):
    """The receiving half of a connection, up to whole messages."""

    def __init__(
        self,
        owner: FrameOwner[T],
        *,
        message_bytes_max: int,
        incoming_bytes_max: int,
        streams_max: int,
        templates: TemplateTable | None = None,
    ) -> None:
        self._owner = owner
        #: Raised by the owner once the other side is trusted; until then no payload is accepted at all.
        self.header_bytes_max = HANDSHAKE_HEADER_BYTES_MAX
        self.is_trusted = False
        self._message_bytes_max = message_bytes_max
        self._incoming_bytes_max = incoming_bytes_max
        self._streams_max = streams_max
        #: Frames that need not be read again.
        self._templates = templates if templates is not None else TemplateTable()
        #: Frames as they arrive; the bytes from `_start` to `_end` have not been read.
        self._staging = memoryview(bytearray(_STAGING_BYTES))
        self._start = self._end = 0
        #: The smallest size of the next frame, once its prefix is known: the reader asks for it as a whole.
        self._needed = PREFIX_BYTES
        #: Room for the rest of a chunk; behind it, in the staging buffer, is the room for the next prefix.
        self._views: list[memoryview] = []
        self._phase = _IN_FRAMES
        self._chunk_stream = 0
        self._streams: dict[int, _FrameStream[T]] = {}
        self._last_stream = 0
        #: Room held by open streams.
        self.incoming_bytes = 0
        self._frame_began_at: float | None = None
        self._now = 0.0

    def receive_buffers(self) -> list[memoryview]:
        """Return the buffers for the next bytes, in order; never empty while the reader is whole."""
        if self._phase == _IN_FRAMES:
            if self._streams:
                # No more than is known not to be a chunk, which would have to be copied again.
                return [self._staging[self._end : self._start + self._needed]]
            return [self._staging[self._end :]]
        if self._phase == _IN_CHUNK:
            views = self._views
            if len(views) < VIEWS_MAX:
                return [*views, self._staging[:PREFIX_BYTES]]
            return views[:VIEWS_MAX]
        return []

    def bytes_received(self, count: int, now: float) -> bool:
        """Handle `count` bytes in the buffers last offered. Calls the owner for completed messages.

        Returns False if there are none: fewer bytes came than there was room for, and all in the middle of a
        chunk. Raises RemoteProtocolError; the reader is then broken and offers no buffers any more.
        """
        self._now = now
        try:
            if self._phase == _IN_CHUNK:
                # The usual case in a long stream: a part of the missing rest of a chunk.
                views = self._views
                head = views[0]
                if count < len(head):
                    views[0] = head[count:]
                    return False
                count = self._chunk_received(count)
            elif count > NUMBERED_BYTES and not self._end:
                # Nearly always: one frame, of a form that has come before.
                staging = self._staging
                head, number = NUMBERED.unpack_from(staging)
                alike = self._templates.get(head)
                if alike is not None and alike.size == count:
                    rest = alike.rest
                    take = alike.takers.get(bytes(staging[NUMBERED_BYTES:rest]))
                    if take is not None and take(number, staging[rest:count]):
                        return True
            if count:
                self._end += count
                self._read_frames()
            return True
        except BaseException:
            self.break_off()
            raise

    def break_off(self) -> None:
        """Drop all memory; nothing is received any more."""
        self._phase = _BROKEN
        self._views = []
        self._streams.clear()
        self._start = self._end = 0
        self._staging = memoryview(b"")
        self.incoming_bytes = 0

    def drop_streams(self) -> None:
        """Forget the open streams; a chunk of theirs is a fault from now on."""
        self._streams.clear()
        self.incoming_bytes = 0

    @property
    def is_between_frames(self) -> bool:
        """Return whether the bytes so far end with a whole frame and no stream is open."""
        return self._phase == _IN_FRAMES and not self._streams and self._start == self._end

    @property
    def unread(self) -> bytes:
        """Return the beginning of an incomplete frame."""
        return bytes(self._staging[self._start : self._end])

    def oldest_progress(self) -> float | None:
        """Return the time when the frame under way began or an open stream last moved, the earlier one."""
        moments = [stream.moved_at for stream in self._streams.values()]
        if self._frame_began_at is not None:
            moments.append(self._frame_began_at)
        return min(moments, default=None)

    # Frames in the staging buffer.

    def _read_frames(self) -> None:
        """Take all frames that are whole.

        A message may close the connection: then the bytes behind it are not read.
        """
        start, end = self._start, self._end
        templates = self._templates
        while self._phase == _IN_FRAMES and end - start >= PREFIX_BYTES:
            if templates and end - start > NUMBERED_BYTES:
                head, number = NUMBERED.unpack_from(self._staging, start)
                alike = templates.get(head)
                if alike is not None and end - start >= alike.size:
                    after, rest = start + alike.size, start + alike.rest
                    take = alike.takers.get(bytes(self._staging[start + NUMBERED_BYTES : rest]))
                    if take is not None and take(number, self._staging[rest:after]):
                        start = after
                        self._needed = PREFIX_BYTES
                        self._frame_began_at = None
                        continue
            magic, format_, kind, header_bytes, stream, payload_bytes = PREFIX.unpack_from(
                self._staging, start
            )
            if magic != MAGIC or format_ != FORMAT:
                prefix = bytes(self._staging[start : start + PREFIX_BYTES])
                raise RemoteProtocolError(what_speaks(prefix), last_words=answer_to(prefix))
            if kind == MESSAGE:
                if self._needed == PREFIX_BYTES:
                    self._check_message(header_bytes, stream, payload_bytes)
                size = PREFIX_BYTES + header_bytes + (0 if stream else payload_bytes)
                if end - start < size:
                    self._needed = size
                    break
                self._needed = PREFIX_BYTES
                begin = self._start = start + PREFIX_BYTES
                start += size
                self._frame_began_at = None
                self._message(self._staging[begin : begin + header_bytes], begin, stream, payload_bytes)
            elif kind == DATA:
                self._check_chunk(header_bytes, stream, payload_bytes)
                start += PREFIX_BYTES
                start += self._begin_chunk(stream, payload_bytes, start)
            elif kind == ABANDON:
                start += PREFIX_BYTES
                self._frame_began_at = None
                self._stream_abandoned(header_bytes, stream, payload_bytes)
            else:
                raise RemoteProtocolError(f"there is no frame of kind {kind}")
        if self._phase == _BROKEN:
            return
        if start == end:
            self._start = self._end = 0
            if len(self._staging) > _STAGING_BYTES_MAX:
                self._staging = memoryview(bytearray(_STAGING_BYTES_MAX))
            return
        self._start = start
        if self._frame_began_at is None:
            self._frame_began_at = self._now
        self._make_room()

    def _make_room(self) -> None:
        """Make room for the whole of the frame under way, and for bytes that may come with it."""
        staging, held = self._staging, self._end - self._start
        size = len(staging)
        if self._needed > size or (self.is_trusted and self._end == size < _STAGING_BYTES_MAX):
            larger = memoryview(bytearray(max(self._needed, self._staging_bytes)))
            larger[:held] = staging[self._start : self._end]
            self._staging = larger
        elif self._end == size or self._start + self._needed > size:
            # Moved within one buffer, which may overlap.
            staging[:held] = bytes(staging[self._start : self._end])
        else:
            return
        self._start, self._end = 0, held

    @property
    def _staging_bytes(self) -> int:
        return _STAGING_BYTES_MAX if self.is_trusted else _STAGING_BYTES

    def _check_message(self, header_bytes: int, stream: int, payload_bytes: int) -> None:
        if not 0 < header_bytes <= self.header_bytes_max:
            raise RemoteProtocolError(
                f"a header of {header_bytes} bytes was announced; 1 to {self.header_bytes_max} are allowed"
            )
        if payload_bytes:
            if not self.is_trusted:
                raise RemoteProtocolError("tensors were announced before authentication")
            if payload_bytes > self._message_bytes_max:
                raise RemoteProtocolError(
                    f"a message of {payload_bytes} bytes was announced; {self._message_bytes_max} are allowed"
                )
        if payload_bytes > INLINE_BYTES_MAX:
            if self.incoming_bytes + payload_bytes > self._incoming_bytes_max:
                raise RemoteProtocolError(
                    f"{self.incoming_bytes} bytes are being received and {payload_bytes} more "
                    f"were announced; {self._incoming_bytes_max} are allowed"
                )
            if len(self._streams) >= self._streams_max:
                raise RemoteProtocolError(f"more than {self._streams_max} streams were opened")
            expected = after_stream(self._last_stream)
            if stream != expected or stream in self._streams:
                raise RemoteProtocolError(f"stream {stream} was opened where {expected} is next")
        elif stream:
            raise RemoteProtocolError(f"stream {stream} was opened for {payload_bytes} bytes")

    def _message(self, header: memoryview, begin: int, number: int, payload_bytes: int) -> None:
        """Handle a message whose header has arrived, and its payload too unless it is a stream."""
        if number:
            incoming = self._owner.message_started(header, payload_bytes)
            if self._phase == _BROKEN:
                return
            self.incoming_bytes += payload_bytes
            self._last_stream = number
            self._streams[number] = _FrameStream(incoming, payload_bytes, self._now)
            return
        inline = None
        if payload_bytes:
            end = begin + len(header)
            # The staging buffer is reused; the object made of the payload may live long.
            inline = bytearray(self._staging[end : end + payload_bytes])
        self._owner.message_whole(header, inline)

    # Chunks of streams.

    def _check_chunk(self, header_bytes: int, number: int, payload_bytes: int) -> None:
        stream = self._streams.get(number)
        if stream is None:
            raise RemoteProtocolError(f"a chunk of stream {number} came, which is not open")
        if header_bytes or not 0 < payload_bytes <= min(CHUNK_BYTES_MAX, stream.remaining):
            raise RemoteProtocolError(
                f"a chunk of {payload_bytes} bytes came where stream {number} lacks {stream.remaining} "
                f"and a chunk holds {CHUNK_BYTES_MAX}"
            )

    def _begin_chunk(self, number: int, payload_bytes: int, begin: int) -> int:
        """Place the part of a chunk that begins there in the staging buffer; return its length."""
        here = min(payload_bytes, self._end - begin)
        views = self._streams[number].take(payload_bytes)
        self._chunk_stream = number
        if here:
            place(views, self._staging[begin : begin + here])
            views = behind(views, here)
        if views:
            self._views = views
            self._phase = _IN_CHUNK
            self._frame_began_at = self._now
            self._start = self._end = 0
        else:
            self._frame_began_at = None
            self._chunk_complete()
        return here

    def _chunk_received(self, count: int) -> int:
        """Handle so many bytes that came while a chunk was under way; return the number behind it."""
        views = self._views
        done = 0
        for view in views:
            size = len(view)
            if count < size:
                break
            count -= size
            done += 1
        del views[:done]
        if views:
            if count:
                views[0] = views[0][count:]
            return 0
        self._phase = _IN_FRAMES
        self._frame_began_at = None
        self._chunk_complete()
        return count

    def _chunk_complete(self) -> None:
        number = self._chunk_stream
        stream = self._streams[number]
        stream.moved_at = self._now
        if not stream.remaining:
            del self._streams[number]
            self.incoming_bytes -= stream.payload_bytes
            self._owner.message_finished(stream.incoming)

    def _stream_abandoned(self, header_bytes: int, number: int, payload_bytes: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is None or header_bytes or payload_bytes:
            raise RemoteProtocolError(f"stream {number} was abandoned, which is not open")
        self.incoming_bytes -= stream.payload_bytes
        self._owner.message_abandoned(stream.incoming)


__all__ = ["FrameOwner", "FrameReader", "PendingMessage"]
