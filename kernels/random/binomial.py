"""Binomially distributed numbers, drawn until they are accepted.

Each output has a stretch of counters of its own, so that all are drawn at once: those that are not yet
accepted go on with their next counter.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common import philox
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.random.keyed import check_algorithm, reserve
from flowengine.kernels.random.seeds import key_and_counter
from flowengine.kernels.random.stateful import count_of, shape_of
from flowengine.kernels.registry import kernel

#: Up to this mean, geometric numbers are added up; above it candidates are taken or not.
_SMALL_MEANS: Final = 10
#: Counters from one output to the next, for each of both ways.
_STRETCH: Final = (42, 256)
#: Counters that one output may use before it is given up as NaN.
_COUNTERS_MAX: Final = 1 << 16
#: The error of Stirling's approximation of log k!, for k up to 9.
_TAILS: Final = np.array(
    [
        0.0810614667953272,
        0.0413406959554092,
        0.0276779256849983,
        0.02079067210376509,
        0.0166446911898211,
        0.0138761288230707,
        0.0118967099458917,
        0.0104112652619720,
        0.00925546218271273,
        0.00833056343336287,
    ]
)


def _pairs(key: int, start: int, places: Array, counter: int) -> Array:
    """Two uniform numbers of a counter of each stretch, the last one first: (n, 2)."""
    low = np.uint64(start & ((1 << 64) - 1))
    at = places.astype(np.uint64) + np.uint64(counter) + low
    high = np.full(at.size, np.uint64(start >> 64)) + (at < low).astype(np.uint64)
    bits = philox.blocks(np, key, at, high)
    numbers = philox.to_float64(bits[:, ::2], bits[:, 1::2])
    return numbers[:, ::-1]


def _inverted(key: int, start: int, places: Array, count: Array, share: Array) -> Array:
    """How many geometric numbers add up to the count."""
    total, number = np.zeros(count.shape), np.zeros(count.shape)
    failed = np.log1p(-share)
    pending = np.arange(count.size)
    for counter in range(_COUNTERS_MAX):
        if not pending.size:
            break
        for uniform in _pairs(key, start, places[pending], counter).T:
            total[pending] += np.ceil(np.log(uniform) / failed[pending])
            number[pending] += total[pending] <= count[pending]
        pending = pending[total[pending] <= count[pending]]
    return number


def _tail(k: Array) -> Array:
    """The error of Stirling's approximation."""
    square = (k + 1) * (k + 1)
    far = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
    near: Array = _TAILS[np.clip(np.nan_to_num(k), 0, 9).astype(np.int64)]
    return np.where(k <= 9, near, far)


def _rejected(key: int, start: int, places: Array, count: Array, share: Array) -> Array:
    """Transformed rejection (Hörmann, 1993, "The generation of binomial random variates")."""
    deviation = np.sqrt(count * share * (1 - share))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * share
    c = count * share + 0.5
    box = 0.92 - 4.2 / b
    odds = share / (1 - share)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = np.floor((count + 1) * share)
    result = np.full(count.shape, np.nan)
    at = np.arange(count.size)
    for counter in range(_COUNTERS_MAX):
        if not at.size:
            break
        u, v = _pairs(key, start, places[at], counter).T
        u = u - 0.5
        shifted = 0.5 - np.abs(u)
        n, r, m = count[at], odds[at], mode[at]
        k = np.floor((2 * a[at] / shifted + b[at]) * u + c[at])
        quick = (shifted >= 0.07) & (v <= box[at])
        inside = (k >= 0) & (k <= n)
        bound = (
            (m + 0.5) * np.log((m + 1) / (r * (n - m + 1)))
            + (n + 1) * np.log((n - m + 1) / (n - k + 1))
            + (k + 0.5) * np.log(r * (n - k + 1) / (k + 1))
            + _tail(m)
            + _tail(n - m)
            - _tail(k)
            - _tail(n - k)
        )
        kept = quick | (inside & (np.log(v * alpha[at] / (a[at] / (shifted * shifted) + b[at])) <= bound))
        result[at[kept]] = k[kept]
        at = at[~kept]
    return result


def _many(key: int, start: int, counts: Array, probs: Array) -> Array:
    """One number for each count and probability, as float64; NaN where the probability is NaN."""
    of = counts.dtype.type
    flipped = probs > of(0.5)
    share = np.where(flipped, of(1) - probs, probs)
    nothing = (counts <= 0) | (probs <= 0)
    everything = ~nothing & (probs >= 1)
    drawn = ~nothing & ~everything & (share > 0) & np.isfinite(counts)
    large = counts * share >= of(_SMALL_MEANS)
    result = np.where(nothing, 0.0, np.where(everything, counts.astype(np.float64), np.nan))
    for way, draw in ((~large, _inverted), (large, _rejected)):
        at = np.flatnonzero(drawn & way)
        if at.size:
            places = at * _STRETCH[int(draw is _rejected)]
            found = draw(key, start, places, counts[at].astype(np.float64), share[at].astype(np.float64))
            result[at] = np.where(flipped[at], counts[at] - found, found)
    return result


def _batches(shape: Array, counts: Array, probs: Array) -> tuple[tuple[int, ...], Array, Array]:
    """The shape as numbers, and both parameters broadcast to what it must end with."""
    try:
        both = np.broadcast_arrays(counts, probs)
    except ValueError:
        raise InvalidArgumentError(
            "counts and probs must have compatible batch dimensions: "
            f"{brackets(counts.shape)} vs. {brackets(probs.shape)}"
        ) from None
    dims = shape_of(shape)
    inner = both[0].shape
    if dims[len(dims) - len(inner) :] != inner:
        raise InvalidArgumentError(
            f"Shape passed in must end with broadcasted shape: {brackets(dims)} and {brackets(inner)}"
        )
    return dims, both[0].reshape(-1), both[1].reshape(-1)


def _samples(key: int, start: int, dims: tuple[int, ...], counts: Array, probs: Array, dtype: DType) -> Array:
    samples = count_of(dims) // counts.size
    drawn = _many(key, start, np.repeat(counts, samples), np.repeat(probs, samples))
    return drawn.reshape(counts.size, samples).T.reshape(dims).astype(dtype.as_numpy_dtype)


def _cost(shape: Array) -> float:
    return elements_of(shape) * 0.5


@kernel(
    "StatefulRandomBinomial",
    device="CPU",
    types={"T": ("float16", "float32", "float64")},
    heavy=lambda resource, algorithm, shape, *rest: _cost(shape),
)
def stateful_random_binomial(
    resource: object, algorithm: Any, shape: Array, counts: Array, probs: Array, *, dtype: DType
) -> Any:
    """How many of `counts` tries succeed, each with probability `probs`.

    The shape ends with that of both, broadcast.
    """
    dims, flat_counts, flat_probs = _batches(shape, counts, probs)
    check_algorithm(algorithm)
    batches = max(flat_counts.size, 1)
    samples = count_of(dims) // batches
    # So many numbers reserve 256 counters each.
    key, start, _ = reserve(resource, batches * 2 * 100 * (samples + 3) // 4 * philox.RESERVED)
    if not count_of(dims):
        return np.empty(dims, dtype.as_numpy_dtype)
    return _samples(key, start, dims, flat_counts, flat_probs, dtype)


@kernel(
    "StatelessRandomBinomial",
    device="CPU",
    types={"T": ("float16", "float32", "float64")},
    fresh=True,
    heavy=lambda shape, *rest: _cost(shape),
)
def stateless_random_binomial(shape: Array, seed: Array, counts: Array, probs: Array, *, dtype: DType) -> Any:
    """How many of `counts` tries succeed, each with probability `probs`.

    The shape ends with that of both, broadcast.
    """
    dims, flat_counts, flat_probs = _batches(shape, counts, probs)
    key, start = key_and_counter(seed)
    if not count_of(dims):
        return np.empty(dims, dtype.as_numpy_dtype)
    return _samples(key, start, dims, flat_counts, flat_probs, dtype)
