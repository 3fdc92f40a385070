"""Memory for large arriving tensors, which is reused when nobody holds the last tensor any more.

Fresh memory costs half as much as receiving into it: the operating system maps and clears each page on first
touch, and takes it back when it is freed. A step that gets the same large tensors as the one before saves
that. Each connection keeps its receive memory for a few seconds, and lends it again when the arrays in it are
gone.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

#: Smaller tensors come from the allocator, which keeps such sizes itself.
POOLED_BYTES_MIN: Final = 1024 * 1024
#: The bytes that a connection keeps for future tensors, and for how long.
KEPT_BYTES_MAX: Final = 128 * 1024 * 1024
KEPT_SECONDS: Final = 5.0


class _Room:
    """Memory that tensors were received into."""

    __slots__ = ("array", "used_at")

    def __init__(self, array: Array, now: float) -> None:
        self.array = array
        self.used_at = now

    @property
    def is_free(self) -> bool:
        # NumPy bases every view, and views of views, on the array that owns the memory: while any is
        # alive, more than this pool refers to it.
        return getrefcount(self.array) <= _ALONE


class ReceivedMemory:
    """The memory that one connection receives large tensors into."""

    __slots__ = ("_rooms",)

    def __init__(self) -> None:
        self._rooms: list[_Room] = []

    def allocate(self, shape: list[int], dtype: np.dtype[Any], size: int, now: float) -> Array:
        """Return an array with memory of its own, of undefined content; raises as `numpy.empty` does."""
        if size < POOLED_BYTES_MIN:
            return np.empty(shape, dtype)
        room = self._find(size)
        if room is None:
            self._drop_for(size)
            room = _Room(np.empty(size, np.uint8), now)
            self._rooms.append(room)
        room.used_at = now
        return room.array.view(dtype).reshape(shape)

    def trim(self, now: float) -> None:
        """Release memory that nothing was received into for a while.

        Memory in use then belongs to its users alone.
        """
        self._rooms = [room for room in self._rooms if now - room.used_at < KEPT_SECONDS]

    def clear(self) -> None:
        """Release all memory."""
        self._rooms.clear()

    @property
    def kept_bytes(self) -> int:
        """Return the bytes that are kept for future tensors."""
        return sum(room.array.nbytes for room in self._rooms if room.is_free)

    def _find(self, size: int) -> _Room | None:
        return next((room for room in self._rooms if room.array.nbytes == size and room.is_free), None)

    def _drop_for(self, size: int) -> None:
        """Keep the kept memory and the coming tensor within the bound: the longest unused goes first."""
        if size > KEPT_BYTES_MAX:
            self._rooms = [room for room in self._rooms if not room.is_free]
            return
        free = sorted((room for room in self._rooms if room.is_free), key=lambda room: room.used_at)
        kept = sum(room.array.nbytes for room in free)
        for room in free:
            if kept + size <= KEPT_BYTES_MAX:
                return
            kept -= room.array.nbytes
            self._rooms.remove(room)


def _measure_alone() -> int:
    room = _Room(np.empty(1, np.uint8), 0.0)

    def count(self: _Room) -> int:
        return getrefcount(self.array)

    return count(room)


_ALONE: Final = _measure_alone()

__all__ = ["KEPT_BYTES_MAX", "KEPT_SECONDS", "POOLED_BYTES_MIN", "ReceivedMemory"]
