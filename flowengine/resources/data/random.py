"""One random number after the other, as TensorFlow's datasets draw them.

Philox 4x32-10 with the first seed as key and the second as the upper half of the counter; its numbers of 32
bits are given one at a time. Blocks of them are computed at once.
"""

from __future__ import annotations

from typing import Any, Final

_MASK32: Final = (1 << 32) - 1
_MASK64: Final = (1 << 64) - 1
_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)


def philox(key: int, counter: int) -> tuple[int, int, int, int]:
    """The four numbers of one counter (128 bits) under a key (64 bits).

    Reference: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    c0, c1 = counter & _MASK32, counter >> 32 & _MASK32
    c2, c3 = counter >> 64 & _MASK32, counter >> 96 & _MASK32
    k0, k1 = key & _MASK32, key >> 32
    for _ in range(10):
        first, second = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            second >> 32 ^ c1 ^ k0,
            second & _MASK32,
            first >> 32 ^ c3 ^ k1,
            first & _MASK32,
        )
        k0, k1 = k0 + _WEYL[0] & _MASK32, k1 + _WEYL[1] & _MASK32
    return c0, c1, c2, c3


class RandomNumbers:
    """A sequence and the place in it."""

    __slots__ = ("_block", "_key", "_start", "given")

    def __init__(self, seed: int, seed2: int) -> None:
        self._key = seed & _MASK64
        self._start = (seed2 & _MASK64) << 64
        self._block: tuple[int, ...] = ()
        #: How many numbers were drawn.
        self.given = 0

    def next(self) -> int:
        """The next number, of 32 bits."""
        place = self.given & 3
        if not place or not self._block:
            self._block = philox(self._key, self._start + (self.given >> 2))
        self.given += 1
        return self._block[place]

    def state(self) -> list[Any]:
        return [str(self._key), str(self._start), self.given]

    def restore(self, state: list[Any]) -> None:
        self._key, self._start, self.given = int(state[0]), int(state[1]), int(state[2])
        self._block = ()
