"""The place of one index in a random order of all, without the others: a cipher that permutes numbers.

Simon's rounds (Beaulieu et al., 2013) permute the numbers of 2 W bits; what comes out above the greatest
index is permuted again until it is inside (Black and Rogaway, 2002).

>>> sorted(shuffled_index(index, (1, 2, 3), greatest=4, rounds=8) for index in range(5))
[0, 1, 2, 3, 4]
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

import numpy as np

from flowengine.core.abandonment import check_wanted

_BITS_MIN: Final = 16
#: Constants of Simon's keys.
_ROUND: Final = 0xFFFFFFFC
_SEQUENCE: Final = 0x7369F885192C0EF5
#: So many rounds are gone through between two looks whether anybody still wants the place.
_STRIDE: Final = 1024


def _keys(seed: tuple[int, ...], word: int, rounds: int) -> list[int]:
    """A key for each round, from three numbers of 32 bits."""
    mask = (1 << word) - 1
    keys = [s & 0xFFFFFFFF & mask for s in seed]
    sequence = _SEQUENCE & mask
    for number in range(3, rounds):
        if not number % _STRIDE:
            check_wanted()
        last = keys[-1]
        turned = (last >> 3 | last << word - 3) ^ (last >> 4 | last << word - 4)
        keys.append((_ROUND ^ (sequence & 1) ^ keys[-3] ^ turned) & mask)
        sequence >>= 1
    return keys


def _permuted(value: Any, keys: list[int], word: int) -> Any:
    """An integer, or an array of them, after all rounds."""
    mask = (1 << word) - 1
    left, right = value >> word, value & mask
    for number in range(0, len(keys), 2):
        if not number % _STRIDE:
            check_wanted()
        first, second = keys[number : number + 2]
        left = left ^ _mixed(right, word, mask) ^ first
        right = right ^ _mixed(left, word, mask) ^ second
    return left << word | right


def _mixed(x: Any, word: int, mask: int) -> Any:
    one, two, eight = ((x << by | x >> word - by) & mask for by in (1, 2, 8))
    return one & eight ^ two


@lru_cache(maxsize=8)
def _table(seed: tuple[int, ...], rounds: int) -> list[int]:
    """Compute the position of each 16-bit number; few may be in range, and the way there long."""
    word = _BITS_MIN // 2
    table: list[int] = _permuted(np.arange(1 << _BITS_MIN), _keys(seed, word, rounds), word).tolist()
    return table


def shuffled_index(index: int, seed: tuple[int, ...], greatest: int, rounds: int) -> int:
    """Return the shuffled position of an index.

    index      from 0 to `greatest`
    seed       three numbers, of which 32 bits each count
    greatest   the greatest index, less than 2**64
    rounds     even, at least 4

    Raises CancelledError where nobody wants it any more.
    """
    if not greatest:
        return 0
    bits = math.ceil(math.log2(greatest))
    bits = max(bits + bits % 2, _BITS_MIN)
    if index >> bits:
        # The cipher's numbers end before the greatest index, at a power of two. What lies behind stays there.
        return index
    if bits == _BITS_MIN:
        table = _table(seed, rounds)
        index = table[index]
        while index > greatest:
            index = table[index]
        return index
    word = bits // 2
    keys = _keys(seed, word, rounds)
    index = _permuted(index, keys, word)
    while index > greatest:
        check_wanted()
        index = _permuted(index, keys, word)
    return index
