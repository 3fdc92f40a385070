"""The derivative of the incomplete gamma function P(a, x) with regard to a, and of a gamma number.

Over x^a e^-x / gamma(a), the two first terms of P's power series, derived, are added to an integral up to a +
1; beyond it the derivative is that of P - 1, one integral. Neither changes its sign, so no digits are lost.
All values use the same nodes, whose number is enough for every value, so no value has to be read.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, in_host_memory
from flowengine.kernels.common.ufuncs import incompatible_shapes

#: Numbers at a time in host memory: what a step reads and writes stays in the cache.
_BLOCK: Final = 4096
#: Values of the integrand that are computed together.
_TOGETHER: Final = 1 << 17


def _nodes() -> tuple[Array, Array]:
    """Return the points and weights to integrate a function from 0 to infinity that falls as e^-u.

    The points are u = exp(t - exp(-t)), t in equal steps: 1e-11 of the integral at most is lost (seen for a
    from 1e-9 to 1e5), where twice as many points are good for 1e-14.
    """
    steps = np.arange(-3.55, 3.8, 0.1)
    points = np.exp(steps - np.exp(-steps))
    return points, points * (1 + np.exp(-steps)) * 0.1


_POINTS, _WEIGHTS = _nodes()


def igamma_grad_a(xp: Any, special: Any, a: Array, x: Array) -> Any:
    """dP/da; NaN where a <= 0 or x < 0. `special` has the functions of `scipy.special` for such arrays."""
    return _of_both(xp, special, a, x, is_sample=False)


def sample_grad(xp: Any, special: Any, alpha: Array, sample: Array) -> Any:
    """The derivative of a number drawn from the gamma distribution: -(dP/da) / (dP/dx)."""
    return _of_both(xp, special, alpha, sample, is_sample=True)


def _of_both(xp: Any, special: Any, a: Array, x: Array, *, is_sample: bool) -> Any:
    try:
        shape = xp.broadcast_shapes(a.shape, x.shape)
    except ValueError:
        raise incompatible_shapes(a, x) from None
    flat_a, flat_x = (xp.broadcast_to(v.astype(np.float64), shape).reshape(-1) for v in (a, x))
    most = float(np.finfo(a.dtype).max)
    block = _BLOCK if in_host_memory(flat_a) else max(flat_a.size, 1)
    parts = [
        _of_block(xp, special, flat_a[start : start + block], flat_x[start : start + block], most, is_sample)
        for start in range(0, max(flat_a.size, 1), block)
    ]
    result = xp.concatenate(parts) if len(parts) > 1 else parts[0]
    return result.reshape(shape).astype(a.dtype)


def _of_block(xp: Any, special: Any, a: Array, x: Array, most: float, is_sample: bool) -> Any:
    valid = xp.logical_and(xp.logical_and(a > 0, xp.isfinite(a)), x >= 0)
    inside = xp.logical_and(xp.logical_and(valid, x > 0), xp.isfinite(x))
    # Elements outside are computed from 1 and dropped, so that their number need not be known.
    a, x = xp.where(inside, a, 1.0), xp.where(inside, x, 1.0)
    log_x = xp.log(x)
    common = a * log_x - x - special.gammaln(a)
    # dP/dx is exp(common) / x.
    factor = -x if is_sample else xp.exp(common)
    # At the ends, and where what all terms have in common underflows, it is 0.
    kept = xp.logical_and(inside, common > -math.log(most))
    found = xp.where(kept, _over_common(xp, special, a, x, log_x) * factor, 0.0)
    return xp.where(valid, found, np.nan)


def _over_common(xp: Any, special: Any, a: Array, x: Array, log_x: Array) -> Any:
    """dP/da over x^a e^-x / gamma(a).

    From 1/a (log x - digamma(a + 1)) + x/(a (a + 1)) (log x - digamma(a + 2)) the rest of the series is
    x^2/(a (a + 1)) times the integral of exp(-(a + 2) u + x - x e^-u) (log x - digamma(a + 2) - u).
    """
    is_low = x <= a + 1
    first = special.digamma(a + 1)
    slope = first + 1 / (a + 1)
    share = x / (a * (a + 1))
    terms = (log_x - first) / a + share * (log_x - slope)
    share = share * x
    order = xp.where(is_low, a + 2, a)
    # Both integrands fall like exp(-u) over so much, or faster.
    width = 1 / xp.maximum(xp.where(is_low, order - x, x - a), xp.sqrt(xp.maximum(order, x)))
    begin = xp.where(is_low, log_x - slope, special.digamma(a) - log_x)
    integral = _integral(xp, xp.where(is_low, -width, width), order - x, x, begin, width) * width
    return xp.where(is_low, terms + share * integral, integral)


def _integral(xp: Any, signed: Array, linear: Array, curved: Array, begin: Array, width: Array) -> Any:
    """The integral over u > 0 of exp(linear v - curved (e^v - 1 - v)) (begin - width u), v = signed u."""
    total: Any = 0.0
    count = max(1, min(len(_POINTS), _TOGETHER // max(signed.size, 1)))
    for first in range(0, len(_POINTS), count):
        points = xp.asarray(_POINTS[first : first + count, None])
        weights = xp.asarray(_WEIGHTS[first : first + count, None])
        v = signed * points
        falls = xp.exp(linear * v - curved * (xp.expm1(v) - v))
        total = total + (weights * falls * (begin - width * points)).sum(0)
    return total
