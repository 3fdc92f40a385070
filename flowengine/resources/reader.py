"""Readers: records out of files whose names come from a queue.

A reader takes a name when it has none, gives the file's records one by one, and takes the next. Records
are read on threads, a block at a time, the next while one is given out, so that most reads wait for
nothing; a failure shows when the records before it are out, and stays until `reset`. Whoever asks for more
records than there are is told of it first, and gets what there is with the next read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, suppress
from itertools import islice
from threading import Lock
from typing import Any, BinaryIO, Final

import trio

from flowengine.core.arrays import WOULD_WAIT, to_array
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.ir.wire import BYTES, VARINT, bytes_field, field, fields, signed
from flowengine.resources.queue import Queue
from flowengine.resources.records import Block, Format

#: Read at a time: each time costs two switches between threads, which take long on a busy machine.
BLOCKS: Final = 4

#: The field of a state that holds the name of the file that is being read; those before it are counts.
_CURRENT: Final = 4

#: Opens a file for reading, or raises one of our errors. Called on a thread.
Opener = Callable[[bytes], BinaryIO]

#: The blocks of one file, which is open while they last and closed when they are.
Blocks = Generator[Block, None, None]


class FileReading:
    """Blocks of a file on their way, read on a thread; with `beside=False`, here and at once.

    records   what was read
    ended     whether that was all
    error     what came then
    """

    __slots__ = (
        "_blocks",
        "_count",
        "_done",
        "_is_dropped",
        "_is_over",
        "_lock",
        "ended",
        "error",
        "records",
    )

    def __init__(self, blocks: Generator[Any, None, None], *, beside: bool = True) -> None:
        self.records: Any = []
        self.ended = False
        self.error: Exception | None = None
        self._blocks = blocks
        self._count = BLOCKS
        self._done = trio.Event()
        self._lock = Lock()
        self._is_over = False
        self._is_dropped = False
        if not beside:
            self._read()
            self._done.set()
            return
        token = trio.lowlevel.current_trio_token()

        def deliver(_: object) -> None:
            with suppress(trio.RunFinishedError):  # then nobody waits any more
                token.run_sync_soon(self._done.set)

        trio.lowlevel.start_thread_soon(self._read, deliver, "flowengine reader")

    def _read(self) -> None:
        try:
            for block in islice(self._blocks, self._count):
                self.records = self.records + block if self.records else block
                self._count -= 1
            self.ended = self._count > 0
        except Exception as error:
            self.error = error
        with self._lock:
            self._is_over = True
            is_dropped = self._is_dropped
        if is_dropped:
            self._blocks.close()

    def drop(self) -> None:
        """Nobody wants more of the file: it is closed, by the thread where that is at it."""
        with self._lock:
            self._is_dropped = True
            is_over = self._is_over
        if is_over:
            self._blocks.close()

    async def wait(self) -> None:
        """Until it is there. Cancelled, it goes on, and can be waited for again."""
        await self._done.wait()


class Reader:
    """One reader. `format` reads a file's records; without it each name is a record itself.

    has_state   whether its state can be saved: it lies between files then
    """

    __slots__ = (
        "_blocks",
        "_current",
        "_ended",
        "_error",
        "_given",
        "_has_reported",
        "_lock",
        "_reading",
        "_ready",
        "container",
        "finished",
        "format",
        "has_state",
        "kind",
        "name",
        "produced",
        "started",
    )

    def __init__(self, kind: str, name: str, container: str, form: Format | None, has_state: bool) -> None:
        self.kind = kind
        self.name = name
        self.container = container
        self.format = form
        self.has_state = has_state
        self._lock = trio.Lock()
        self._blocks: Blocks | None = None
        self._reading: FileReading | None = None
        self._begin()

    def _begin(self) -> None:
        self.started = 0
        self.finished = 0
        self.produced = 0
        self._current = b""
        self._drop()

    def _drop(self) -> None:
        """Forget the file that is being read, and have it closed.

        Whoever waits for it, cancelled or not, may be held by a traceback for long, and with it the file.
        """
        if self._reading is not None:
            self._reading.drop()
        #: The block that is being given out, and how much of it has been.
        self._ready: Block = []
        self._given = 0
        self._ended = False
        self._error: Exception | None = None
        #: Somebody has heard of the error while there were records before it.
        self._has_reported = False
        self._blocks = None
        self._reading = None

    def read_nowait(self, count: int | None = None) -> Any:
        """One record, or a list of `count`; `WOULD_WAIT` where they are not there yet."""
        if self._lock.locked() or self._left() < (count or 1):
            return WOULD_WAIT
        return self._take(count)

    def _left(self) -> int:
        return len(self._ready) - self._given

    def _take(self, count: int | None) -> Any:
        """One record, or a list of up to `count`, of those that are ready."""
        first = self._given
        wanted = 1 if count is None else min(count, self._left())
        self._given = first + wanted
        self.produced += wanted
        if count is None:
            taken: Any = self._ready[first]
        elif wanted == len(self._ready):
            taken = self._ready
        else:
            taken = self._ready[first : first + wanted]
        if self._given == len(self._ready):
            self._ready, self._given = [], 0
        if self._ended and not self._ready and (self.has_state or wanted < (count or 1)):
            self._finish()  # files of one record are finished with it, others when more is asked for
        return taken

    def _finish(self) -> None:
        self.finished += 1
        self._ended = False
        self._blocks = None

    async def read(self, queue: Queue, opener: Opener, count: int | None = None) -> Any:
        """The next (key, record), or a list of 1 to `count` of them from one file.

        Raises OutOfRangeError where the queue is closed and empty, what opening the file raises, and
        DataLossError for one that is damaged: before a batch that is short for it, which the next read gives.
        """
        async with self._lock:
            while self._left() < (count or 1):
                if self._error is not None and not (self._ready and self._has_reported):
                    self._has_reported = True
                    raise self._error
                if self._ready and (self._ended or self._error is not None):
                    break
                if self._ended:
                    self._finish()
                if self.started == self.finished:
                    self._current = await self._next_name(queue)
                    self.started += 1
                    self._blocks = self._open(self._current, opener)
                await self._next_block()
            return self._take(count)

    async def _next_name(self, queue: Queue) -> bytes:
        element = await queue.dequeue()
        name = to_array(element[0])
        if len(element) != 1 or name.size != 1 or not isinstance(name.item(), bytes):
            raise InvalidArgumentError(
                f"Expected single string elements in queue '{queue.name}' of reader '{self.name}'"
            )
        text: bytes = name.item()
        return text

    def _open(self, name: bytes, opener: Opener) -> Blocks:
        if self.format is None:
            yield [(name, name)]
            return
        with closing(opener(name)) as file:
            yield from self.format(file, name)

    async def _next_block(self) -> None:
        """The next block of the current file; at its end the file is done with."""
        if self._blocks is None:  # its state was restored while it had a file: as if its records were out
            self._finish()
            return
        reading = self._reading
        if reading is None:
            self._reading = reading = FileReading(self._blocks, beside=self.format is not None)
        await reading.wait()
        if reading is not self._reading:
            return  # it was reset meanwhile
        self._reading = None
        if reading.records:
            self._ready = self._ready[self._given :] + reading.records if self._ready else reading.records
            self._given = 0
        if reading.error is not None:
            self._error = reading.error
        elif reading.ended:
            self._ended = True
        else:
            self._reading = FileReading(self._blocks)

    def reset(self) -> None:
        """As new: counts at zero, no file begun."""
        self._begin()

    def destroy(self) -> None:
        self._drop()

    def serialize(self) -> bytes:
        """The counts and the current name; UnimplementedError for kinds that read files piece by piece."""
        if not self.has_state:
            raise UnimplementedError(f"Reader SerializeState is not supported by {self.kind}")
        counts = (self.started, self.finished, self.produced)
        out = b"".join(field(number, value) for number, value in enumerate(counts, 1) if value)
        return out + (bytes_field(_CURRENT, self._current) if self._current else b"")

    def restore(self, state: bytes) -> None:
        """Restore the state that `serialize` returned; InvalidArgumentError for anything else."""
        if not self.has_state:
            raise UnimplementedError(f"Reader RestoreState is not supported by {self.kind}")
        started, finished, produced, current = _parsed_state(state, self.name)
        if not 0 <= finished <= started <= finished + 1 or produced < 0:
            raise InvalidArgumentError(
                f"Invalid reader state for {self.name}: {started} files begun, {finished} finished, "
                f"{produced} records"
            )
        self._begin()
        self.started, self.finished, self.produced, self._current = started, finished, produced, current


def _parsed_state(state: bytes, name: str) -> tuple[int, int, int, bytes]:
    numbers = {1: 0, 2: 0, 3: 0}
    current = b""
    try:
        for number, kind, value in fields(state):
            if kind == VARINT and number in numbers:
                numbers[number] = signed(value)
            elif kind == BYTES and number == _CURRENT:
                current = bytes(value)
            else:
                raise ValueError(f"field {number} is none of a reader's")
    except ValueError as error:
        raise InvalidArgumentError(f"Could not parse state for {name}: {error}: {state[:60]!r}") from None
    return numbers[1], numbers[2], numbers[3], current
