"""A log of a simulation: (time, who, what), in an order that the seed alone decides.

Two runs of one seed give the same text, byte for byte, in whatever process. Nothing that differs between
processes may therefore be said in it: no addresses of objects, no folders, no times of the machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import trio


class LogEntry(NamedTuple):
    """One event: simulated seconds since the start, the task or link that it happened to, what it was."""

    seconds: float
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.seconds:.9f} {self.who} {self.what}"


class EventLog:
    """The events of one simulation.

    disk   the folder of its files, which has another name each time and is called "disk" in the text
    """

    def __init__(self, disk: Path | None = None) -> None:
        self._entries: list[LogEntry] = []
        self._disk = disk

    def add(self, who: str, what: str) -> None:
        """Note that something happened now. Only within the simulation's trio run."""
        self._entries.append(LogEntry(trio.current_time(), who, what))

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[LogEntry]:
        return iter(self._entries)

    def of(self, who: str) -> list[LogEntry]:
        """The events of one task or link."""
        return [entry for entry in self._entries if entry.who == who]

    def text(self) -> str:
        """One line an event."""
        text = "".join(f"{entry}\n" for entry in self._entries)
        return text if self._disk is None else text.replace(str(self._disk), "disk")

    def digest(self) -> str:
        """SHA-256 of the text, as hexadecimal digits."""
        return hashlib.sha256(self.text().encode()).hexdigest()


__all__ = ["EventLog", "LogEntry"]
