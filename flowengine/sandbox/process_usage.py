"""The operating system's figures of another process: its memory and its time, whatever it reports."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_PAGE_BYTES: Final = resource.getpagesize()
_TICKS: Final = os.sysconf("SC_CLK_TCK")
#: More than any of the files that are looked at.
_TEXT_BYTES: Final = 1 << 14
#: Threads that a process may have: libraries start one for each processor, the engine some tens.
THREADS_MAX: Final = 512
#: What libraries and threads map without using it.
_SPARE_ADDRESSES: Final = 1 << 30
#: What a step may map so beside memory that it is about to write: stacks of threads, buffers of libraries.
_NEVER_WRITTEN: Final = 32 << 20


class ProcessUsage:
    """Looks at one process, and fences its address space in. `close` it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        # They stay open, since it is looked at so often that opening them would be most of the work.
        self._status, self._stat = (_opened(f"/proc/{pid}/{each}") for each in ("status", "stat"))
        #: How many threads there are of all users: behind a stroke in the fourth place.
        self._load = _opened("/proc/loadavg")
        self._at_rest = 0
        #: Memory of its own that it has asked for; and of that, what it has not written, now and at rest.
        self._asked = 0
        self._unwritten = 0
        self._unwritten_at_rest = 0
        self._widest = 0
        #: Threads that it had when it was last looked at.
        self.threads = 0
        #: Whether it may ask for less than it once could.
        self.is_tight = False
        #: What is charged to it of memory that it shares with its host.
        self.shared_bytes: Callable[[], int] = int

    def settle(self, memory_bytes: int) -> None:
        """Take what the process has now as its own; bound its addresses by twice these bytes and 1 GiB."""
        self._at_rest = self._own_bytes
        self._unwritten_at_rest = self._unwritten
        most = self._statm(0) + 2 * memory_bytes + _SPARE_ADDRESSES
        with suppress(ProcessLookupError, PermissionError):
            resource.prlimit(self.pid, resource.RLIMIT_AS, (most, most))

    @property
    def taken_bytes(self) -> int:
        """Resident memory beyond what it was when it settled; 0 or less where the process is gone.

        Of shared memory, the kernel counts only what a process maps at the moment: that is asked elsewhere.
        """
        return self._own_bytes - self._at_rest + self.shared_bytes()

    @property
    def _own_bytes(self) -> int:
        text = _text(self._status)
        resident, shared, own, asked = (
            _number(text, name) << 10 for name in ("VmRSS", "RssShmem", "RssAnon", "VmData")
        )
        self._asked, self._unwritten = asked, asked - own
        self.threads = _number(text, "Threads")
        return resident - shared

    def rest(self) -> None:
        """It does nothing at the moment: what it has not written now is never written, as much of stacks."""
        resident = self._own_bytes
        if resident:
            self._unwritten_at_rest = self._unwritten

    def allow(self, room: int, least: int = 0) -> None:
        """Let it ask for so many bytes more than when it was last looked at; more are refused to it.

        What is refused ends a kernel that needs memory for itself, of which no account knows, and not the
        process. What it has asked for and not written since it rested counts, but for stacks and the like.
        `least` can be had however that is: texts, code, errors, the stack of a thread. Threads are bounded
        alike, by `THREADS_MAX`: no process of an ordinary user starts more.
        """
        pending = max(0, self._unwritten - self._unwritten_at_rest - _NEVER_WRITTEN)
        most = self._asked + max(least, room - pending)
        self.is_tight = most < self._widest - _NEVER_WRITTEN
        self._widest = max(self._widest, most)
        self._bound(resource.RLIMIT_DATA, most)
        # The kernel counts the threads of all processes that the user has, and those may start more.
        running = _text(self._load).split()
        if running:
            others = int(running[3].partition("/")[2]) - self.threads
            self._bound(resource.RLIMIT_NPROC, others + THREADS_MAX)

    def _bound(self, kind: int, most: int) -> None:
        """Set a limit that this side may raise again, and the process may not: it sets none."""
        if self._status < 0:
            return
        with suppress(ProcessLookupError, PermissionError):
            hard = resource.prlimit(self.pid, kind)[1]
            if hard != resource.RLIM_INFINITY:
                most = min(most, hard)
            resource.prlimit(self.pid, kind, (most, hard))

    def _statm(self, column: int) -> int:
        try:
            columns = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()
            return int(columns[column]) * _PAGE_BYTES
        except (OSError, IndexError):
            return 0

    def close(self) -> None:
        """Look no more: it is as if the process were gone."""
        for each in (self._status, self._stat, self._load):
            if each >= 0:
                os.close(each)
        self._status = self._stat = self._load = -1

    @property
    def cpu_seconds(self) -> float:
        """The seconds of processor time that all its threads have used."""
        text = _text(self._stat)
        if not text:
            return 0.0
        # What stands behind the name, which may hold anything.
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / _TICKS


def _number(text: str, name: str) -> int:
    """A number of /proc/PID/status, a size in KiB; 0 where it is not there."""
    # Behind the name of the process, which may hold anything but the end of a line.
    _, found, rest = text.partition(f"\n{name}:")
    return int(rest.split(maxsplit=1)[0]) if found else 0


def _opened(path: str) -> int:
    """A descriptor to read a file by again and again; -1 where there is none."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _text(descriptor: int) -> str:
    """Return the text of a file now; empty if the file is gone, as with its process."""
    try:
        return os.pread(descriptor, _TEXT_BYTES, 0).decode("ascii", "replace")
    except OSError:
        return ""


def died_of(code: int | None) -> str:
    """How a process ended: "by SIGKILL", "by itself, with exit code 3"."""
    if code is not None and code < 0:
        known = -code in set(signal.Signals)
        return f"by {signal.Signals(-code).name if known else f'signal {-code}'}"
    return f"by itself, with exit code {code}"


__all__ = ["THREADS_MAX", "ProcessUsage", "died_of"]
