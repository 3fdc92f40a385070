"""Vectors that steer: shapes, axes and offsets, made in host memory whatever device the kernel is of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

HOST: Final = "results that stay in host memory, as TensorFlow's HostMemory arguments do"


def vector(numbers: Sequence[int], dtype: Any) -> Array:
    """A vector of these numbers."""
    return np.array(numbers, dtype)


def one_number(size: int, place: int, number: int, dtype: Any) -> Array:
    """Zeros but for one number."""
    made = np.zeros(size, dtype)
    made[place] = number
    return made


def fixed_vector(numbers: Sequence[int], dtype: Any) -> Array:
    """Return a read-only vector, which all callers may share."""
    made = np.array(numbers, dtype)
    made.flags.writeable = False
    return made


def numbers_in(data: bytes, count: int) -> list[int]:
    """The `count` integers, of 16, 32 or 64 bits, in the bytes of a vector."""
    numbers: list[int] = np.frombuffer(data, f"i{len(data) // count}").tolist() if count else []
    return numbers


__all__ = ["fixed_vector", "numbers_in", "one_number", "vector"]
