"""FarmHash's Fingerprint64 of many strings at once: one pass of NumPy instead of one of Python for each.

Strings of up to 64 bytes go by the four cases that the hash has for them, each case over all of its strings;
longer ones go one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.checksums.hashing import fingerprint64

#: Strings from which all at once is sooner: some hundred operations of NumPy against three microseconds each.
MANY: Final = 48
#: So many are copied side by side at a time.
_AT_ONCE: Final = 1 << 14
_K0: Final = np.uint64(0xC3A5C85C97CB3127)
_K1: Final = np.uint64(0xB492B66FBE98F273)
_K2: Final = np.uint64(0x9AE16A3B2F90404F)
#: The longest string of each case.
_CASES: Final = (0, 3, 7, 16, 32, 64)


def fingerprints64(strings: Sequence[bytes]) -> Array:
    """`fingerprint64` of each string (N,) uint64."""
    if len(strings) < MANY:
        return np.array([fingerprint64(string) for string in strings], np.uint64)
    out = np.empty(len(strings), np.uint64)
    for start in range(0, len(strings), _AT_ONCE):
        part = strings[start : start + _AT_ONCE]
        sizes = np.fromiter(map(len, part), np.int64, len(part))
        cases = np.searchsorted(_CASES, sizes)
        for case in np.unique(cases).tolist():
            places = np.flatnonzero(cases == case)
            chosen = part if len(places) == len(part) else [part[place] for place in places.tolist()]
            out[start + places] = _of_case(case, chosen, sizes[places])
    return out


def _of_case(case: int, strings: Sequence[bytes], sizes: Array) -> Any:
    if case == 0 or case == len(_CASES):
        return [fingerprint64(string) for string in strings]
    width = _CASES[case]
    # The next string begins where this one's longest ends; eight bytes can be read from any place.
    padded = np.zeros(len(strings) * width + 8, np.uint8)
    padded[:-8] = np.array(strings, f"S{width}").view(np.uint8)
    starts = np.arange(len(strings)) * width
    # Sums, products and shifts of unsigned numbers wrap, as the hash wants them to.
    return (_up_to_3, _up_to_7, _up_to_16, _up_to_32, _up_to_64)[case - 1](_Rows(padded, starts, sizes))


class _Rows:
    """Strings side by side: integers are read from any place of each."""

    def __init__(self, padded: Array, starts: Array, sizes: Array) -> None:
        self._padded = padded
        self._starts = starts
        self._ends = starts + sizes
        self.sizes = sizes
        self.size = sizes.astype(np.uint64)
        self.mul = _K2 + self.size * np.uint64(2)

    def byte(self, places: Array | int) -> Any:
        """(N,) uint64: the byte at a place of each string"""
        return self._padded[self._starts + places].astype(np.uint64)

    def fetch(self, at: int, width: int = 8) -> Any:
        """(N,) uint64: the bytes from a place on, lowest first; one below 0 is counted from the end"""
        places = self._starts + at if at >= 0 else self._ends + at
        kind = np.dtype(f"<u{width}")
        every = np.ndarray(len(self._padded) - 7, kind, self._padded.data, strides=(1,))
        return every[places].astype(np.uint64)


def _rotate(value: Array, shift: int) -> Any:
    """Right by `shift` bits."""
    return (value >> np.uint64(shift)) | (value << np.uint64(64 - shift))


def _shift_mix(value: Array) -> Any:
    return value ^ (value >> np.uint64(47))


def _mix16(u: Array, v: Array, mul: Array) -> Any:
    a = _shift_mix((u ^ v) * mul)
    return _shift_mix((v ^ a) * mul) * mul


def _up_to_3(rows: _Rows) -> Any:
    y = rows.byte(0) + (rows.byte(rows.sizes >> 1) << np.uint64(8))
    z = rows.size + (rows.byte(rows.sizes - 1) << np.uint64(2))
    return _shift_mix((y * _K2) ^ (z * _K0)) * _K2


def _up_to_7(rows: _Rows) -> Any:
    low, high = rows.fetch(0, 4), rows.fetch(-4, 4)
    return _mix16(rows.size + (low << np.uint64(3)), high, rows.mul)


def _up_to_16(rows: _Rows) -> Any:
    a, b = rows.fetch(0) + _K2, rows.fetch(-8)
    c = _rotate(b, 37) * rows.mul + a
    d = (_rotate(a, 25) + b) * rows.mul
    return _mix16(c, d, rows.mul)


def _mixed_32(rows: _Rows, first: np.uint64) -> tuple[Array, Array, Array]:
    """Compute the first steps for strings of up to 32 and of up to 64 bytes: a, y and z."""
    a, b = rows.fetch(0) * first, rows.fetch(8)
    c, d = rows.fetch(-8) * rows.mul, rows.fetch(-16) * _K2
    y = _rotate(a + b, 43) + _rotate(c, 30) + d
    return a, y, _mix16(y, a + _rotate(b + _K2, 18) + c, rows.mul)


def _up_to_32(rows: _Rows) -> Any:
    return _mixed_32(rows, _K1)[2]


def _up_to_64(rows: _Rows) -> Any:
    a, y, z = _mixed_32(rows, _K2)
    e, f = rows.fetch(16) * rows.mul, rows.fetch(24)
    g, h = (y + rows.fetch(-32)) * rows.mul, (z + rows.fetch(-24)) * rows.mul
    return _mix16(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, rows.mul)


__all__ = ["MANY", "fingerprints64"]
