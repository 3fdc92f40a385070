"""The memory of a simulated GPU: given out in blocks, and given out again as CuPy's pools do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import ResourceExhaustedError

#: Its frames stand for those of a library: an error of short memory must keep no array alive.
__tracebackhide__ = True

#: Memory is given out in multiples of so many bytes.
GRAIN: Final = 512
#: What memory is filled with when nobody has it: no number that a computation would have.
POISON: Final = 0xA5


class Chunk:
    """A piece of memory, given out again and again.

    number   its name
    data     (size,) uint8
    holder   who has it now
    """

    __slots__ = ("data", "holder", "number")

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.data: Array = np.full(size, POISON, np.uint8)
        self.holder: MemoryBlock | None = None


class MemoryBlock:
    """A chunk for as long as one array has it.

    stream    whose pool it came from, and goes back to
    is_live   whether it has not been given back
    """

    __slots__ = ("chunk", "is_live", "stream")

    def __init__(self, chunk: Chunk, stream: int) -> None:
        self.chunk = chunk
        self.stream = stream
        self.is_live = True


class MemoryPool:
    """Chunks that nobody has, by stream and size; the one that came back last is given out first.

    capacity_bytes   what chunks may have together; None for no bound
    """

    def __init__(self, capacity_bytes: int | None, report: Callable[[str, str], None]) -> None:
        self.capacity_bytes = capacity_bytes
        self.bytes_taken = 0
        self._report = report
        self._idle: dict[tuple[int, int], list[Chunk]] = {}
        self._count = 0

    def allocate(self, size: int, stream: int) -> MemoryBlock:
        """A block of at least so many bytes for work of a stream, holding anything.

        Raises ResourceExhaustedError if no capacity is left, whatever came back in other sizes.
        """
        rounded = max(1, -(-size // GRAIN)) * GRAIN
        idle = self._idle.get((stream, rounded))
        chunk = idle.pop() if idle else self._new(rounded)
        if chunk.holder is not None and chunk.holder.is_live:
            self._report("given out twice", f"memory {chunk.number} is in use and is given out again")
        block = chunk.holder = MemoryBlock(chunk, stream)
        return block

    def give_back(self, block: MemoryBlock) -> None:
        """Nobody has a block any more; when that may be is the caller's to know."""
        block.is_live = False
        self._idle.setdefault((block.stream, block.chunk.data.nbytes), []).append(block.chunk)

    @property
    def bytes_cached(self) -> int:
        """The bytes of memory that was given back and is not in use."""
        return sum(chunk.data.nbytes for chunks in self._idle.values() for chunk in chunks)

    def trim(self) -> None:
        """Give all that nobody has back to the device: it can be of other sizes then."""
        self.bytes_taken -= self.bytes_cached
        self._idle.clear()

    def _new(self, size: int) -> Chunk:
        capacity = self.capacity_bytes
        if capacity is not None and self.bytes_taken + size > capacity:
            cached = self.bytes_cached
            raise ResourceExhaustedError(
                f"{size:,} bytes are wanted on a simulated GPU of {capacity:,} bytes, of which "
                f"{self.bytes_taken - cached:,} are in use; make it larger with `capacity_bytes`"
            )
        self.bytes_taken += size
        self._count += 1
        return Chunk(self._count, size)


__all__ = ["GRAIN", "POISON", "Chunk", "MemoryBlock", "MemoryPool"]
