"""Memory for large results: beginning where a cache line does, the largest of it used again.

The C library's large blocks begin 16 bytes after a page does. Every vector of 64 bytes that is read from or
written to such an array touches two lines: products and convolutions took up to a quarter longer.

From 32 MB on the C library maps fresh pages for each array, and the system clears them one by one as they
are written: an addition over 34 MB took 6 to 10 ms instead of 2. Smaller ones it gives back whenever enough
of them are free next to each other: a network of images lost a twentieth of its time so, or nothing, from
run to run. Here such memory is kept when its array is gone, up to a bound, and given to the next array of
about that size.
"""

from __future__ import annotations

import ctypes
import math
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from time import monotonic
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

#: Bytes of a line of the caches, and of a vector.
LINE: Final = 64
#: Bytes from which arrays begin with a line; below, they are made in a third of the time.
ALIGNED: Final = 64 << 10
#: Bytes from which memory is kept; below, the C library keeps it itself.
LARGE: Final = 1 << 20
#: The system hands out large memory from the begin of a page on, and where arrays that are read and written
#: at once lie at one place of their pages they get in each other's way in the first cache: up to a tenth of
#: a network's time. So they begin at different lines of a page.
_PAGE: Final = 4096
STAGGER: Final = 9 * LINE
#: Idle bytes that are kept at most.
IDLE_MAX: Final = 1 << 30
#: Idle bytes of a size that nobody has asked for during so many seconds are let go of.
_IDLE_SECONDS: Final = 10.0
#: What is idle is looked at whenever such a part of what may be idle has come back.
_LOOK_PART: Final = 1 / 16
#: Sizes are rounded up to so many steps between powers of two, so that nearly equal ones share memory.
_STEPS: Final = 8


class MemoryLease:
    """The lease that an array of kept memory refers to; the memory comes back with its last reference."""

    __slots__ = ("__array_interface__", "__weakref__", "_block", "_kept", "_start")

    def __init__(self, kept: IdleMemory, block: Array, start: int, shape: Sequence[int], dtype: Any) -> None:
        """`start`: bytes of the block before the array."""
        self._kept = kept
        self._block = block
        self._start = start
        self.__array_interface__ = {
            "data": (_address(block) + start, False),
            "shape": tuple(shape),
            "typestr": np.dtype(dtype).str,
            "version": 3,
        }

    @property
    def nbytes(self) -> int:
        return self._block.nbytes - self._start

    def __del__(self) -> None:
        self._kept.put(self._block, self._start)


class IdleMemory:
    """Idle blocks of memory, of each size the one that came back last given out first.

    Any thread may use it at any time: `put` runs wherever a last reference is dropped, within another `put`
    too, so that there is no lock. Operations on a deque and on a dict are atomic; what is counted may be
    wrong by what several threads do at once, and bounds hold as nearly.
    """

    def __init__(self, idle_max: int = IDLE_MAX, clock: Callable[[], float] = monotonic) -> None:
        self._idle_max = idle_max
        self._clock = clock
        #: {bytes: blocks of so many, and when one was asked for}
        self._blocks: dict[int, _Size] = {}
        self._unseen = 0
        self._turns = count()

    def bound(self, idle_max: int) -> None:
        """Keep so many idle bytes at most from now on."""
        self._idle_max = idle_max

    @property
    def idle_bytes(self) -> int:
        return sum(size * len(found.blocks) for size, found in list(self._blocks.items()))

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        """An array with arbitrary content."""
        size = rounded(math.prod(shape) * np.dtype(dtype).itemsize)
        is_large = size >= LARGE
        size += LINE + _PAGE if is_large else LINE
        found = self._blocks.get(size)
        if found is None:
            found = self._blocks.setdefault(size, _Size())
        found.is_wanted = True
        try:
            block, start = found.blocks.pop()
        except IndexError:
            block = np.empty(size, np.uint8)
            start = _to_line(block)
            if is_large:
                start += next(self._turns) * STAGGER % _PAGE
        result: Array = np.asarray(MemoryLease(self, block, start, shape, dtype))
        return result

    def put(self, block: Array, start: int) -> None:
        """Take memory back; the oldest is let go of where there is too much."""
        found = self._blocks.get(block.nbytes)
        if found is None:
            found = self._blocks.setdefault(block.nbytes, _Size())
        found.blocks.append((block, start))
        self._unseen += block.nbytes
        if self._unseen > self._idle_max * _LOOK_PART:
            self._unseen = 0
            self._look()

    def _look(self) -> None:
        """Let go of what nobody has asked for lately, and of what is too much."""
        now = self._clock()
        every = list(self._blocks.items())
        for _, found in every:
            if found.is_wanted:
                found.is_wanted, found.wanted_at = False, now
            elif now - found.wanted_at > _IDLE_SECONDS:
                found.blocks.clear()
        too_much = self.idle_bytes - self._idle_max
        for size, found in sorted(every, key=lambda each: each[1].wanted_at):
            while too_much > 0 and found.blocks:
                try:
                    found.blocks.popleft()
                except IndexError:  # another thread has taken it
                    break
                too_much -= size


class _Size:
    """Idle blocks of one size; when one was asked for, as far as it has been looked at."""

    __slots__ = ("blocks", "is_wanted", "wanted_at")

    def __init__(self) -> None:
        #: Each with the place where its arrays begin.
        self.blocks: deque[tuple[Array, int]] = deque()
        self.is_wanted = True
        self.wanted_at = 0.0


def rounded(size: int) -> int:
    """A size rounded up by at most an eighth."""
    step = 1 << max(size.bit_length() - 1 - _STEPS.bit_length() + 1, 0)
    return -(-size // step) * step


_kept: Final = IdleMemory()
_BYTE: Final = np.dtype(np.uint8)


def _address(block: Any) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(block))


def _to_line(block: Array) -> int:
    """Bytes from the start of a block to the first line in it."""
    return -_address(block) % LINE


class AlignedBytes(np.ndarray):
    """The bytes that an array of `aligned` lies in.

    Of a type of its own, so that NumPy does not take it for the base of views of that array: they then refer
    to the array itself, as whoever counts its references expects.
    """

    __slots__ = ()


def aligned(shape: Sequence[int], dtype: Any) -> Array:
    """`numpy.empty`, beginning with a line from 64 KB on; a `AlignedBytes` is then the array's base."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < ALIGNED or dtype.hasobject:
        return np.empty(shape, dtype)
    block: Any = AlignedBytes((size + LINE,), _BYTE)
    return np.ndarray(shape, dtype, block, _to_line(block))


def copied(array: Array, dtype: Any = None) -> Array:
    """A C-contiguous copy in `aligned` memory."""
    result = aligned(array.shape, array.dtype if dtype is None else dtype)
    np.copyto(result, array, casting="unsafe")
    return result


def empty(shape: Sequence[int], dtype: Any) -> Array:
    """`aligned` that uses large memory again."""
    if math.prod(shape) * np.dtype(dtype).itemsize < LARGE:
        return aligned(shape, dtype)
    return _kept.empty(shape, dtype)


def recycled(shape: Sequence[int], dtype: Any) -> Array:
    """`empty` that uses smaller memory again, too: for what is made and dropped once for each image.

    The C library gives back to the system what lies free at the end of its memory, and takes it again with
    the next image: 370 pages for one of 288 x 288, 1 to 3 ms where pages are dear.
    """
    if math.prod(shape) * np.dtype(dtype).itemsize < ALIGNED:
        return np.empty(shape, dtype)
    return _kept.empty(shape, dtype)


def in_one_piece(array: Array) -> Array:
    """The array where its elements follow each other row by row, else a copy of that form in such memory."""
    if array.flags.c_contiguous:
        return array
    copied = recycled(array.shape, array.dtype)
    copied[...] = array
    return copied


def keep_idle(idle_max: int) -> None:
    """Let this process keep so many idle bytes at most: where all that it takes is bounded."""
    _kept.bound(idle_max)
