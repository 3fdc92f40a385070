"""Floats of less than 64 bits as the 64-bit floats with the fewest digits that stand for the same values.

Python prints a float32 of 0.1 as 0.10000000149011612, because it prints the float64 of the same value. Nobody
typed these digits, and 0.1 is read back as the same float32.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

#: More significant digits than any float of 32 bits or less needs to be told from its neighbours.
_DIGITS_MAX: Final = 9
#: What NumPy says of a type that another library has registered with it.
_FROM_OUTSIDE: Final = 2


def widened(array: Any) -> Any:
    """Return an array as float64 (complex128), each element with its dtype's fewest digits.

    array   any shape. Arrays of other builtin dtypes come back as they are; integers of 4 bits become int8

    Casting the result to the dtype of `array` gives the same values.

    >>> widened(np.float32(0.1)).tolist()
    0.1
    """
    array = np.asarray(array)
    if array.dtype == np.complex64:
        parts = np.ascontiguousarray(array).reshape(-1).view(np.float32)
        return widened(parts).view(np.complex128).reshape(array.shape)
    if array.dtype in (np.float16, np.float32):
        # NumPy's own text of these has the fewest digits.
        texts = map(str, array.ravel())
        return np.fromiter(map(float, texts), np.float64, array.size).reshape(array.shape)
    return _from_outside(array) if array.dtype.isbuiltin == _FROM_OUTSIDE else array


def _from_outside(array: Any) -> Any:
    """The same for bfloat16 and floats of 8 bits, whose texts have too few digits; small integers as int8."""
    if np.can_cast(array.dtype, np.int8):
        return array.astype(np.int8)
    with np.errstate(invalid="ignore"):  # some NaNs signal
        wide = array.astype(np.float64).ravel()
    values, where = np.unique(wide, return_inverse=True)
    short = np.array([_shortest(float(value), array.dtype) for value in values], dtype=np.float64)
    # Zeros are equal, and one of them has a sign.
    return np.copysign(short[where], wide).reshape(array.shape)


def _shortest(value: float, dtype: Any) -> float:
    """The value with as few digits as make it again in this dtype."""
    for digits in range(1, _DIGITS_MAX):
        short = float(f"{value:.{digits}g}")
        if float(np.asarray(short).astype(dtype)) == value:
            return short
    return value


__all__ = ["widened"]
