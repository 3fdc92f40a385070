"""The place of one index in a random order of all, without the others: a cipher that permutes numbers.

Simon's rounds (Beaulieu et al., 2013) permute the numbers of 2 W bits; what comes out above the greatest
index is permuted again until it is inside (Black and Rogaway, 2002).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.registry import kernel

_BITS_MIN: Final = 16
#: Constants of Simon's keys.
_ROUND: Final = 0xFFFFFFFC
_SEQUENCE: Final = 0x7369F885192C0EF5


def _keys(seed: tuple[int, ...], word: int, rounds: int) -> list[int]:
    """A key for each round, from three numbers of 32 bits."""
    mask = (1 << word) - 1
    keys = [s & 0xFFFFFFFF & mask for s in seed]
    sequence = _SEQUENCE & mask
    for _ in range(3, rounds):
        last = keys[-1]
        turned = (last >> 3 | last << word - 3) ^ (last >> 4 | last << word - 4)
        keys.append((_ROUND ^ (sequence & 1) ^ keys[-3] ^ turned) & mask)
        sequence >>= 1
    return keys


def _permuted(value: Any, keys: list[int], word: int) -> Any:
    """An integer, or an array of them, after all rounds."""
    mask = (1 << word) - 1
    left, right = value >> word, value & mask
    for first, second in zip(keys[::2], keys[1::2], strict=True):
        left = left ^ _mixed(right, word, mask) ^ first
        right = right ^ _mixed(left, word, mask) ^ second
    return left << word | right


def _mixed(x: Any, word: int, mask: int) -> Any:
    one, two, eight = ((x << by | x >> word - by) & mask for by in (1, 2, 8))
    return one & eight ^ two


@lru_cache(maxsize=8)
def _table(seed: tuple[int, ...], rounds: int) -> list[int]:
    """Where each number of 16 bits goes: few of them may be inside, and the way there long."""
    word = _BITS_MIN // 2
    table: list[int] = _permuted(np.arange(1 << _BITS_MIN), _keys(seed, word, rounds), word).tolist()
    return table


def _shuffled(index: int, seed: tuple[int, ...], greatest: int, rounds: int) -> int:
    if not greatest:
        return 0
    bits = math.ceil(math.log2(greatest))
    bits = max(bits + bits % 2, _BITS_MIN)
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
        index = _permuted(index, keys, word)
    return index


@kernel("RandomIndexShuffle", device="CPU", fresh=True)
def random_index_shuffle(index: Array, seed: Array, max_index: Array, *, rounds: int) -> Any:
    """Where each index, of those up to max_index, stands in the order of its seed.

    index       () or (N,)
    seed        (3,) or (N, 3): those of one order
    max_index   () or (N,)

    For a CPU: TensorFlow has no kernel for GPUs.
    """
    if rounds < 4 or rounds % 2:
        raise InvalidArgumentError(f"rounds must be even and at least 4, but is {rounds}")
    if seed.ndim not in (1, 2) or seed.shape[-1] != 3:
        raise InvalidArgumentError(f"seed must have shape [3] or [n, 3], not {brackets(seed.shape)}")
    for name, value in (("index", index), ("max_index", max_index)):
        if value.ndim > 1:
            raise InvalidArgumentError(
                f"{name} must be a scalar or a vector, not of shape {brackets(value.shape)}"
            )
    try:
        shape = np.broadcast_shapes(index.shape, seed.shape[:-1], max_index.shape)
    except ValueError:
        raise InvalidArgumentError(
            "index, seed and max_index must have the same number of elements: "
            f"{brackets(index.shape)}, {brackets(seed.shape)} and {brackets(max_index.shape)}"
        ) from None
    indices = np.broadcast_to(index, shape).reshape(-1).tolist()
    bounds = np.broadcast_to(max_index, shape).reshape(-1).tolist()
    seeds = np.broadcast_to(seed, (*shape, 3)).reshape(-1, 3).tolist()
    for each, bound in zip(indices, bounds, strict=True):
        if not 0 <= each <= bound:
            raise InvalidArgumentError(f"index {each} is not between 0 and max_index, {bound}")
    places = [
        _shuffled(each, tuple(numbers), bound, rounds)
        for each, numbers, bound in zip(indices, seeds, bounds, strict=True)
    ]
    return np.array(places, index.dtype).reshape(shape)
