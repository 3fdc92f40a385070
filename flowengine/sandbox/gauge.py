"""What the kernel tells of another process: its memory and its time, whatever it says itself."""

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
#: What libraries and threads map without using it.
_SPARE_ADDRESSES: Final = 1 << 30


class Gauge:
    """Looks at one process, and fences its address space in."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._at_rest = 0
        #: What is charged to it of memory that it shares with its host.
        self.shared_bytes: Callable[[], int] = int

    def settle(self, memory_bytes: int) -> None:
        """Take what the process has now as its own; bound its addresses by twice these bytes and 1 GiB."""
        self._at_rest = self._own_bytes
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
        try:
            text = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
        except OSError:
            return 0
        resident, shared = (_in_kibibytes(text, name) for name in ("VmRSS", "RssShmem"))
        return resident - shared

    def _statm(self, column: int) -> int:
        try:
            columns = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()
            return int(columns[column]) * _PAGE_BYTES
        except (OSError, IndexError):
            return 0

    @property
    def cpu_seconds(self) -> float:
        """What all its threads have taken of the processors."""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return 0.0
        # What stands behind the name, which may hold anything.
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / _TICKS


def _in_kibibytes(text: str, name: str) -> int:
    """A size of /proc/PID/status in bytes; 0 where it is not there."""
    # Behind the name of the process, which may hold anything but the end of a line.
    _, found, rest = text.partition(f"\n{name}:")
    return int(rest.split(maxsplit=1)[0]) << 10 if found else 0


def died_of(code: int | None) -> str:
    """How a process ended: "by SIGKILL", "by itself, with exit code 3"."""
    if code is not None and code < 0:
        known = -code in set(signal.Signals)
        return f"by {signal.Signals(-code).name if known else f'signal {-code}'}"
    return f"by itself, with exit code {code}"


__all__ = ["Gauge", "died_of"]
