"""Sends memory through a socket without a copy: Linux lends the pages to a pipe, and the pipe to the socket.

The receiver reads the bytes from the very pages, so the pages must not change before it has read them. The
system reports no reads; `lent` keeps account of them.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

logger = logging.getLogger("flowengine.transport")

#: An environment variable: 0 means that everything is copied.
SWITCH: Final = "FLOWENGINE_LEND_MEMORY"
#: The file in which the system states its setting for huge pages: "always [madvise] never". To lend small
#: pages takes longer than to copy them, twice as long on some machines.
_HUGE_PAGES: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")

#: The wanted size of a pipe, in bytes; the system may grant less. It counts pages, also partly used ones.
_PIPE_BYTES: Final = 1024 * 1024
#: With less, the calls take longer than the copy.
_PIPE_BYTES_MIN: Final = 256 * 1024


class _MemoryRange(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("address", ctypes.c_void_p), ("size", ctypes.c_size_t))


class PagePipe:
    """A pipe between memory and sockets, empty between two calls."""

    def __init__(self) -> None:
        """Create the pipe. Raises OSError if the system has no such pipes, or only small ones."""
        if not hasattr(os, "splice"):
            raise OSError("this system, or this Python, has no splice")
        import fcntl  # missing where splice is

        self._vmsplice = _vmsplice()
        self._out, self._in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._nowhere = -1
        try:
            self._nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            self.capacity = fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            if self.capacity < _PIPE_BYTES_MIN:
                raise OSError(f"a pipe of {self.capacity} bytes is too small")
        except OSError:
            self.close()
            raise
        self._region = _MemoryRange()

    def send(self, descriptor: int, view: memoryview) -> int:
        """Let a non-blocking socket take as much of this memory as it does at once; return the byte count.

        `view` is contiguous. Raises OSError as sending does, except BlockingIOError, which means 0.
        """
        address = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
        size, sent = len(view), 0
        while sent < size:
            # One page less: the first and the last may be taken in part.
            self._region.address = address + sent
            self._region.size = min(size - sent, self.capacity - mmap.PAGESIZE)
            inside = self._vmsplice(self._in, ctypes.byref(self._region), 1, os.SPLICE_F_NONBLOCK)
            if inside < 0:  # memory that no pipe takes, such as a device's
                return sent + _copy(descriptor, view[sent:])
            more = os.SPLICE_F_MORE if sent + inside < size else 0
            try:
                while inside:
                    count = os.splice(self._out, descriptor, inside, flags=os.SPLICE_F_NONBLOCK | more)
                    inside -= count
                    sent += count
            except BlockingIOError:
                return sent
            finally:
                while inside:
                    inside -= os.splice(self._out, self._nowhere, inside)
        return sent

    def close(self) -> None:
        """Give the descriptors back."""
        for descriptor in (self._out, self._in, self._nowhere):
            if descriptor >= 0:
                os.close(descriptor)


def _copy(descriptor: int, view: memoryview) -> int:
    try:
        return os.write(descriptor, view)
    except BlockingIOError:
        return 0


@cache
def _vmsplice() -> Any:
    """Return the system call, which `os` does not have. Raises OSError if the C library lacks it."""
    try:
        function = ctypes.CDLL(None).vmsplice
    except AttributeError as error:
        raise OSError(str(error)) from None
    function.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint)
    function.restype = ctypes.c_ssize_t
    return function


#: Pipes that are not in use: as many as threads have sent at once.
_free: Final[list[PagePipe]] = []


def send_pages(descriptor: int, view: memoryview) -> int:
    """Send as `PagePipe.send` does, through a pipe of this process; without a pipe, by copying."""
    try:
        pipe = _free.pop()
    except IndexError:
        try:
            pipe = PagePipe()
        except OSError:  # no descriptors left
            return _copy(descriptor, view)
    try:
        return pipe.send(descriptor, view)
    finally:
        _free.append(pipe)


@cache
def can_send_pages() -> bool:
    """Return whether memory is lent to sockets: no without system support, huge pages, or with SWITCH=0."""
    try:
        if os.environ.get(SWITCH) == "0":
            raise OSError(f"{SWITCH} is 0")
        if "[never]" in _HUGE_PAGES.read_text(encoding="ascii"):
            raise OSError("there are no huge pages")
        pipe = PagePipe()
    except OSError as error:
        logger.debug("tensors are copied into sockets: %s", error)
        return False
    _free.append(pipe)
    return True


# A pipe that parent and child shared would mix their bytes.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free.clear)

__all__ = ["SWITCH", "PagePipe", "can_send_pages", "send_pages"]
