"""Reads of a TLS connection into bytes objects that take no more memory than their length.

    context.sslobject_class = TlsRecords            # bytes that OpenSSL has decrypted
    trio.SSLStream(TcpRecords(stream), context)     # bytes of the socket

A read from a socket or OpenSSL asks for a whole record, and mostly returns less. For a bytes object, Python
allocates the full size and shrinks it afterwards: a few bytes stay where 16 KiB were, and the next 16 KiB lie
elsewhere. The memory of tasks that communicated for hours grew by such holes. Here both reads fill a
permanent buffer, and the received bytes are copied out of it; compared with decrypting, that copy costs
little.
"""

from __future__ import annotations

import errno
import ssl
from typing import Any, Final

import trio

#: The size of a record: no call returns more.
RECORD_BYTES: Final = 16 * 1024
#: The number of bytes to ask a socket for at a time: several records of a large tensor.
_SOCKET_BYTES: Final = 64 * 1024
_CLOSED: Final = frozenset({errno.EBADF, errno.ENOTSOCK})


class TlsRecords(ssl.SSLObject):
    """OpenSSL's side of a connection; the context makes it, and does not call `__init__`."""

    _room: memoryview | None = None

    def read(self, size: int = 1024, buffer: Any = None) -> Any:
        """Return at most so many decrypted bytes; with a caller's buffer, their number, as the base does."""
        if buffer is not None:
            return super().read(size, buffer)
        room = self._room
        if room is None:
            room = self._room = memoryview(bytearray(RECORD_BYTES))
        # The base's annotation says bytes; with a buffer, it returns their number.
        count: Any = super().read(min(size, RECORD_BYTES), room)
        return bytes(room[:count])


class TcpRecords(trio.abc.Stream):
    """A connected socket, below TLS. The errors are those of `trio.SocketStream`."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._room = memoryview(bytearray(_SOCKET_BYTES))
        self.socket = stream.socket

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive the available bytes, b"" at the end. If cancelled, it has taken nothing."""
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
