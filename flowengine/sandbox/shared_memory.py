"""Memory that a host and the process in a box both map: made and sealed by the host, of one size for ever.

A file in memory that can shrink kills whoever reads what is gone. So the host makes each at its full size and
seals it against shrinking, growing and further seals before the process is started. Pages that nobody has
written take no memory.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

#: What `os.stat` counts blocks in.
_BLOCK_BYTES: Final = 512
_BYTE: Final = np.dtype(np.uint8)


def sealed_memory(size: int) -> int:
    """A descriptor of so many bytes, whose size nobody can change. OSError where the system has no such."""
    if not hasattr(os, "memfd_create"):
        raise OSError("this system has no memfd_create")
    import fcntl  # missing where memfd_create is

    descriptor = os.memfd_create("flowengine", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def whole_pages(size: int) -> int:
    """The bytes of the pages that so many bytes need."""
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


class Segment:
    """A mapping of sealed memory. The other process may write into it at any time."""

    def __init__(self, descriptor: int, size: int) -> None:
        """`size`: the whole of it. OSError or ValueError where it cannot be mapped: it is closed then."""
        self.size = size
        self.descriptor = descriptor
        try:
            self._map: mmap.mmap | None = mmap.mmap(descriptor, size)
        except (OSError, ValueError):
            os.close(descriptor)
            raise

    def view(self, offset: int, dims: Sequence[int], dtype: Any) -> Array:
        """An array that lies there. ValueError for one that does not, or that NumPy has no shape for, and
        once this is closed."""
        if self._map is None:
            raise ValueError("the segment is closed")
        dtype = np.dtype(dtype)
        length = math.prod(dims) * dtype.itemsize
        if dtype.hasobject or offset < 0 or length < 0 or offset + length > self.size:
            raise ValueError("no array lies there")
        return np.ndarray(tuple(dims), dtype, self._map, offset)

    @property
    def resident_bytes(self) -> int:
        """The pages that somebody has written or read; 0 once this is closed."""
        return 0 if self._map is None else os.fstat(self.descriptor).st_blocks * _BLOCK_BYTES

    def empty(self, offset: int, size: int) -> None:
        """Give whole pages back to the system; they read as zeros then."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_REMOVE, offset, size)

    def close(self) -> None:
        """Close the descriptor; what is mapped goes with the last array that lies there."""
        if self._map is not None:
            os.close(self.descriptor)
            self._map = None


class Ranges:
    """Which whole pages of a segment are in use, by who writes into it."""

    def __init__(self, size: int) -> None:
        self._size = size
        #: {offset: bytes}
        self._taken: dict[int, int] = {}

    @property
    def used_bytes(self) -> int:
        """The bytes in use."""
        return sum(self._taken.values())

    def take(self, size: int) -> int | None:
        """The first place with so much room; None where there is none."""
        size = whole_pages(size)
        for offset, room in self.gaps():
            if room >= size:
                self._taken[offset] = size
                return offset
        return None

    def give_back(self, offset: int) -> None:
        """The place is free again. KeyError where it was."""
        del self._taken[offset]

    def keep(self, offsets: Iterable[int]) -> None:
        """All but these are free again. KeyError for one that was free."""
        self._taken = {offset: self._taken[offset] for offset in offsets}

    def gaps(self) -> Iterator[tuple[int, int]]:
        """Yield the free ranges: (offset, bytes), the lowest first."""
        end = 0
        for offset, size in sorted(self._taken.items()):
            if offset > end:
                yield end, offset - end
            end = offset + size
        if end < self._size:
            yield end, self._size - end


class _Lease:
    """The base object of an array in a segment, which records when the last reference is gone."""

    __slots__ = ("__array_interface__", "__weakref__", "_freed", "_offset", "_segment")

    def __init__(self, segment: Array, offset: int, freed: list[int]) -> None:
        self._segment = segment
        self._offset = offset
        self._freed = freed
        self.__array_interface__ = segment.__array_interface__

    def __del__(self) -> None:
        self._freed.append(self._offset)


def leased(
    array: Array, offset: int, freed: list[int], book: Callable[[Any, int], None] | None = None
) -> Array:
    """The same array; with its last reference, on any thread, `offset` is appended to `freed`.

    book   is told of an object that lives as long as the memory is in use, and of its bytes
    """
    lease: Any = _Lease(array.reshape(-1).view(_BYTE), offset, freed)
    if book is not None:
        book(lease, array.nbytes)
    return np.asarray(lease).view(array.dtype).reshape(array.shape)


__all__ = ["Ranges", "Segment", "leased", "sealed_memory", "whole_pages"]
