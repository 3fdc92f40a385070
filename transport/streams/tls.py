"""TLS over TCP with certificates on both sides: for networks that others can listen on or speak on.

Each side shows a certificate that the other checks against the cluster's own authority. The bytes pass
through OpenSSL, so they are copied: this leaves about 1 GB/s for each core.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from typing import Any, Final

import trio

from flowengine.core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    UnauthenticatedError,
    UnavailableError,
)
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.limits import HANDSHAKE_HEADER_BYTES_MAX
from flowengine.transport.streams.certificates import Certificates
from flowengine.transport.streams.records import RECORD_BYTES, TcpRecords
from flowengine.transport.streams.schemes import Scheme, host_and_port, register_scheme
from flowengine.transport.streams.tcp import TcpListener, open_listener, open_socket
from flowengine.transport.wire.placing import place
from flowengine.transport.wire.prefix import TLS_HANDSHAKE, TLS_REFUSAL

_SEND_BYTES: Final = 256 * 1024

#: The time limit from the first byte of TLS to the last of its handshake.
_HANDSHAKE_SECONDS: Final = 10.0


class TlsStream:
    """A connected socket with TLS on it."""

    is_authenticated = True

    def __init__(self, stream: trio.SSLStream[TcpRecords], address: str) -> None:
        self._stream = stream
        self._socket = stream.transport_stream.socket
        self.address = address
        self.bytes_copied = 0
        #: Decrypted bytes that are not placed yet.
        self._rest = memoryview(b"")
        self._has_spoken = False
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<TlsStream {self.address}>"

    async def wait_spoken(self) -> None:
        """Wait for the first byte of the TLS handshake, or the end of the link.

        Raises UnauthenticatedError for a peer without TLS, and sends it a reply that says so.
        """
        try:
            await trio.lowlevel.wait_readable(self._socket)
            first = await self._socket.recv(1, socket.MSG_PEEK)
            if first not in (b"", TLS_HANDSHAKE):
                await self._socket.send(TLS_REFUSAL)
                # A socket that is closed with unread bytes discards the last bytes that it sent.
                await self._socket.recv(HANDSHAKE_HEADER_BYTES_MAX)
                raise UnauthenticatedError(
                    f"{self.address} connected without TLS, which this server requires: it was refused"
                )
        except (trio.ClosedResourceError, OSError, ValueError) as error:
            raise self._failed(error) from None

    def channel_binding(self) -> bytes:
        """Return bytes that both ends of this very connection know.

        A relay between two connections cannot produce them.

        They are the dialler's last message of the handshake, a code over all of it under keys of this
        connection.
        """
        binding: bytes | None = self._stream.get_channel_binding("tls-unique")
        assert binding, "asked for before the handshake was over"
        return binding

    async def receive_into(self, buffers: Sequence[memoryview]) -> int:
        if self._is_closed:
            raise self._failed(None)
        if not self._rest:
            try:
                self._rest = memoryview(await self._stream.receive_some(RECORD_BYTES))
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise self._failed(error) from None
            if not self._has_spoken:
                self._first_bytes()
        count = place(buffers, self._rest)
        # Bytes that have all been placed are not kept until others arrive.
        self._rest = self._rest[count:] if count < len(self._rest) else memoryview(b"")
        self.bytes_copied += count
        return count

    async def send_some(self, buffers: Sequence[memoryview | bytes]) -> int:
        data: Any = buffers[0]
        if len(data) < _SEND_BYTES and len(buffers) > 1:
            # One record for a header and its payload, instead of one each.
            data = b"".join(buffers[:64])
        data = memoryview(data)[:_SEND_BYTES]
        if self._is_closed:
            raise self._failed(None)
        try:
            # TLS cannot take back half a record: a cancelled send leaves the stream unusable.
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise self._failed(error) from None
        return len(data)

    def _first_bytes(self) -> None:
        # In TLS 1.3 a dialler's handshake is over before the listener has seen its certificate. A listener
        # that rejects it closes the connection, and the dialler learns no more.
        self._has_spoken = True
        if not self._rest and not self._stream.server_side:
            raise UnauthenticatedError(
                f"{self.address} hung up after the TLS handshake, before a word: "
                "is this side's certificate signed by the cluster's authority?"
            )

    def send_nowait(self, buffers: Sequence[memoryview | bytes]) -> int:
        return 0

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._socket.close()

    def _failed(self, error: BaseException | None) -> Exception:
        if self._is_closed:
            return FailedPreconditionError(f"the stream to {self.address} is closed")
        return explain(error, self.address)


def explain(error: BaseException | None, address: str) -> Exception:
    """Return the error that explains a TLS failure, from the cause that trio keeps."""
    cause = error.__cause__ if error is not None else None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return UnauthenticatedError(
            f"the certificate of {address} is not valid: {cause.verify_message}; "
            "is it signed by the cluster's authority, for the name that was dialled?"
        )
    if isinstance(cause, ssl.SSLError):
        reason = (cause.reason or str(cause)).lower().replace("_", " ")
        if "protocol version" in reason or "wrong version" in reason or "http request" in reason:
            return UnavailableError(
                f"{address} does not speak TLS: reach it as flow://, or add a line tls to the cluster's "
                "file and restart the task"
            )
        if "alert" in reason or "certificate" in reason:
            return UnauthenticatedError(
                f"{address} refused TLS with this side: {reason}; "
                "is this side's certificate signed by the cluster's authority?"
            )
        if "record" in reason:
            return UnavailableError(f"{address} does not speak TLS: its answer is not a TLS record")
        if "eof" in reason:
            return ConnectionLostError(f"{address} closed the connection during the TLS handshake")
        return UnavailableError(f"TLS with {address} failed: {reason}")
    return ConnectionLostError(f"the link to {address} broke: {cause or error}")


async def _secure(
    stream: trio.SocketStream, context: ssl.SSLContext, address: str, *, host: str | None
) -> TlsStream:
    secured = trio.SSLStream(
        TcpRecords(stream), context, server_hostname=host, server_side=host is None, https_compatible=True
    )
    try:
        with trio.fail_after(_HANDSHAKE_SECONDS):
            await secured.do_handshake()
    except BaseException as error:
        stream.socket.close()
        if isinstance(error, trio.TooSlowError):
            raise UnavailableError(
                f"{address} did not finish the TLS handshake within {_HANDSHAKE_SECONDS} s"
            ) from None
        if isinstance(error, trio.BrokenResourceError):
            raise explain(error, address) from None
        raise
    return TlsStream(secured, address)


class TlsListener:
    """A listener whose streams begin with a TLS handshake, which `accept` leaves to the first use."""

    def __init__(self, listener: TcpListener, certificates: Certificates) -> None:
        self._listener = listener
        self._certificates = certificates
        self.address = listener.address

    async def accept(self) -> TlsStream:
        stream = await self._listener.accept_stream()
        name = stream.socket.getpeername()
        context = self._certificates.listening()
        secured = trio.SSLStream(TcpRecords(stream), context, server_side=True, https_compatible=True)
        # The handshake runs with the first bytes, in the task that reads them: a silent client blocks no
        # other, and the connection's own time limit covers it.
        return TlsStream(secured, f"tls://{name[0]}:{name[1]}")

    def close(self) -> None:
        self._listener.close()


def _certificates(security: Any, address: str) -> Certificates:
    if not isinstance(security, Certificates):
        raise InvalidArgumentError(f"{address} needs certificates: give security=tls.Certificates(...)")
    return security


async def connect(address: str, security: Any = None) -> TlsStream:
    context = _certificates(security, address).connecting()
    host, _ = host_and_port(address)
    return await _secure(await open_socket(address), context, address, host=host)


async def listen(address: str, security: Any = None) -> TlsListener:
    certificates = _certificates(security, address)
    certificates.listening()  # raises now if they are unusable
    return TlsListener(await open_listener(address, "tls"), certificates)


register_scheme("tls", Scheme(connect, listen))
