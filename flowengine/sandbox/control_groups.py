"""A control group of its own for a process in a box, where one may be made: the kernel keeps its bound.

Version 2 alone, and only where somebody has delegated the memory controller: to the group that this process
is in, or to the one above it. Anywhere else there is none, and the host's own looks are what there is.

See cgroups(7) and the kernel's admin-guide/cgroup-v2.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from flowengine.sandbox.process_usage import THREADS_MAX

_ROOTS: Final = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
_OWN: Final = Path("/proc/self/cgroup")


class MemoryGroup:
    """The group of one process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """A new group with this process in it; None where none can be made."""
        for parent in _delegated():
            path = parent / f"flowengine-sandbox-{pid}"
            try:
                path.mkdir()
            except OSError:
                continue
            group = cls(path)
            try:
                group._write("cgroup.procs", pid)
            except OSError:
                group.remove()
                continue
            return group
        return None

    def bound(self, size: int) -> None:
        """Let it take so many bytes more than now. Without effect where the kernel refuses."""
        with suppress(OSError, ValueError):
            current = int((self._path / "memory.current").read_text())
            self._write("memory.max", current + size)
        for name, value in (("memory.swap.max", 0), ("pids.max", THREADS_MAX)):
            with suppress(OSError):
                self._write(name, value)

    @property
    def was_full(self) -> bool:
        """Whether the kernel has ended something here for its memory."""
        with suppress(OSError):
            events = dict(line.split() for line in (self._path / "memory.events").read_text().splitlines())
            return int(events.get("oom_kill", 0)) > 0
        return False

    def remove(self) -> None:
        """The process is gone."""
        with suppress(OSError):
            self._path.rmdir()

    def _write(self, name: str, value: int) -> None:
        # A file that is not there is one that the kernel does not know: none is made.
        descriptor = os.open(self._path / name, os.O_WRONLY)
        try:
            os.write(descriptor, str(value).encode())
        finally:
            os.close(descriptor)


def _delegated() -> list[Path]:
    """Groups below which one with a bound on memory can be made, as far as can be told."""
    found = []
    with suppress(OSError, StopIteration):
        lines = _OWN.read_text().splitlines()
        own = next(line[3:] for line in lines if line.startswith("0::"))
        for root in _ROOTS:
            here = root / own.lstrip("/")
            for each in dict.fromkeys((here, here.parent if here != root else root)):
                with suppress(OSError):
                    controllers = (each / "cgroup.subtree_control").read_text().split()
                    if "memory" in controllers and os.access(each, os.W_OK):
                        found.append(each)
    return found


__all__ = ["MemoryGroup"]
