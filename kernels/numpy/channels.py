"""Rows of channels in blocks: what batch normalisation does to (rows, C), a block at a time, on every core.

A block stays in a core's second cache through its passes. Where the channels are few, several rows are taken
as one long row, so that a loop over it is worth entering; a vector of one number a channel is repeated as
often. Sums are those of the blocks, added in order, so they do not depend on the threads that compute them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.common.parallel import spread

#: Elements of a block.
_BLOCK: Final = 1 << 16
#: Elements of a long row: shorter ones take half as long again.
_LONG_ROW: Final = 8192
#: Rows from which repeating a vector is cheaper than entering a loop for each row.
_ROWS_MIN: Final = 512
#: Elements from which blocks are spread over the cores.
_SPREAD_MIN: Final = 1 << 16

#: What is done to a block: its number, its rows of the whole, how many rows are one long row.
Work = Callable[[int, slice, int], Any]


class Blocks:
    """The blocks of (count, C)."""

    def __init__(self, count: int, channels: int, spread_min: int = _SPREAD_MIN) -> None:
        """
        spread_min   elements from which they are spread over the cores
        """
        self.channels = channels
        repeat = 1
        if count >= _ROWS_MIN and 0 < channels <= _LONG_ROW // 2:
            repeat = _LONG_ROW // channels
        whole = count // repeat * repeat
        step = max(1, _BLOCK // max(channels * repeat, 1)) * repeat
        #: (rows, how many are one long row)
        self._parts = [(slice(r, min(r + step, whole)), repeat) for r in range(0, whole, step)]
        if whole < count:
            self._parts.append((slice(whole, count), 1))
        self._spreads = count * channels >= spread_min

    def __len__(self) -> int:
        return len(self._parts)

    def long(self, rows: Array, part: slice, repeat: int) -> Array:
        """A block of (count, C), C-contiguous, as long rows; a view."""
        block = rows[part]
        return block if repeat == 1 else block.reshape(-1, repeat * self.channels)

    def vector(self, values: Array) -> dict[int, Array]:
        """A vector (C,) for blocks: as it is, and repeated."""
        vectors = {1: values}
        repeat = self._parts[0][1] if self._parts else 1
        if repeat > 1:
            repeated = np.empty((repeat, self.channels), values.dtype)
            repeated[...] = values
            vectors[repeat] = repeated.reshape(-1)
        return vectors

    def run(self, work: Work) -> None:
        """Do it to every block."""
        parts = self._parts

        def piece(number: int) -> None:
            work(number, *parts[number])

        if self._spreads:
            spread(piece, len(parts))
        else:
            for number in range(len(parts)):
                piece(number)

    def sums(self, long_sums: Callable[[slice, int], Any], dtype: Any) -> Array:
        """Sums over the rows, (C,): of each block by `long_sums`, a vector as long as its long rows."""
        totals = np.empty((len(self._parts), self.channels), dtype)

        def work(number: int, part: slice, repeat: int) -> None:
            values = long_sums(part, repeat)
            if repeat > 1:
                np.add.reduce(values.reshape(repeat, -1), 0, out=totals[number])
            else:
                totals[number] = values

        self.run(work)
        total: Array = np.add.reduce(totals, 0)
        return total
