"""The CRC-32C of what comes in pieces, at twice the speed of summing them one after the other.

`crc32c` folds a message into a short one and then looks that up in tables, for every call. Here the tables
are used once, at the end: between pieces the short message is kept. Its folding takes larger steps, too,
which costs fewer calls of NumPy.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.checksums.crc32c import crc32c

#: The exponents that `crc32c` uses, and twice them: the square of a multiple is one, with as many terms.
_SHORT_STEPS: Final = (5685 - 1362, 5685 - 426, 5685)
_STEPS: Final = tuple(2 * step for step in _SHORT_STEPS)
_DEGREE: Final = _STEPS[2]
_RUN: Final = _STEPS[0]
#: A megabyte is folded at a time: what is worked on stays in the cache.
_CHUNK: Final = 12 * _RUN
_KEPT_BYTES: Final = 8 * _DEGREE
_ALL_BYTES: Final = 8 * (_DEGREE + _CHUNK)
#: Pieces that are shorter, while only such have come, are summed at once: the room, and the tables at the
#: end, cost as much as what 4 MB gain.
_SMALL_BYTES: Final = 1 << 22

_ONES: Final = 0xFFFFFFFF


class Crc32c:
    """A checksum that grows: `update` it with anything that has a contiguous buffer.

    >>> total = Crc32c()
    >>> total.update(b"1234")
    >>> total.update(b"56789")
    >>> hex(total.value())
    '0xe3069283'
    """

    def __init__(self, crc: int = 0) -> None:
        self._crc = crc
        #: Words that are still to be folded: those kept of what came before, then new ones. None at first.
        self._words: Array | None = None
        self._octets: Array = np.empty(0, np.uint8)
        self._end = 0
        self._folds: list[tuple[Array, list[Array]]] = []

    def update(self, data: Any) -> None:
        view = np.frombuffer(memoryview(data).cast("B"), np.uint8)
        if self._words is None:
            if len(view) < _SMALL_BYTES:
                self._crc = crc32c(view, self._crc)
                return
            self._begin()
            self._take(view[:4])
            # What came before acts like an XOR into the first four bytes.
            register = np.frombuffer((self._crc ^ _ONES).to_bytes(4, "little"), np.uint8)
            self._octets[_KEPT_BYTES : _KEPT_BYTES + 4] ^= register
            view = view[4:]
        while len(view):
            taken = self._take(view)
            view = view[taken:]
            if self._end == _ALL_BYTES:
                self._fold()

    def value(self) -> int:
        """The checksum of all so far."""
        if self._words is None:
            return self._crc
        # In a copy, so that more may come.
        words = self._words[: -(-self._end // 8)].copy()
        whole, start = self._end // 8, 0
        for steps in (_STEPS, _SHORT_STEPS):
            while start + steps[0] + steps[2] <= whole:
                run = words[start : start + steps[0]]
                for step in steps:
                    target = words[start + step : start + step + steps[0]]
                    np.bitwise_xor(target, run, out=target)
                start += steps[0]
        # The rest is a message like any other, but nothing comes before it.
        return crc32c(words.view(np.uint8)[8 * start : self._end], _ONES)

    def _begin(self) -> None:
        words = np.zeros(_DEGREE + _CHUNK, np.uint64)
        self._words, self._octets, self._end = words, words.view(np.uint8), _KEPT_BYTES
        self._folds = [
            (words[at : at + _RUN], [words[at + step : at + step + _RUN] for step in _STEPS])
            for at in range(0, _CHUNK, _RUN)
        ]

    def _take(self, view: Array) -> int:
        count = min(len(view), _ALL_BYTES - self._end)
        self._octets[self._end : self._end + count] = view[:count]
        self._end += count
        return count

    def _fold(self) -> None:
        assert self._words is not None
        for run, targets in self._folds:
            for target in targets:
                np.bitwise_xor(target, run, out=target)
        self._words[:_DEGREE] = self._words[_CHUNK:]
        self._end = _KEPT_BYTES
