"""Event files: what a graph reports, record by record, for people to look at while it runs.

Events wait in memory until there are many, or the oldest has waited long; then they are written on a thread.
"""

from __future__ import annotations

import os
import platform
import struct
import time
from io import BufferedWriter
from typing import BinaryIO, Final

import trio

from flowengine.core.checksums.crc32c import crc32c, mask
from flowengine.core.errors import NotFoundError
from flowengine.core.files.access import SYSTEM, Files

#: What the first event of a file says of all that follow.
FILE_VERSION: Final = b"brain.Event:2"


def framed(record: bytes) -> bytes:
    """A record as it lies in a TFRecord file: length, its checksum, the record, its checksum."""
    length = struct.pack("<Q", len(record))
    return b"".join((length, _checksum(length), record, _checksum(record)))


def _checksum(data: bytes) -> bytes:
    return struct.pack("<I", mask(crc32c(data)))


def first_event(now: float) -> bytes:
    """The event with which a file begins: its time, and the version of the format."""
    return b"\x09" + struct.pack("<d", now) + b"\x1a" + bytes([len(FILE_VERSION)]) + FILE_VERSION


def event_path(folder: str, now: float, suffix: str) -> str:
    """`folder/events.out.tfevents.<seconds>.<host><suffix>`"""
    return os.path.join(folder, f"events.out.tfevents.{int(now):010d}.{platform.node()}{suffix}")


class EventFile:
    """A file to which events are added.

    most      events that may wait; one more, and all are written
    seconds   how long an event may wait for the next
    """

    __slots__ = ("_file", "_last", "_lock", "_most", "_seconds", "_waiting", "path")

    def __init__(self, path: str, file: BinaryIO, *, most: int, seconds: float) -> None:
        self.path = path
        self._file = file
        self._most, self._seconds = most, seconds
        self._last = trio.current_time()
        self._waiting: list[bytes] = []
        self._lock = trio.Lock()

    def add(self, event: bytes) -> bool:
        """Have a serialised event written some time; whether it is time to write."""
        self._waiting.append(framed(event))
        return len(self._waiting) > self._most or trio.current_time() - self._last > self._seconds

    async def write(self) -> None:
        """Have all that waits written, also where cancelled; OSError where that fails, and it waits on."""
        async with self._lock:
            some = self._waiting
            self._waiting = []
            try:
                await trio.to_thread.run_sync(self._write, b"".join(some))
            except OSError:
                self._waiting = some + self._waiting
                raise
            self._last = trio.current_time()

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._file.flush()

    def close(self) -> None:
        """Write what waits, and close the file; at once, as nobody may come back to it."""
        try:
            self._write(b"".join(self._waiting))
        finally:
            self._waiting = []
            self._file.close()


def _begun(folder: str, suffix: str, files: Files) -> tuple[str, BinaryIO]:
    now = time.time()
    files.make_folders(folder)
    path = event_path(folder, now, suffix)
    file = BufferedWriter(files.append(path))
    file.write(framed(first_event(now)))
    file.flush()
    return path, file


class SummaryWriter:
    """The event file that a writer's handle refers to, from its creation until it is closed."""

    __slots__ = ("__weakref__", "_file", "_lock", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._file: EventFile | None = None
        self._lock = trio.Lock()

    @property
    def exists(self) -> bool:
        """Whether a file is open."""
        return self._file is not None

    @property
    def file(self) -> EventFile:
        """The file; NotFoundError where the writer was not created, or was closed."""
        if self._file is None:
            raise NotFoundError(
                f"Resource localhost/{self.name}/SummaryWriter does not exist: run CreateSummaryFileWriter "
                "before you write, and write nothing after CloseSummaryWriter"
            )
        return self._file

    async def open(
        self, folder: str, files: Files = SYSTEM, *, suffix: str, most: int, seconds: float
    ) -> None:
        """Begin a file in a folder, which is made, where none is open. OSError as it comes."""
        async with self._lock:
            if self._file is None:
                path, file = await trio.to_thread.run_sync(_begun, folder, suffix, files)
                self._file = EventFile(path, file, most=most, seconds=seconds)

    async def close(self) -> None:
        """Write what waits and close the file; NotFoundError where none is open, OSError as it comes."""
        async with self._lock:
            await self.file.write()
            file, self._file = self.file, None
            file.close()

    def destroy(self) -> None:
        """Close, if that was not done: whoever held the writer has ended."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
