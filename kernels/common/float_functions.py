"""Logarithm, sine and cosine of float32, rounded as the usual C library rounds them.

TensorFlow's normal numbers come out of that library's float functions. They work in double precision with
short polynomials, so their results are the nearest float in about 99% of cases and one beside it in the
rest: to repeat TensorFlow's numbers bit for bit the same polynomials are needed, and a better function
would not do. Only the ranges that a random number needs are covered.

The method and its constants are those of the single-precision functions in Arm's Optimized Routines, on
which GNU's C library (since 2.28), musl and others are built.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array


def _hex(*numbers: str) -> Array:
    return np.array([float.fromhex(n) for n in numbers])


#: 1 / c and log(c) for the centres c of sixteen intervals.
_INVERSES: Final = _hex(
    "0x1.661ec79f8f3bep+0",
    "0x1.571ed4aaf883dp+0",
    "0x1.49539f0f010bp+0",
    "0x1.3c995b0b80385p+0",
    "0x1.30d190c8864a5p+0",
    "0x1.25e227b0b8eap+0",
    "0x1.1bb4a4a1a343fp+0",
    "0x1.12358f08ae5bap+0",
    "0x1.0953f419900a7p+0",
    "0x1p+0",
    "0x1.e608cfd9a47acp-1",
    "0x1.ca4b31f026aap-1",
    "0x1.b2036576afce6p-1",
    "0x1.9c2d163a1aa2dp-1",
    "0x1.886e6037841edp-1",
    "0x1.767dcf5534862p-1",
)
_LOGARITHMS: Final = _hex(
    "-0x1.57bf7808caadep-2",
    "-0x1.2bef0a7c06ddbp-2",
    "-0x1.01eae7f513a67p-2",
    "-0x1.b31d8a68224e9p-3",
    "-0x1.6574f0ac07758p-3",
    "-0x1.1aa2bc79c81p-3",
    "-0x1.a4e76ce8c0e5ep-4",
    "-0x1.1973c5a611cccp-4",
    "-0x1.252f438e10c1ep-5",
    "0x0p+0",
    "0x1.aa5aa5df25984p-5",
    "0x1.c5e53aa362eb4p-4",
    "0x1.526e57720db08p-3",
    "0x1.bc2860d22477p-3",
    "0x1.1058bc8a07ee1p-2",
    "0x1.4043057b6ee09p-2",
)
_LN2: Final = float.fromhex("0x1.62e42fefa39efp-1")
_LOG_POLYNOMIAL: Final = tuple(
    _hex("-0x1.00ea348b88334p-2", "0x1.5575b0be00b6ap-2", "-0x1.ffffef20a4123p-2").tolist()
)
_SINE: Final = tuple(_hex("-0x1.555545995a603p-3", "0x1.1107605230bc4p-7", "-0x1.994eb3774cf24p-13").tolist())
_COSINE: Final = tuple(
    _hex(
        "0x1p0",
        "-0x1.ffffffd0c621cp-2",
        "0x1.55553e1068f19p-5",
        "-0x1.6c087e89a359dp-10",
        "0x1.99343027bf8c3p-16",
    ).tolist()
)
_HALF_PI: Final = float.fromhex("0x1.921FB54442D18p0")
#: 2 / pi times 2^24: the quadrant comes out above 24 bits of fraction.
_QUADRANTS: Final = float.fromhex("0x1.45F306DC9C883p+23")
#: Of the sine in each quadrant; the cosine has that of the next one.
_SIGNS: Final = np.array([1, 1, -1, -1], np.float32)
#: Where the intervals of the logarithm begin, as bits of a float32.
_LOG_OFFSET: Final = 0x3F330000


def log(xp: Any, x: Array) -> Any:
    """The natural logarithm of normal positive float32 numbers."""
    bits = x.view(np.int32)
    shifted = bits - np.int32(_LOG_OFFSET)
    interval = (shifted >> 19) & 15
    exponent = shifted >> 23
    z = (bits - (exponent << 23)).view(np.float32).astype(np.float64)
    r = z * xp.asarray(_INVERSES)[interval] - 1.0
    base = xp.asarray(_LOGARITHMS)[interval] + exponent * _LN2
    r2 = r * r
    a0, a1, a2 = _LOG_POLYNOMIAL
    y = (a1 * r + a2) + a0 * r2
    return (y * r2 + (base + r)).astype(np.float32)


def sine_cosine(xp: Any, x: Array) -> tuple[Array, Array]:
    """Sine and cosine of float32 angles in [0, 120)."""
    angle = x.astype(np.float64)
    # Up to a quarter of pi the quadrant comes out as 0: nothing is subtracted.
    quadrant: Any = ((angle * _QUADRANTS).astype(np.int32) + np.int32(0x800000)) >> 24
    angle -= quadrant * _HALF_PI
    square = angle * angle
    # Of tiny angles the polynomials round to the angle itself, and to 1.
    s = _sine(angle, square)
    c = _cosine(square)
    odd = (quadrant & 1).astype(bool)
    sine, cosine = xp.where(odd, c, s), xp.where(odd, s, c)
    signs = xp.asarray(_SIGNS)
    sine *= signs[quadrant & 3]
    cosine *= signs[(quadrant + 1) & 3]
    return sine, cosine


def _sine(x: Array, x2: Array) -> Array:
    s1, s2, s3 = _SINE
    x3 = x * x2
    result: Array = ((x + x3 * s1) + (x3 * x2) * (s2 + x2 * s3)).astype(np.float32)
    return result


def _cosine(x2: Array) -> Array:
    c0, c1, c2, c3, c4 = _COSINE
    x4 = x2 * x2
    result: Array = (((c0 + x2 * c1) + x4 * c2) + (x4 * x2) * (c3 + x2 * c4)).astype(np.float32)
    return result
