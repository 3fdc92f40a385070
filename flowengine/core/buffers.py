"""Memory for large results: beginning where a cache line does, the largest of it used again.

The C library's large blocks begin 16 bytes after a page does. Every vector of 64 bytes that is read from or
written to such an array touches two lines: products and convolutions took up to a quarter longer.

From 32 MB on the C library maps fresh pages for each array, and the system clears them one by one as they
are written: an addition over 34 MB took 6 to 10 ms instead of 2. Here such memory is kept when its array is
gone, up to a bound, and given to the next array of about that size.
"""

from __future__ import annotations

import ctypes
import math
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

#: Bytes of a line of the caches, and of a vector.
LINE: Final = 64
#: Bytes from which arrays begin with a line; below, they are made in a third of the time.
ALIGNED: Final = 64 << 10
#: Bytes from which memory is kept; below, the C library keeps it itself.
LARGE: Final = 24 << 20
#: Idle bytes that are kept at most.
IDLE_MAX: Final = 1 << 30
#: Sizes are rounded up to so many steps between powers of two, so that nearly equal ones share memory.
_STEPS: Final = 8


class Lease:
    """What an array of kept memory refers to; the memory comes back when the last reference is gone."""

    __slots__ = ("__array_interface__", "_block", "_kept")

    def __init__(self, kept: Kept, block: Array, shape: Sequence[int], dtype: Any) -> None:
        self._kept = kept
        self._block = block
        self.__array_interface__ = {
            "data": (_address(block) + _to_line(block), False),
            "shape": tuple(shape),
            "typestr": np.dtype(dtype).str,
            "version": 3,
        }

    @property
    def nbytes(self) -> int:
        return self._block.nbytes - LINE

    def __del__(self) -> None:
        self._kept.put(self._block)


class Kept:
    """Idle blocks of memory, the one that came back last given out first. Any thread may use it."""

    def __init__(self, idle_max: int = IDLE_MAX) -> None:
        self._idle_max = idle_max
        # Operations on a deque are atomic, so that `put` may run wherever a reference is dropped.
        self._blocks: deque[Array] = deque()

    @property
    def idle_bytes(self) -> int:
        return sum(block.nbytes for block in list(self._blocks))

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        """An array with arbitrary content."""
        size = rounded(math.prod(shape) * np.dtype(dtype).itemsize)
        passed = []
        found = None
        while found is None:
            try:
                block = self._blocks.pop()
            except IndexError:
                break
            if block.nbytes == size + LINE:
                found = block
            else:
                passed.append(block)
        self._blocks.extend(reversed(passed))
        if found is None:
            found = np.empty(size + LINE, np.uint8)
        result: Array = np.asarray(Lease(self, found, shape, dtype))
        return result

    def put(self, block: Array) -> None:
        """Take memory back; the oldest is let go of where there is too much."""
        self._blocks.append(block)
        try:
            while self.idle_bytes > self._idle_max:
                self._blocks.popleft()
        except IndexError:  # another thread has taken what was there
            return


def rounded(size: int) -> int:
    """A size rounded up by at most an eighth."""
    step = 1 << max(size.bit_length() - 1 - _STEPS.bit_length() + 1, 0)
    return -(-size // step) * step


_kept: Final = Kept()
_BYTE: Final = np.dtype(np.uint8)


def _address(block: Any) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(block))


def _to_line(block: Array) -> int:
    """Bytes from the start of a block to the first line in it."""
    return -_address(block) % LINE


class Block(np.ndarray):
    """The bytes that an array of `aligned` lies in.

    Of a type of its own, so that NumPy does not take it for the base of views of that array: they then refer
    to the array itself, as whoever counts its references expects.
    """

    __slots__ = ()


def aligned(shape: Sequence[int], dtype: Any) -> Array:
    """`numpy.empty`, beginning with a line from 64 KB on; a `Block` is then the array's base."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < ALIGNED or dtype.hasobject:
        return np.empty(shape, dtype)
    block: Any = Block((size + LINE,), _BYTE)
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
