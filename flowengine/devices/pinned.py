"""A ring of pinned host memory, through which values go to a card and come from it.

    with ring.lent(size) as part:          # waits where the part is still in use
        part.data[:] = ...
        context.copy_in(stream, target, part.address, size)
        part.used_until(context.record(stream))

Copies from memory that is not pinned would hold up the host until they are done. Pinning costs milliseconds,
so it is done once.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.devices.cuda_driver import CudaContext, CudaEvent

RING_BYTES: Final = 16 << 20
#: Parts begin at multiples of it, as cards like to copy.
_ALIGNMENT: Final = 256


@dataclass(slots=True)
class PinnedPart:
    """A part of the ring: where it lies, its bytes as an array, and when it may be lent again."""

    address: int
    data: Any
    start: int
    stop: int
    event: CudaEvent | None = field(default=None)

    def used_until(self, event: CudaEvent) -> None:
        """It is in use until this event, which the ring closes; the last one that is said counts."""
        if self.event is not None:
            self.event.close()
        self.event = event


class PinnedRing:
    """Pinned memory, lent in turns. For one thread at a time."""

    def __init__(self, context: CudaContext, size: int = RING_BYTES) -> None:
        """Raises ResourceExhaustedError where the host has no such memory to pin."""
        self.size: Final = size
        self._context = context
        self._address: int | None = context.allocate_pinned(size)
        buffer = (ctypes.c_uint8 * size).from_address(self._address)
        self._data = np.ctypeslib.as_array(buffer)
        self._next = 0
        #: Parts in use, the oldest first.
        self._lent: deque[PinnedPart] = deque()

    @contextmanager
    def lent(self, size: int) -> Iterator[PinnedPart]:
        """A part for `size` bytes. Where it is still in use this waits for the event that ends that.

        Raises InvalidArgumentError for more than the ring has, FailedPreconditionError once it is closed.
        """
        if self._address is None:
            raise FailedPreconditionError("this ring of pinned memory has been closed")
        if not 0 < size <= self.size:
            raise InvalidArgumentError(f"a ring of {self.size} pinned bytes cannot lend {size}")
        start = self._next if self._next + size <= self.size else 0
        stop = start + size
        if start < self._next:
            # What lies between here and the end is passed over: the parts there are the oldest.
            self._retire_beyond(self._next)
        while self._lent and self._lent[0].start < stop and start < self._lent[0].stop:
            self._retire()
        part = PinnedPart(self._address + start, self._data[start:stop], start, stop)
        self._next = min(self.size, -(-stop // _ALIGNMENT) * _ALIGNMENT)
        self._lent.append(part)
        yield part

    def _retire_beyond(self, place: int) -> None:
        while self._lent and self._lent[0].start >= place:
            self._retire()

    def _retire(self) -> None:
        part = self._lent[0]
        if part.event is not None:
            part.event.wait()
            part.event.close()
        self._lent.popleft()

    def close(self) -> None:
        """Wait for what uses the ring, and give its memory back; again does nothing."""
        address = self._address
        if address is None:
            return
        while self._lent:
            self._retire()
        self._address = None
        self._context.free_pinned(address)


__all__ = ["RING_BYTES", "PinnedPart", "PinnedRing"]
