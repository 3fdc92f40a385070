"""Event files: what a graph reports, record by record, for people to look at while it runs.

Events wait in memory until there are many, or the oldest has waited long; then they are written on a thread.
"""

from __future__ import annotations

import os
import platform
import re
import struct
import threading
import time
from collections.abc import Callable
from io import FileIO
from typing import Final

import trio

from flowengine.core.checksums.crc32c import crc32c, mask
from flowengine.core.errors import NotFoundError
from flowengine.core.files.access import SYSTEM, Files
from flowengine.ir.wire import bytes_field, field

#: What the first event of a file says of all that follow.
FILE_VERSION: Final = b"brain.Event:2"
#: The status of a SessionLog with which a session starts.
_START: Final = 1
#: An event file, and the second in which it was begun.
_NAME: Final = re.compile(r"events\.out\.tfevents\.(\d+)\.")


def framed(record: bytes) -> bytes:
    """A record as it lies in a TFRecord file: length, its checksum, the record, its checksum."""
    length = struct.pack("<Q", len(record))
    return b"".join((length, _checksum(length), record, _checksum(record)))


def _checksum(data: bytes) -> bytes:
    return struct.pack("<I", mask(crc32c(data)))


def first_event(now: float) -> bytes:
    """The event with which a file begins: its time, and the version of the format."""
    return b"\x09" + struct.pack("<d", now) + b"\x1a" + bytes([len(FILE_VERSION)]) + FILE_VERSION


def restart_event(now: float, step: int) -> bytes:
    """The event that tells readers to forget what the folder has of this step and of later ones."""
    session_log = bytes_field(7, field(1, _START))
    return b"\x09" + struct.pack("<d", now) + field(2, step) + session_log


def event_path(folder: str, now: float, suffix: str) -> str:
    """`folder/events.out.tfevents.<seconds>.<host><suffix>`"""
    return os.path.join(folder, f"events.out.tfevents.{int(now):010d}.{platform.node()}{suffix}")


class EventFile:
    """A file to which events are added. Events may be added, and written, from any thread.

    most      events that may wait; one more, and all are written
    seconds   how long an event may wait for the next
    clock     seconds
    """

    __slots__ = (
        *("_clock", "_file", "_last", "_lock", "_most", "_newest", "_seconds", "_size", "_waiting"),
        "path",
    )

    def __init__(
        self,
        path: str,
        file: FileIO,
        *,
        most: int,
        seconds: float,
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        self.path = path
        self._file = file
        self._most, self._seconds = most, seconds
        self._clock = clock
        #: When all was written that had been added, and when the newest event was added.
        self._last = self._newest = clock()
        self._waiting: list[bytes] = []
        self._lock = threading.Lock()
        #: How long the file is with all events that were written whole.
        self._size = os.fstat(file.fileno()).st_size

    def add(self, event: bytes) -> bool:
        """Have a serialised event written some time; whether it is time to write."""
        self._newest = self._clock()
        self._waiting.append(framed(event))
        return len(self._waiting) > self._most or self._newest - self._last > self._seconds

    async def write(self) -> None:
        """Have all that waits written on a thread; OSError where that fails, and it waits on.

        Cancelled, it has written all or nothing.
        """
        await trio.to_thread.run_sync(self.write_now)

    def write_now(self) -> None:
        """Write all that waits.

        OSError where that fails: then the file has whole events only, and all of it waits on.
        """
        with self._lock:
            # The clock may be one that this thread cannot read.
            newest = self._newest
            # Others add meanwhile, at the end.
            count = len(self._waiting)
            data = b"".join(self._waiting[:count])
            try:
                _write_whole(self._file, data)
            except OSError:
                # Half an event would hide from readers all that are written after it.
                self._file.truncate(self._size)
                raise
            self._size += len(data)
            self._last = newest
            del self._waiting[:count]

    def close(self) -> None:
        """Write what waits, and close the file; at once, as nobody may come back to it."""
        try:
            self.write_now()
        finally:
            self._waiting = []
            self._file.close()


def _write_whole(file: FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def begin_file(
    folder: str, suffix: str, files: Files = SYSTEM, *, first_step: int | None = None
) -> tuple[str, FileIO]:
    """Begin an event file in a folder, which is made; its path, and the file. OSError as it comes.

    first_step   of steps that are made again: the file tells readers to forget what the folder has of it and
                 of later ones. The file then is a new one whose name is behind all others, as readers take
                 the files of a folder by name
    """
    now = time.time()
    files.make_folders(folder)
    opening = framed(first_event(now))
    if first_step is None:
        path = event_path(folder, now, suffix)
    else:
        begun = [int(found[1]) for name in files.names(folder) if (found := _NAME.match(name))]
        path = event_path(folder, max(now, 1 + max(begun, default=0)), suffix)
        # One of TensorBoard's two readers takes the first START of a run for its beginning, and forgets at
        # the second one; the other forgets at each.
        opening += 2 * framed(restart_event(now, first_step))
    file = files.append(path)
    try:
        _write_whole(file, opening)
    except OSError:
        file.close()
        raise
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
                path, file = await trio.to_thread.run_sync(begin_file, folder, suffix, files)
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
