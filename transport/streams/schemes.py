"""Streams of bytes for connections, and the choice of a stream's kind by the scheme of an address.

    tcp://127.0.0.1:7000      TCP
    tls://worker1:7000        TLS over TCP, both sides with certificates
    inproc://master           a pair of queues within this process

A new kind of stream is a file that defines `connect` and `listen` and registers its scheme;
`flowengine.testing.check_byte_stream` checks whether it keeps the promises made here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, TypeGuard

from flowengine.core.errors import InvalidArgumentError


class ByteStream(Protocol):
    """A reliable stream of bytes in both directions, one reader and one writer at a time."""

    #: The name of the other end in errors and statistics: "tcp://127.0.0.1:43210".
    address: str
    #: Whether the stream itself has proved the identity of its other end.
    is_authenticated: bool
    #: Bytes that the stream copied within this process on their way to the receiver's buffers.
    bytes_copied: int

    async def receive_into(self, buffers: Sequence[memoryview]) -> int:
        """Fill the buffers, in order, with the available bytes; return their number, or 0 at the end.

        Waits only if no byte is available; it may return without a checkpoint. If cancelled, it has taken
        nothing.
        Raises ConnectionLostError if the link broke, FailedPreconditionError if this end is closed.
        """

    async def send_some(self, buffers: Sequence[memoryview | bytes]) -> int:
        """Send at least one byte of the buffers, in order; return the number of bytes sent.

        Waits only if nothing can be sent, or could when the call before had sent less than all. If cancelled,
        it has sent nothing. Raises as `receive_into` does.
        """

    def send_nowait(self, buffers: Sequence[memoryview | bytes]) -> int:
        """Send as many bytes as possible at once, perhaps none. Never while `send_some` waits."""

    def close(self) -> None:
        """End the stream now. Waiting tasks at this end get FailedPreconditionError. May be repeated."""


async def wait_spoken(stream: ByteStream) -> None:
    """Wait until the other end has sent something, or is lost; not for streams that cannot tell."""
    wait: Any = getattr(stream, "wait_spoken", None)
    if wait is not None:
        await wait()


def channel_binding(stream: ByteStream) -> Callable[[], bytes]:
    """Return a function for bytes that identify this stream's connection; b"" for plain streams."""
    return getattr(stream, "channel_binding", bytes)


def is_within_machine(stream: ByteStream) -> bool:
    """Return whether both ends are in the memory of one system; False if the stream does not know."""
    return bool(getattr(stream, "is_within_machine", False))


class LendingStream(ByteStream, Protocol):
    """A stream that can send memory without a copy."""

    async def lend_some(self, buffers: Sequence[memoryview | bytes]) -> int:
        """Send as `send_some` does; the last buffer must not change until the other side has read it."""

    def lend_nowait(self, buffers: Sequence[memoryview | bytes]) -> int:
        """Send as `send_nowait` does, under the condition of `lend_some`."""

    def close_after(self, memory: Sequence[memoryview]) -> None:
        """End the stream as `close` does, and keep this memory as long as the other side can read it."""


def lends_memory(stream: ByteStream) -> TypeGuard[LendingStream]:
    """Return whether the stream can send memory without a copy."""
    return bool(getattr(stream, "lends_memory", False))


class Listener(Protocol):
    """A source of incoming streams."""

    #: The address to dial, with the port that was chosen.
    address: str

    async def accept(self) -> ByteStream:
        """Return the next stream. Raises UnavailableError for a fault that may pass (no descriptors left)."""

    def close(self) -> None:
        """Accept no more streams; tasks that wait in `accept` get FailedPreconditionError."""


class Scheme(NamedTuple):
    """A way to reach addresses of one scheme: coroutines (address, security) -> stream, and -> listener."""

    connect: Callable[[str, Any], Any]
    listen: Callable[[str, Any], Any]


_schemes: Final[dict[str, Scheme]] = {}

#: Scheme -> the module that registers it, imported on first use.
_MODULES: Final = {
    "tcp": "flowengine.transport.streams.tcp",
    "tls": "flowengine.transport.streams.tls",
    "inproc": "flowengine.transport.streams.inproc",
}


def register_scheme(name: str, scheme: Scheme) -> None:
    """Register a scheme for addresses `name://...`. Raises InvalidArgumentError if the scheme is taken."""
    if name in _schemes:
        raise InvalidArgumentError(f"the address scheme '{name}' is registered already")
    _schemes[name] = scheme


def _scheme_of(address: str) -> Scheme:
    name, separator, _ = address.partition("://")
    if name in _MODULES and name not in _schemes and separator:
        import_module(_MODULES[name])
    scheme = _schemes.get(name) if separator else None
    if scheme is None:
        known = ", ".join(f"{each}://" for each in sorted(_schemes.keys() | _MODULES.keys()))
        raise InvalidArgumentError(f"{address!r} has an unknown scheme; known schemes are {known}")
    return scheme


async def connect_stream(address: str, security: Any = None) -> ByteStream:
    """Open a stream to this address. `security` depends on the scheme: `Certificates` for tls://.

    Raises InvalidArgumentError for an invalid address, UnavailableError if no server answers,
    UnauthenticatedError if a certificate is not accepted.
    """
    stream: ByteStream = await _scheme_of(address).connect(address, security)
    return stream


async def listen_streams(address: str, security: Any = None) -> Listener:
    """Listen at this address; port 0 lets the system choose. Raises UnavailableError if it is taken."""
    listener: Listener = await _scheme_of(address).listen(address, security)
    return listener


def host_and_port(address: str) -> tuple[str, int]:
    """Return the two parts of `scheme://host:port`, IPv6 in brackets.

    InvalidArgumentError for anything else.
    """
    _, _, rest = address.partition("://")
    host, colon, port = rest.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise InvalidArgumentError(f"{address!r} is not an address: write scheme://host:port, IPv6 as [::1]")
    return host, int(port)


__all__ = [
    "ByteStream",
    "LendingStream",
    "Listener",
    "Scheme",
    "channel_binding",
    "connect_stream",
    "host_and_port",
    "is_within_machine",
    "lends_memory",
    "listen_streams",
    "register_scheme",
]
