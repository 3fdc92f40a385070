"""Seed tensors, as the key and the first counter of a generator."""

from __future__ import annotations

from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common import philox
from flowengine.kernels.common.ufuncs import shape_text

HOST: Final = "seeds are arguments in host memory"

_MASK64 = (1 << 64) - 1
#: The key under which a seed is scrambled, so that a caller need not know which of its bits are strong.
_SCRAMBLE_KEY = 0x02461E29 << 32 | 0x3EC8F720


def key_and_counter(seed: Array) -> tuple[int, int]:
    """The generator's key and first counter from two integers; InvalidArgumentError for other shapes."""
    if seed.shape != (2,):
        raise InvalidArgumentError(f"seed must have shape [2], not {shape_text(seed)}")
    first, second = (int(s) & _MASK64 for s in seed.tolist())
    mixed = philox.counted(np, _SCRAMBLE_KEY, second << 64 | first, 1)[0].tolist()
    return mixed[1] << 32 | mixed[0], (mixed[3] << 32 | mixed[2]) << 64
