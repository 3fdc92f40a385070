"""TCP for connections: system calls that scatter into tensors and gather from them, tried before waiting.

`recvmsg_into` fills the tensor and the next prefix at once, `sendmsg` sends header and tensor at once; no
byte passes through a buffer of ours.

Small messages share the stream with large ones, so the sender's system may queue only a bounded number of
bytes. The size of the receiver's queue is left to the operating system: bounded to 2 MB, processes on one
machine waited for each other, four tensors of 25 MB took a ninth more, and a small message beside a large one
arrived no sooner.

Between processes of one machine, the system's memory for bytes in flight is bounded, too. The system hands
the sender the pages that the receiver has just emptied: a few of them stay in the caches, while those of
megabytes are written to memory and read back, on both sides. Large tensors need no such pages: the receiver
reads them from the sender's own pages (see `pages`).
"""

from __future__ import annotations

import errno
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import trio

from flowengine.core.errors import FailedPreconditionError, UnavailableError
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.streams.closed_sockets import keep_until_gone, release_gone
from flowengine.transport.streams.schemes import Scheme, host_and_port, register_scheme
from flowengine.transport.streams.zero_copy import can_send_pages, send_pages

#: Unsent bytes that the system accepts before it calls the socket full: a chunk, so that one is on its way
#: while the next is handed over. With less, every piece of a chunk would cost a wake-up.
_UNSENT_BYTES: Final = 512 * 1024

#: Memory for bytes in flight within one machine. The system takes twice as much and a part for itself: nearly
#: a chunk. With half as much, every piece of a chunk costs a wake-up; with 640 KiB the pages no longer stay
#: in the caches, and a transfer of 30 ms takes 43 ms.
_ON_ITS_WAY_BYTES: Final = 448 * 1024

#: Errors of accept if the socket itself is unusable. All others pass: too few descriptors or too little
#: memory, a network that is down, a connection that was lost before it was accepted.
_FATAL: Final = {errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP}


class TcpStream:
    """A connected socket."""

    is_authenticated = False
    bytes_copied = 0

    def __init__(self, connected: socket.socket, address: str) -> None:
        release_gone()
        connected.setblocking(False)
        self.is_within_machine = self._tune(connected)
        if self.is_within_machine:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ON_ITS_WAY_BYTES)
        #: Whether `lend_nowait` can be used.
        self.lends_memory = self.is_within_machine and can_send_pages()
        self._socket = connected
        self.address = address
        #: The last call got less than it had room for: the next one would find nothing.
        self._is_drained = True
        #: The last `send_some` sent less than it was given: another try at once would send nothing.
        self._is_full = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}>"

    def _tune(self, connected: socket.socket) -> bool:
        """Set the socket options for its kind; return whether its other end is on this machine."""
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        return _is_within_machine(connected)

    async def wait_spoken(self) -> None:
        """Wait until there is something to read, or the link is lost."""
        try:
            await trio.lowlevel.wait_readable(self._socket)
        except (trio.ClosedResourceError, OSError, ValueError) as error:
            raise self._failed(error) from None

    async def receive_into(self, buffers: Sequence[memoryview]) -> int:
        only = buffers[0] if len(buffers) == 1 else None
        room = len(only) if only is not None else sum(map(len, buffers))
        while True:
            if self._is_drained:
                try:
                    await trio.lowlevel.wait_readable(self._socket)
                except (trio.ClosedResourceError, OSError, ValueError) as error:
                    raise self._failed(error) from None
            try:
                if only is not None:
                    count = self._socket.recv_into(only)
                else:
                    count = self._socket.recvmsg_into(buffers)[0]
            except BlockingIOError:
                self._is_drained = True
            except OSError as error:
                raise self._failed(error) from None
            else:
                self._is_drained = count < room
                return count

    async def send_some(self, buffers: Sequence[memoryview | bytes]) -> int:
        room = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        while True:
            if self._is_full:
                await self._wait_writable()
            count = self.send_nowait(buffers)
            self._is_full = count < room
            if count:
                return count

    async def _wait_writable(self) -> None:
        try:
            await trio.lowlevel.wait_writable(self._socket)
        except (trio.ClosedResourceError, OSError, ValueError) as error:
            raise self._failed(error) from None

    async def lend_some(self, buffers: Sequence[memoryview | bytes]) -> int:
        """Send as `send_some` does, the last buffer without a copy: see `lend_nowait`."""
        room = sum(map(len, buffers))
        while True:
            if self._is_full:
                await self._wait_writable()
            count = self.lend_nowait(buffers)
            self._is_full = count < room
            if count:
                return count

    def lend_nowait(self, buffers: Sequence[memoryview | bytes]) -> int:
        """Send as `send_nowait` does, the last buffer without a copy.

        Its memory must not change until the other side has read the bytes that were sent of it, or is gone.
        """
        *copied, lent = buffers
        assert isinstance(lent, memoryview), "what is lent is a view of a tensor"
        count = 0
        try:
            if copied:
                count = self._socket.sendmsg(copied, (), socket.MSG_MORE)
                if count < sum(map(len, copied)):
                    return count
            return count + send_pages(self._socket.fileno(), lent)
        except BlockingIOError:
            return count
        except OSError as error:
            raise self._failed(error) from None

    def send_nowait(self, buffers: Sequence[memoryview | bytes]) -> int:
        try:
            if len(buffers) == 1:
                return self._socket.send(buffers[0])
            return self._socket.sendmsg(buffers)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._failed(error) from None

    def close(self) -> None:
        self._is_drained = False
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    def close_after(self, memory: Sequence[memoryview]) -> None:
        """End the stream as `close` does, and keep this memory as long as the other side can read it."""
        self._is_drained = False
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            keep_until_gone(socket.socket(fileno=self._socket.detach()), memory)

    def _failed(self, error: Exception) -> Exception:
        if self._socket.fileno() < 0:
            return FailedPreconditionError(f"the stream to {self.address} is closed")
        text = error.strerror if isinstance(error, OSError) else str(error)
        return ConnectionLostError(f"the link to {self.address} broke: {text}")


def _is_within_machine(connected: socket.socket) -> bool:
    """Return whether both ends are on this machine, as far as their addresses tell."""
    try:
        near, far = connected.getsockname()[0], connected.getpeername()[0]
    except OSError:  # the other end is gone already
        return False
    return bool(near == far or far.startswith("127."))


class TcpListener:
    """Sockets that listen at one address, on every interface that its name stands for."""

    def __init__(self, listeners: list[trio.SocketListener], address: str) -> None:
        self._listeners = listeners
        self.address = address
        #: Connections and errors that came at several sockets at once: taken one by one.
        self._arrived: deque[trio.SocketStream | OSError | trio.ClosedResourceError] = deque()

    async def accept_stream(self) -> trio.SocketStream:
        """Return the next socket, as trio wraps it. If cancelled, it has taken none."""
        if not self._listeners:
            raise FailedPreconditionError(f"{self.address} is closed")
        try:
            if len(self._listeners) == 1:
                return await self._listeners[0].accept()
            return await self._accept_any()
        except trio.ClosedResourceError:
            raise FailedPreconditionError(f"{self.address} is closed") from None
        except OSError as error:
            if error.errno in _FATAL:
                raise FailedPreconditionError(f"{self.address} broke: {error.strerror}") from None
            raise UnavailableError(f"{self.address} cannot accept: {error.strerror}") from None

    async def accept(self) -> TcpStream:
        return unwrap(await self.accept_stream(), "tcp")

    async def _accept_any(self) -> trio.SocketStream:
        # One task for each socket; the first that has a connection ends the others. Some of these may have
        # accepted by then, too: trio's accept is cancelled before it has taken a connection, or not at all.
        while not self._arrived:
            async with trio.open_nursery() as nursery:
                for each in self._listeners:
                    nursery.start_soon(self._accept_at, each, nursery.cancel_scope)
        first = self._arrived.popleft()
        if isinstance(first, Exception):
            raise first
        return first

    async def _accept_at(self, listener: trio.SocketListener, scope: trio.CancelScope) -> None:
        try:
            self._arrived.append(await listener.accept())
        except (OSError, trio.ClosedResourceError) as error:
            self._arrived.append(error)
        scope.cancel()

    def close(self) -> None:
        listeners, self._listeners = self._listeners, []
        for each in listeners:
            each.socket.close()
        for arrived in self._arrived:
            if isinstance(arrived, trio.SocketStream):
                arrived.socket.close()


def unwrap(stream: trio.SocketStream, scheme: str) -> TcpStream:
    """Return the socket below a trio stream, which must not be used afterwards."""
    try:
        name = stream.socket.getpeername()
        address = f"{scheme}://{_join(name[0], name[1])}"
    except OSError:
        address = f"{scheme}://(gone)"
    return TcpStream(socket.socket(fileno=stream.socket.detach()), address)


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def open_socket(address: str) -> trio.SocketStream:
    """Return a connected socket. Raises UnavailableError if no server answers there."""
    host, port = host_and_port(address)
    try:
        return await trio.open_tcp_stream(host, port)
    except OSError as error:
        reason = error.__cause__ if error.__cause__ is not None else error
        if isinstance(reason, ExceptionGroup):
            reason = reason.exceptions[0]
        raise UnavailableError(f"no server answers at {address}: {reason}") from None


async def open_listener(address: str, scheme: str) -> TcpListener:
    """Return listening sockets. Raises UnavailableError if the port is taken or the name unknown."""
    host, port = host_and_port(address)
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        raise UnavailableError(f"cannot listen at {address}: {error.strerror or error}") from None
    bound = listeners[0].socket.getsockname()[1]
    return TcpListener(listeners, f"{scheme}://{_join(host, bound)}")


async def connect(address: str, security: Any = None) -> TcpStream:
    stream = await open_socket(address)
    connected = unwrap(stream, "tcp")
    connected.address = address
    return connected


async def listen(address: str, security: Any = None) -> TcpListener:
    return await open_listener(address, "tcp")


register_scheme("tcp", Scheme(connect, listen))
