"""Reads of a TLS connection, in bytes that take as much memory as they are long.

    context.sslobject_class = TlsRecords            # what OpenSSL has decrypted
    trio.SSLStream(TcpRecords(stream), context)     # what the socket holds

A socket and OpenSSL are asked for as much as a record holds, and mostly give less. Asked for bytes, Python
makes room for all of it and cuts that down: a few bytes stay where 16 KiB were, and the next 16 KiB lie
elsewhere. The memory of tasks that spoke for hours grew by such holes. Here both fill a buffer that stays,
and what came is copied out of it; beside decrypting, that copy costs little.
"""

from __future__ import annotations

import errno
import ssl
from typing import Any, Final

import trio

#: What a record holds: no call gives more.
RECORD_BYTES: Final = 16 * 1024
#: What a socket is asked for at a time, which is several records of a large tensor.
_SOCKET_BYTES: Final = 64 * 1024
_CLOSED: Final = frozenset({errno.EBADF, errno.ENOTSOCK})


class TlsRecords(ssl.SSLObject):
    """OpenSSL's side of a connection; the context makes it, and does not call `__init__`."""

    _room: memoryview | None = None

    def read(self, size: int = 1024, buffer: Any = None) -> Any:
        """At most so many decrypted bytes; with a buffer of the caller's, their number, as the base does."""
        if buffer is not None:
            return super().read(size, buffer)
        room = self._room
        if room is None:
            room = self._room = memoryview(bytearray(RECORD_BYTES))
        # The base's annotation says bytes; given a buffer, it says how many there are.
        count: Any = super().read(min(size, RECORD_BYTES), room)
        return bytes(room[:count])


class TcpRecords(trio.abc.Stream):
    """A connected socket, below TLS. The errors are those of `trio.SocketStream`."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._room = memoryview(bytearray(_SOCKET_BYTES))
        self.socket = stream.socket

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive the bytes that are there, b"" at the end. Cancelled, it has taken nothing."""
        size = _SOCKET_BYTES if max_bytes is None else min(max_bytes, _SOCKET_BYTES)
        try:
            count = await self.socket.recv_into(self._room, size)
        except OSError as error:
            if error.errno in _CLOSED:
                raise trio.ClosedResourceError("the socket was closed") from None
            raise trio.BrokenResourceError(f"the connection broke: {error}") from error
        return bytes(self._room[:count])

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


__all__ = ["RECORD_BYTES", "TcpRecords", "TlsRecords"]
