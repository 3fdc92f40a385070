"""Readers: take names of work from a queue and give out its records, one read after another.

Reads of one reader take turns in order of arrival. Files are read ahead in blocks on a thread, so that
most reads find their record waiting and the event loop never waits for a disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import trio

from flowengine.core import dtypes
from flowengine.core.arrays import WOULD_WAIT, Value, to_array
from flowengine.core.errors import InvalidArgumentError, OpError, UnimplementedError
from flowengine.resources.queue import Queue
from flowengine.resources.records import Record

#: How far a reader reads ahead: until one of the two is reached.
_AHEAD_RECORDS: Final = 256
_AHEAD_BYTES: Final = 1 << 20


class Reader:
    """See the module.

    kind      in messages
    records   opens a piece of work: its records, or OSError when there is no such file
    at_once   whether a piece of work is one record, known without reading on to be its last
    inline    whether `records` touches no file and may run on the event loop
    """

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_at_once",
        "_inline",
        "_iterator",
        "_lock",
        "_records",
        "_work",
        "container",
        "kind",
        "name",
        "records_produced",
        "work_finished",
        "work_started",
    )

    def __init__(
        self,
        kind: str,
        name: str,
        records: Callable[[bytes], Iterator[Record]],
        *,
        at_once: bool = False,
        inline: bool = False,
        container: str = "",
    ) -> None:
        self.kind = kind
        self.name = name
        self.container = container
        self.records_produced = 0
        self.work_started = 0
        self.work_finished = 0
        self._records = records
        self._at_once = at_once
        self._inline = inline
        self._lock = trio.Lock()
        self._work = b""
        self._iterator: Iterator[Record] | None = None
        #: Records read ahead, then None at the end of the work or the error that stopped it.
        self._ahead: deque[Record | OpError | OSError | None] = deque()

    def next_nowait(self) -> Any:
        """The next record if it has been read ahead, or WOULD_WAIT with nothing changed."""
        if self._ahead and isinstance(self._ahead[0], tuple) and not self._lock.locked():
            return self._produce()
        return WOULD_WAIT

    async def next(self, queue: Queue, permit: Callable[[bytes], None]) -> Record:
        """The next record: of the work in progress, or of the next that the queue has.

        permit   called with a piece of work before it is opened; raises where it must not be
        Raises OutOfRangeError where the queue is closed and empty, and what opening and reading raise.
        Cancelled, it has taken no record; work taken from the queue stays in progress.
        """
        async with self._lock:
            while True:
                if self.work_finished >= self.work_started:
                    await self._start(queue, permit)
                if await self._is_ready():
                    return self._produce()
                self._finish()

    async def next_up_to(
        self, queue: Queue, count: int, permit: Callable[[bytes], None]
    ) -> tuple[list[bytes], list[bytes]]:
        """Keys and values of up to `count` records; fewer at the end of a piece of work, but at least one.

        Raises as `next`.
        """
        keys: list[bytes] = []
        values: list[bytes] = []
        async with self._lock:
            while len(keys) < count:
                if self.work_finished >= self.work_started:
                    await self._start(queue, permit)
                if await self._is_ready():
                    key, value = self._produce()
                    keys.append(key)
                    values.append(value)
                    if self.work_finished >= self.work_started:
                        break
                else:
                    self._finish()
                    if keys:
                        break
        return keys, values

    async def _start(self, queue: Queue, permit: Callable[[bytes], None]) -> None:
        if queue.component_types != (dtypes.string,):
            raise InvalidArgumentError(
                f"{self.kind} '{self.name}' needs a queue with one component, a string; "
                f"'{queue.name}' has {[dtype.name for dtype in queue.component_types]}"
            )
        (work,) = await queue.dequeue()
        if not isinstance(work, bytes):
            array = to_array(work)
            if array.size != 1:
                raise InvalidArgumentError(
                    f"{self.kind} '{self.name}' needs names one by one, not of shape {list(array.shape)}"
                )
            work = array.reshape(-1)[0]
        permit(work)
        self._work = work
        self._iterator = self._records(work)
        self._ahead.clear()
        self.work_started += 1

    async def _is_ready(self) -> bool:
        """Whether there is a record, False at the end; reads ahead where none is waiting."""
        if not self._ahead:
            if self._inline:
                self._read_ahead()
            else:
                # Not abandoned when cancelled: the next read must not find the generator running.
                await trio.to_thread.run_sync(self._read_ahead)
        first = self._ahead[0]
        if isinstance(first, Exception):
            # It stays: reading on in damaged work fails again.
            raise first
        return first is not None

    def _read_ahead(self) -> None:
        if self._iterator is None:
            self._iterator = self._records(self._work)
        size = 0
        try:
            for record in self._iterator:
                self._ahead.append(record)
                size += len(record[1])
                if len(self._ahead) >= _AHEAD_RECORDS or size >= _AHEAD_BYTES:
                    return
            self._ahead.append(None)
        except (OpError, OSError) as error:
            self._ahead.append(error)

    def _produce(self) -> Record:
        record = self._ahead.popleft()
        assert isinstance(record, tuple)
        self.records_produced += 1
        if self._at_once:
            self._finish()
        return record

    def _finish(self) -> None:
        self._ahead.clear()
        self._iterator = None
        self.work_finished = self.work_started

    def reset(self) -> None:
        """Forget the work in progress and all counts."""
        self._finish()
        self._work = b""
        self.work_started = self.work_finished = self.records_produced = 0

    def serialize_state(self) -> bytes:
        """Counts and work in progress, as TensorFlow's readers write them.

        Raises UnimplementedError where work can be in progress within a file.
        """
        if not self._at_once:
            raise UnimplementedError(f"{self.kind} '{self.name}' cannot serialize its state")
        numbers = (self.work_started, self.work_finished, self.records_produced)
        state = b"".join(
            bytes([field << 3]) + _varint(number) for field, number in enumerate(numbers, 1) if number
        )
        if self._work:
            state += b"\x22" + _varint(len(self._work)) + self._work
        return state

    def restore_state(self, state: bytes) -> None:
        """Go on from what `serialize_state` of a reader of the same kind gave.

        Raises InvalidArgumentError for anything else.
        """
        if not self._at_once:
            raise UnimplementedError(f"{self.kind} '{self.name}' cannot restore its state")
        fields = _parse_state(state)
        if fields is None:
            raise InvalidArgumentError(f"Could not parse state for {self.kind} '{self.name}': {state!r}")
        started, finished, produced, work = fields
        if min(started, finished, produced) < 0:
            raise InvalidArgumentError(
                f"Unexpected negative value when restoring in {self.kind} '{self.name}'"
            )
        if finished > started:
            raise InvalidArgumentError(
                f"Inconsistent work started vs. finished when restoring in {self.kind} '{self.name}': "
                f"{started} vs. {finished}"
            )
        self._finish()
        self.work_started, self.work_finished, self.records_produced = started, finished, produced
        self._work = work

    def destroy(self) -> None:
        self.reset()

    def read(self) -> Value:
        """What a reference handle to a reader holds: container and name (string vector)."""
        handle = np.empty(2, dtype=object)
        handle[:] = [self.container.encode(), self.name.encode()]
        return handle


def _varint(number: int) -> bytes:
    number &= 2**64 - 1
    digits = bytearray()
    while number > 0x7F:
        digits.append(0x80 | (number & 0x7F))
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _parse_state(state: bytes) -> tuple[int, int, int, bytes] | None:
    """(started, finished, produced, work) of a serialised state, or None."""
    numbers = [0, 0, 0]
    work = b""
    at = 0

    def read() -> int | None:
        nonlocal at
        number = 0
        for shift in range(0, 70, 7):
            if at >= len(state):
                return None
            byte = state[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        return None

    while at < len(state):
        tag = state[at]
        at += 1
        value = read()
        if value is None:
            return None
        if tag in (0x08, 0x10, 0x18):
            numbers[(tag >> 3) - 1] = value - 2**64 if value >= 2**63 else value
        elif tag == 0x22 and at + value <= len(state):
            work = state[at : at + value]
            at += value
        else:
            return None
    return numbers[0], numbers[1], numbers[2], work
