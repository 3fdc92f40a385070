"""The arguments of kernel launches, and the interface of launchers.

A `Launcher` has memory and a queue. The functions of `bias`, `softmax`, `pooling` and so on take one, and
arrays of its library that lie row by row without gaps; they allocate results, enqueue launches, and wait for
nothing. How many threads a block has and how rows are divided is decided by shapes alone, so results have the
same bits on every card.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from flowengine.core.arrays import Array

#: As FE_THREADS_MAX in `sources/blocks.cuh`.
THREADS: Final = 256
#: Blocks of a launch that has a loop over its elements: some thirty for each multiprocessor of a large card.
_BLOCKS_MAX: Final = 4096
#: Rows that a thread sums before another block takes over, and the most parts that a column is divided into.
_ROWS_A_THREAD: Final = 16
_CHUNKS_MAX: Final = 256
_WARP: Final = 32
_FLOAT64: Final = np.dtype(np.float64)


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """A kernel by name, and what it takes behind its addresses.

    numbers          of 64 bits each; floats by `float_bits`
    blocks, threads  of the grid; threads are a power of two where the kernel folds
    """

    name: str
    numbers: tuple[int, ...]
    blocks: int
    threads: int


class Launcher(Protocol):
    """Memory and a queue of a device, with the compiled kernels."""

    @property
    def error_record(self) -> Array:
        """(3,) int64, 0 where nothing was refused; see `functions.REFUSALS`."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array of the device that holds anything, row by row without gaps."""

    def moved_in(self, array: Any) -> Array:
        """A NumPy array in the device's memory, behind what was enqueued before."""

    def address(self, array: Array) -> int:
        """Return the address of an array in the device's memory."""

    def launch(self, launch: KernelLaunch, arrays: Sequence[Array | None]) -> None:
        """Enqueue a kernel with the addresses of these arrays; None is the null address."""


def float_bits(number: float) -> int:
    """A float as kernels take it among their numbers."""
    return int(np.float64(number).view(np.int64))


def over(name: str, count: int, *numbers: int) -> KernelLaunch:
    """A launch of a kernel with a loop over `count` elements, which it works out from the numbers."""
    return KernelLaunch(name, numbers, max(1, min(-(-count // THREADS), _BLOCKS_MAX)), THREADS)


def each(name: str, count: int, *numbers: int) -> KernelLaunch:
    """A launch of a kernel with a loop over `count` elements, which it takes as its first number."""
    return over(name, count, count, *numbers)


def each_column(name: str, chunks: int, width: int, *numbers: int) -> KernelLaunch:
    """A launch of a kernel that folds the chunks of each of `width` columns, its first two numbers."""
    return over(name, width, chunks, width, *numbers)


def each_row(name: str, rows: int, width: int, *numbers: int) -> KernelLaunch:
    """A launch of a block for each row: as many threads as the row has use for."""
    threads = min(THREADS, max(_WARP, _power_of_two(width)))
    return KernelLaunch(name, (rows, width, *numbers), max(1, min(rows, _BLOCKS_MAX)), threads)


def _power_of_two(count: int) -> int:
    """The least power of two that is not below."""
    return 1 << max(count - 1, 0).bit_length()


def wide_type(dtype: Any) -> Any:
    """Return the type that a type's kernels compute in: float64 for float64, else float32."""
    return _FLOAT64 if dtype == _FLOAT64 else np.dtype(np.float32)


@dataclass(frozen=True, slots=True)
class ChannelSums:
    """How sums down the columns of (rows, channels) are divided; see `column_sums` in `sources/blocks.cuh`.

    inner    places that lie behind each channel: 1 where channels come last
    lanes    channels of a block
    span     rows of a block
    chunks   parts that a column is summed in, folded in order afterwards
    """

    rows: int
    channels: int
    inner: int
    lanes: int
    span: int
    chunks: int

    @classmethod
    def over(cls, rows: int, channels: int, inner: int) -> ChannelSums:
        """Of this many rows and channels, neither 0."""
        # Neighbouring threads read neighbouring elements: along channels where they come last.
        lanes = min(_WARP, _power_of_two(channels)) if inner == 1 else 1
        abreast = THREADS // lanes
        chunks = max(1, min(rows // (abreast * _ROWS_A_THREAD), _CHUNKS_MAX))
        span = -(-rows // chunks)
        return cls(rows, channels, inner, lanes, span, -(-rows // span))

    def launch(self, name: str) -> KernelLaunch:
        """The launch that gives (chunks, sums, channels) partial ones."""
        tiles = -(-self.channels // self.lanes)
        numbers = (self.rows, self.channels, self.inner, self.lanes, self.span)
        return KernelLaunch(name, numbers, max(1, min(tiles * self.chunks, 1 << 30)), THREADS)


def rows_and_channels(shape: Sequence[int], channels_first: bool) -> tuple[int, int, int]:
    """(rows, channels, places behind each channel) of a tensor."""
    count = int(np.prod(shape, dtype=np.int64))
    channels = shape[1 if channels_first else -1]
    inner = int(np.prod(shape[2:], dtype=np.int64)) if channels_first else 1
    return (count // channels if channels else 0), channels, inner


__all__ = [
    "THREADS",
    "ChannelSums",
    "KernelLaunch",
    "Launcher",
    "each",
    "each_column",
    "each_row",
    "float_bits",
    "over",
    "rows_and_channels",
    "wide_type",
]
