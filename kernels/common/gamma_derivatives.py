"""The derivative of the incomplete gamma function P(a, x) with regard to a, and of a gamma number.

Up to a + 1 the power series of P is derived term by term, beyond it the continued fraction of 1 - P step by
step. Both are computed in float64 for a block of elements at once, until none changes; on a device for all.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, in_host_memory
from flowengine.kernels.common.ufuncs import incompatible_shapes

_STEPS_MAX: Final = 10_000
#: Elements at a time: what a step reads and writes stays in the cache.
_BLOCK: Final = 4096
#: What a sum or a fraction may still change by; the fraction's last bits never come to rest.
_PRECISION: Final = 1e-17
_RESTLESS: Final = 1e-15
#: Steps of a device between two looks whether it is enough.
_STEPS_BETWEEN: Final = 16


def igamma_grad_a(xp: Any, special: Any, a: Array, x: Array) -> Array:
    """dP/da; NaN where a <= 0 or x < 0. `special` has the array module's special functions."""
    return _of_both(xp, special, a, x, is_sample=False)


def sample_grad(xp: Any, special: Any, alpha: Array, sample: Array) -> Array:
    """The derivative of a number drawn from the gamma distribution: -(dP/da) / (dP/dx)."""
    return _of_both(xp, special, alpha, sample, is_sample=True)


def _of_both(xp: Any, special: Any, a: Array, x: Array, *, is_sample: bool) -> Array:
    dtype = a.dtype
    try:
        first, second = xp.broadcast_arrays(a, x)
    except ValueError:
        raise incompatible_shapes(a, x) from None
    if not in_host_memory(first):
        found: Array = _of_device(xp, special, first, second, is_sample=is_sample).astype(dtype)
        return found
    flat_a, flat_x = (v.astype(np.float64).reshape(-1) for v in (first, second))
    result = np.full(flat_a.shape, np.nan)
    # At the ends, and where what all terms have in common underflows, it is 0.
    inside = (flat_a > 0) & (flat_x >= 0) & np.isfinite(flat_a)
    result[inside] = 0.0
    common = np.full(flat_a.shape, -np.inf)
    within = np.flatnonzero(inside & (flat_x > 0) & (flat_x < np.inf))
    common[within] = _common(np, special, flat_a[within], flat_x[within])
    kept = common > -np.log(np.finfo(dtype).max)
    for chosen, derive in ((flat_x <= flat_a + 1, _series), (flat_x > flat_a + 1, _fraction)):
        places = np.flatnonzero(kept & chosen)
        for start in range(0, places.size, _BLOCK):
            at = places[start : start + _BLOCK]
            # dP/dx is exp(common) / x.
            factor = -flat_x[at] if is_sample else np.exp(common[at])
            result[at] = derive(np, special, flat_a[at], flat_x[at]) * factor
    return result.reshape(first.shape).astype(dtype)


def _of_device(xp: Any, special: Any, first: Array, second: Array, *, is_sample: bool) -> Any:
    """`_of_both` of a device's arrays: all elements at once, in float64."""
    a, x = first.astype(np.float64), second.astype(np.float64)
    inside = (a > 0) & (x >= 0) & xp.isfinite(a)
    within = inside & (x > 0) & (x < np.inf)
    a, x = xp.where(within, a, 1.0), xp.where(within, x, 1.0)
    common = xp.where(within, _common(xp, special, a, x), -np.inf)
    kept = common > -float(np.log(np.finfo(first.dtype).max))
    factor = -x if is_sample else xp.exp(common)
    result = xp.where(inside, 0.0, np.nan)
    # Elements of the other half, and those that are told already, are ones that end soon.
    for chosen, derive, easy in ((x <= a + 1, _series, 1.0), (x > a + 1, _fraction, 3.0)):
        is_here = kept & chosen
        found = derive(xp, special, xp.where(is_here, a, 1.0), xp.where(is_here, x, easy))
        result = xp.where(is_here, found * factor, result)
    return result


def _has_settled(steady: Array, step: int) -> bool:
    """Whether all elements are steady. A device is not asked after each step: to look at it takes longer."""
    return (in_host_memory(steady) or step % _STEPS_BETWEEN == 0) and bool(steady.all())


def _common(xp: Any, special: Any, a: Array, x: Array) -> Any:
    """The logarithm of x^a e^-x / gamma(a)."""
    return a * xp.log(x) - x - special.gammaln(a)


def _series(xp: Any, special: Any, a: Array, x: Array) -> Array:
    """dP/da over the common factor: the sum of x^k / (a ... (a + k)) (log x - digamma(a + k + 1))."""
    logarithm = xp.log(x)
    term, place, slope = 1 / a, a.copy(), special.digamma(a + 1)
    total: Array = term * (logarithm - slope)
    for step in range(_STEPS_MAX):
        place += 1
        term *= x / place
        slope += 1 / place
        add = term * (logarithm - slope)
        total += add
        if _has_settled(xp.abs(add) <= _PRECISION * xp.abs(total), step):
            break
    return total


def _fraction(xp: Any, special: Any, a: Array, x: Array) -> Array:
    """dP/da over the common factor, from 1 - P = exp(common) h(a, x), h a continued fraction.

    Numerators and denominators of its approximants go by one recurrence, their derivatives by its derivative.
    """
    weight = xp.log(x) - special.digamma(a)
    none, one = xp.zeros_like(a), xp.ones_like(a)
    # Rows: numerator, denominator, and the derivatives of both.
    before = xp.stack([none, one, none, none])
    divisor = x + 1 - a
    now = xp.stack([one, divisor, none, -one])
    value, slope = now[0] / now[1], one / (divisor * divisor)
    for i in range(1, _STEPS_MAX):
        factor = -i * (i - a)
        divisor = divisor + 2
        after = divisor * now + factor * before
        after[2:] += i * before[:2] - now[:2]
        next_value = after[0] / after[1]
        next_slope = (after[2] - next_value * after[3]) / after[1]
        size = xp.abs(next_value * weight) + xp.abs(next_slope)
        change = xp.abs((next_value - value) * weight) + xp.abs(next_slope - slope)
        steady = change <= _RESTLESS * size
        value, slope = next_value, next_slope
        scale = 1 / xp.abs(after[1])
        before, now = now * scale, after * scale
        if _has_settled(steady, i):
            break
    result: Array = -(value * weight + slope)
    return result
