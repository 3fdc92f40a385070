"""Closed sockets, kept with memory that their other end may still read.

The other side reads a tensor that was lent to a socket (see `pages`) from the sender's own memory, in its own
time. If the connection ends before the other side has reported the read, closing the socket is not enough:
bytes in the receiver's queue stay readable, and would show whatever the memory holds by then. So the memory
is kept until the other side has closed its end, too, which also happens when its process ends. A process that
is stopped keeps it for as long as it is stopped.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import trio

#: The number of received bytes that are discarded at a time.
_IGNORED_BYTES: Final = 64 * 1024


class _HeldSocket:
    """A socket with the memory that its other end may read."""

    __slots__ = ("_memory", "_socket")

    def __init__(self, connected: socket.socket, memory: Sequence[memoryview]) -> None:
        self._socket = connected
        self._memory: Sequence[memoryview] = memory

    def is_released(self) -> bool:
        """Return whether the other end is gone; then the memory is released."""
        if self._socket.fileno() < 0:
            return True
        try:
            while self._socket.recv(_IGNORED_BYTES):
                pass
        except BlockingIOError:
            return False
        except OSError:
            pass  # reset: the connection has ended
        self._socket.close()
        self._memory = ()
        return True

    async def wait_released(self) -> None:
        """Keep it until the other end is gone.

        If the run ends before, the next opened stream checks again.
        """
        try:
            while not self.is_released():
                await trio.lowlevel.wait_readable(self._socket)
        finally:
            if not self.is_released():
                _left.append(self)


#: Sockets that are kept while no task waits for them.
_left: Final[list[_HeldSocket]] = []


def keep_until_gone(connected: socket.socket, memory: Sequence[memoryview]) -> None:
    """End a socket on this side, close it when the other end is gone, and keep `memory` until then."""
    connected.setblocking(False)
    with suppress(OSError):  # it is gone already
        connected.shutdown(socket.SHUT_WR)
    kept = _HeldSocket(connected, memory)
    if kept.is_released():
        return
    try:
        trio.lowlevel.spawn_system_task(kept.wait_released)
    except RuntimeError:  # the run is about to end
        _left.append(kept)


def release_gone() -> None:
    """Release the memory that is kept for other ends which are gone."""
    if _left:
        _left[:] = [kept for kept in _left if not kept.is_released()]


__all__ = ["keep_until_gone", "release_gone"]
