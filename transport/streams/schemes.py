"""Streams of bytes as a connection needs them, and the kind of stream that an address asks for.

    tcp://127.0.0.1:7000      TCP
    tls://worker1:7000        TLS over TCP, both sides with certificates
    inproc://master           a pair of queues within this process

A new kind of stream is a file that offers `connect` and `listen` and registers its scheme;
`flowengine.testing.check_byte_stream` says whether it keeps what is promised here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, TypeGuard

from flowengine.core.errors import InvalidArgumentError


class ByteStream(Protocol):
    """A reliable stream of bytes in both directions, one reader and one writer at a time."""

    #: How errors and statistics name the other end: "tcp://127.0.0.1:43210".
    address: str
    #: Whether the stream itself has proved who is at its other end.
    is_authenticated: bool
    #: Bytes that the stream copied within this process on their way to the receiver's buffers.
    bytes_copied: int

    async def receive_into(self, buffers: Sequence[memoryview]) -> int:
        """Fill the buffers, in order, with what is there; at least a byte, or 0 at the end of the stream.

        Waits only if nothing is there; it may return without a checkpoint. Cancelled, it has taken nothing.
        Raises ConnectionLostError if the link broke, FailedPreconditionError if this end is closed.
        """

    async def send_some(self, buffers: Sequence[memoryview | bytes]) -> int:
        """Send at least one byte of the buffers, in order; how many were sent.

        Waits only if nothing can be sent, or could when the call before had sent less than all. Cancelled, it
        has sent nothing. Raises as `receive_into` does.
        """

    def send_nowait(self, buffers: Sequence[memoryview | bytes]) -> int:
        """Send what can be sent at once, perhaps nothing. Never while `send_some` waits."""

    def close(self) -> None:
        """End the stream now. Whoever waits at this end gets FailedPreconditionError; may be repeated."""


async def wait_spoken(stream: ByteStream) -> None:
    """Wait until the other end has sent something, or is gone; not for streams that cannot tell."""
    wait: Any = getattr(stream, "wait_spoken", None)
    if wait is not None:
        await wait()


def channel_binding(stream: ByteStream) -> Callable[[], bytes]:
    """Return a function for bytes that identify this stream's connection; b"" for plain streams."""
    return getattr(stream, "channel_binding", bytes)


def is_within_machine(stream: ByteStream) -> bool:
    """Whether nothing but one system's memory lies between the two ends; no, if the stream does not say."""
    return bool(getattr(stream, "is_within_machine", False))


class LendingStream(ByteStream, Protocol):
    """A stream that can send memory without copying it."""

    async def lend_some(self, buffers: Sequence[memoryview | bytes]) -> int:
        """As `send_some`; the last buffer must not change before the other side has read it, or is gone."""

    def lend_nowait(self, buffers: Sequence[memoryview | bytes]) -> int:
        """As `send_nowait`, with what `lend_some` asks for."""

    def close_after(self, memory: Sequence[memoryview]) -> None:
        """As `close`, and keep this memory until the other side cannot read from it any more."""


def lends_memory(stream: ByteStream) -> TypeGuard[LendingStream]:
    """Whether the stream can send memory without copying it."""
    return bool(getattr(stream, "lends_memory", False))


class Listener(Protocol):
    """A source of incoming streams."""

    #: What to dial to get here, with the port that was chosen.
    address: str

    async def accept(self) -> ByteStream:
        """The next stream. Raises UnavailableError for a fault that may pass (no descriptors left)."""

    def close(self) -> None:
        """Take no more streams; whoever waits in `accept` gets FailedPreconditionError."""


class Scheme(NamedTuple):
    """How to reach addresses of one scheme. Both are coroutines: (address, security) -> stream, listener."""

    connect: Callable[[str, Any], Any]
    listen: Callable[[str, Any], Any]


_schemes: Final[dict[str, Scheme]] = {}

#: Scheme -> the module that registers it, imported when it is first asked for.
_MODULES: Final = {
    "tcp": "flowengine.transport.streams.tcp",
    "tls": "flowengine.transport.streams.tls",
    "inproc": "flowengine.transport.streams.inproc",
}


def register_scheme(name: str, scheme: Scheme) -> None:
    """Reach addresses `name://...` so; InvalidArgumentError if the scheme is taken."""
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
        raise InvalidArgumentError(
            f"{address!r} is no address that can be reached: known schemes are {known}"
        )
    return scheme


async def connect_stream(address: str, security: Any = None) -> ByteStream:
    """A stream to this address. `security` is the scheme's own: `Certificates` for tls://.

    Raises InvalidArgumentError for an address that cannot be read, UnavailableError if nobody answers,
    UnauthenticatedError if certificates do not fit.
    """
    stream: ByteStream = await _scheme_of(address).connect(address, security)
    return stream


async def listen_streams(address: str, security: Any = None) -> Listener:
    """A listener at this address; port 0 lets the system choose. Raises UnavailableError if it is taken."""
    listener: Listener = await _scheme_of(address).listen(address, security)
    return listener


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of `scheme://host:port`, IPv6 in brackets; InvalidArgumentError if it has others."""
    _, _, rest = address.partition("://")
    host, colon, port = rest.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise InvalidArgumentError(f"{address!r} is no address: write scheme://host:port, IPv6 as [::1]")
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
