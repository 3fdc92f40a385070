"""The derivative of the incomplete gamma function P(a, x) with regard to a, and of a gamma number.

Up to a + 1 the power series of P is derived term by term, beyond it the continued fraction of 1 - P step by
step. Both are computed in float64 for a block of elements at once, until none changes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.common.ufuncs import incompatible_shapes

_STEPS_MAX: Final = 10_000
#: Elements at a time: what a step reads and writes stays in the cache.
_BLOCK: Final = 4096
#: What a sum or a fraction may still change by; the fraction's last bits never come to rest.
_PRECISION: Final = 1e-17
_RESTLESS: Final = 1e-15


def igamma_grad_a(a: Array, x: Array) -> Array:
    """dP/da; NaN where a <= 0 or x < 0."""
    return _of_both(a, x, is_sample=False)


def sample_grad(alpha: Array, sample: Array) -> Array:
    """The derivative of a number drawn from the gamma distribution: -(dP/da) / (dP/dx)."""
    return _of_both(alpha, sample, is_sample=True)


def _of_both(a: Array, x: Array, *, is_sample: bool) -> Array:
    dtype = a.dtype
    try:
        first, second = np.broadcast_arrays(a, x)
    except ValueError:
        raise incompatible_shapes(a, x) from None
    flat_a, flat_x = (v.astype(np.float64).reshape(-1) for v in (first, second))
    result = np.full(flat_a.shape, np.nan)
    # At the ends, and where what all terms have in common underflows, it is 0.
    inside = (flat_a > 0) & (flat_x >= 0) & np.isfinite(flat_a)
    result[inside] = 0.0
    common = np.full(flat_a.shape, -np.inf)
    within = np.flatnonzero(inside & (flat_x > 0) & (flat_x < np.inf))
    common[within] = _common(flat_a[within], flat_x[within])
    kept = common > -np.log(np.finfo(dtype).max)
    for chosen, derive in ((flat_x <= flat_a + 1, _series), (flat_x > flat_a + 1, _fraction)):
        places = np.flatnonzero(kept & chosen)
        for start in range(0, places.size, _BLOCK):
            at = places[start : start + _BLOCK]
            # dP/dx is exp(common) / x.
            factor = -flat_x[at] if is_sample else np.exp(common[at])
            result[at] = derive(flat_a[at], flat_x[at]) * factor
    return result.reshape(first.shape).astype(dtype)


def _common(a: Array, x: Array) -> Any:
    """The logarithm of x^a e^-x / gamma(a)."""
    from scipy.special import gammaln

    return a * np.log(x) - x - gammaln(a)


def _series(a: Array, x: Array) -> Array:
    """dP/da over the common factor: the sum of x^k / (a ... (a + k)) (log x - digamma(a + k + 1))."""
    from scipy.special import digamma

    logarithm = np.log(x)
    term, place, slope = 1 / a, a.copy(), digamma(a + 1)
    total: Array = term * (logarithm - slope)
    for _ in range(_STEPS_MAX):
        place += 1
        term *= x / place
        slope += 1 / place
        add = term * (logarithm - slope)
        total += add
        if (np.abs(add) <= _PRECISION * np.abs(total)).all():
            break
    return total


def _fraction(a: Array, x: Array) -> Array:
    """dP/da over the common factor, from 1 - P = exp(common) h(a, x), h a continued fraction.

    Numerators and denominators of its approximants go by one recurrence, their derivatives by its derivative.
    """
    from scipy.special import digamma

    weight = np.log(x) - digamma(a)
    none, one = np.zeros_like(a), np.ones_like(a)
    # Rows: numerator, denominator, and the derivatives of both.
    before = np.stack([none, one, none, none])
    divisor = x + 1 - a
    now = np.stack([one, divisor, none, -one])
    value, slope = now[0] / now[1], one / (divisor * divisor)
    for i in range(1, _STEPS_MAX):
        factor = -i * (i - a)
        divisor = divisor + 2
        after = divisor * now + factor * before
        after[2:] += i * before[:2] - now[:2]
        next_value = after[0] / after[1]
        next_slope = (after[2] - next_value * after[3]) / after[1]
        size = np.abs(next_value * weight) + np.abs(next_slope)
        change = np.abs((next_value - value) * weight) + np.abs(next_slope - slope)
        steady = change <= _RESTLESS * size
        value, slope = next_value, next_slope
        scale = 1 / np.abs(after[1])
        before, now = now * scale, after * scale
        if steady.all():
            break
    result: Array = -(value * weight + slope)
    return result
