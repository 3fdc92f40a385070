"""Pinned host memory, through which values go to a card and come from it.

    with ring.lent(size) as part:          # waits if the part is still in use
        part.data[:] = ...
        context.copy_in(stream, target, part.address, size)
        part.used_until(context.record(stream))

    array = pinned.array((2, 3), dtype)    # in use as long as the array, or a view of it, is referenced

Copies from memory that is not pinned would block the host until they are done. Pinning takes milliseconds, so
it is done once: a ring lends one part after another. An array that is too large for the ring, or that is
requested while its oldest part is still in use, gets a separate block, which is kept for later arrays. So no
caller waits for an array.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, Protocol

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.devices.cuda_driver import CudaEvent

RING_BYTES: Final = 16 << 20
#: Parts begin at multiples of it, as cards like to copy.
_ALIGNMENT: Final = 256
#: So large a share of a ring one array has at most: a few large ones would empty it.
_SHARE_MAX: Final = 4
#: The most bytes of unused blocks beyond the ring that are kept.
_KEPT_BYTES: Final = 1 << 30


class PinnedSource(Protocol):
    """An allocator of pinned memory: a `CudaContext`, or CuPy (`cuda_copies.py`)."""

    def allocate_pinned(self, size: int) -> int:
        """The address of memory; ResourceExhaustedError where the host has no more to pin."""

    def free_pinned(self, address: int) -> None:
        """Give it back; nothing that is enqueued may use it any more."""


class _PinnedBlock:
    """A block of memory that is freed when no array uses it."""

    __slots__ = ("__weakref__", "address", "size")

    def __init__(self, source: PinnedSource, size: int) -> None:
        self.size: Final = size
        self.address: Final = source.allocate_pinned(size)
        # Not at the end of the process, when the driver may have ended before.
        weakref.finalize(self, source.free_pinned, self.address).atexit = False


@dataclass(slots=True)
class PinnedPart:
    """A part of the ring: where it lies, its bytes as an array, and when it may be lent again."""

    address: int
    data: Any
    start: int
    stop: int
    event: CudaEvent | None = field(default=None)
    is_held: bool = False

    def used_until(self, event: CudaEvent) -> None:
        """It is in use until this event, which the ring closes; the last one that is said counts."""
        if self.event is not None:
            self.event.close()
        self.event = event


class _HeldPart:
    """The base object of an array over pinned memory: the part is in use as long as this lives."""

    __slots__ = ("__array_interface__", "_block", "_part")

    def __init__(self, block: _PinnedBlock, part: PinnedPart, dtype: Any, shape: tuple[int, ...]) -> None:
        part.is_held = True
        self._block, self._part = block, part
        self.__array_interface__ = {
            "data": (part.address, False),
            "shape": shape,
            "typestr": dtype.str,
            "version": 3,
        }

    def __del__(self) -> None:
        self._part.is_held = False


class PinnedRing:
    """Pinned memory, lent in turns. For one thread at a time."""

    def __init__(self, source: PinnedSource, size: int = RING_BYTES) -> None:
        """Raises ResourceExhaustedError where the host has no such memory to pin."""
        self.size: Final = size
        self._block: _PinnedBlock | None = _PinnedBlock(source, size)
        buffer = (ctypes.c_uint8 * size).from_address(self._block.address)
        self._data = np.ctypeslib.as_array(buffer)
        self._next = 0
        #: Parts in use, the oldest first.
        self._lent: deque[PinnedPart] = deque()

    @contextmanager
    def lent(self, size: int) -> Iterator[PinnedPart]:
        """A part for `size` bytes. Where it is still in use this waits for the event that ends that.

        Raises InvalidArgumentError for more than the ring has, FailedPreconditionError once it is closed.
        """
        block = self._opened()
        if not 0 < size <= self.size:
            raise InvalidArgumentError(f"a ring of {self.size} pinned bytes cannot lend {size}")
        start, passed = self._place(size)
        while self._is_first_within(start, start + size, passed):
            self._retire()
        yield self._added(block, start, size)

    def array(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array | None:
        """Return an array whose part of the ring is in use while the array exists; None if the ring is full.

        Raises FailedPreconditionError once the ring is closed.
        """
        block = self._opened()
        size = prod(shape) * dtype.itemsize
        if not 0 < size <= self.size:
            return None
        start, passed = self._place(size)
        while self._is_first_within(start, start + size, passed):
            if self._lent[0].is_held or self._lent[0].event is not None:
                return None
            self._lent.popleft()
        return np.asarray(_HeldPart(block, self._added(block, start, size), dtype, tuple(shape)))

    def _opened(self) -> _PinnedBlock:
        if self._block is None:
            raise FailedPreconditionError("this ring of pinned memory has been closed")
        return self._block

    def _place(self, size: int) -> tuple[int, int]:
        """(where the next part begins, behind which parts are passed over)."""
        if self._next + size <= self.size:
            return self._next, self.size
        # Skip the rest of the ring, where the oldest parts are.
        return 0, self._next

    def _is_first_within(self, start: int, stop: int, passed: int) -> bool:
        """Whether the oldest part lies there, or is passed over."""
        if not self._lent:
            return False
        first = self._lent[0]
        return first.start >= passed or (first.start < stop and start < first.stop)

    def _added(self, block: _PinnedBlock, start: int, size: int) -> PinnedPart:
        part = PinnedPart(block.address + start, self._data[start : start + size], start, start + size)
        self._next = min(self.size, -(-part.stop // _ALIGNMENT) * _ALIGNMENT)
        self._lent.append(part)
        return part

    def _retire(self) -> None:
        part = self._lent[0]
        if part.event is not None:
            part.event.wait()
            part.event.close()
        self._lent.popleft()

    def close(self) -> None:
        """Wait for the users of the ring. Its memory is freed once no array there exists."""
        while self._lent:
            self._retire()
        self._block = None


class PinnedMemory:
    """Pinned arrays of any size. One thread at a time may use it; any thread may drop arrays."""

    def __init__(self, source: PinnedSource, size: int = RING_BYTES) -> None:
        """`size` is the ring's, which is pinned when the first array is made."""
        self._source = source
        self._size = size
        self._ring: PinnedRing | None = None
        #: Blocks beyond the ring, each with the part that is the whole of it.
        self._blocks: list[tuple[_PinnedBlock, PinnedPart]] = []

    def array(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """Return an array whose memory is in use while the array or a view of it exists.

        Raises ResourceExhaustedError where the host has no more memory to pin.
        """
        size = prod(shape) * dtype.itemsize
        if not size:
            return np.empty(shape, dtype)
        if size * _SHARE_MAX <= self._size:
            if self._ring is None:
                self._ring = PinnedRing(self._source, self._size)
            found = self._ring.array(shape, dtype)
            if found is not None:
                return found
        block, part = self._own_block(size)
        return np.asarray(_HeldPart(block, part, dtype, tuple(shape)))

    def _own_block(self, size: int) -> tuple[_PinnedBlock, PinnedPart]:
        """Return an unused block, of the next power of two."""
        wanted = 1 << max(size - 1, _ALIGNMENT).bit_length()
        for block, part in self._blocks:
            if block.size == wanted and not part.is_held:
                return block, part
        kept = sum(block.size for block, _ in self._blocks) + wanted
        for each in [each for each in self._blocks if not each[1].is_held]:
            if kept <= _KEPT_BYTES:
                break
            self._blocks.remove(each)
            kept -= each[0].size
        block = _PinnedBlock(self._source, wanted)
        self._blocks.append((block, PinnedPart(block.address, None, 0, wanted)))
        return self._blocks[-1]


__all__ = ["RING_BYTES", "PinnedMemory", "PinnedPart", "PinnedRing", "PinnedSource"]
