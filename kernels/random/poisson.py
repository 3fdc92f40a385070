"""Poisson-distributed numbers, drawn until they are accepted.

Each output has a stretch of counters of its own, so that all are drawn at once: those that are not yet
accepted go on with their next counter.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common import philox
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.context import KernelContext
from flowengine.kernels.random.seeds import key_and_counter
from flowengine.kernels.random.stateful import count_of, node_generator, shape_of
from flowengine.kernels.registry import kernel

#: Below this the intervals of a process are multiplied, from it on candidates are taken or not.
_SMALL_RATES: Final = 10
#: Counters that one output may use before it is given up as NaN: its own stretch, many times.
_COUNTERS_MAX: Final = 1 << 16


def _cost(shape: Array, rate: Any, *rest: Any) -> float:
    return float(elements_of(shape) * rate.size * 0.3)


class _Uniforms:
    """The uniform numbers of each output's stretch of counters, those of the next counter at each call."""

    def __init__(self, key: int, start: int) -> None:
        self._key, self._start = key, start
        self._counter = 0

    def next(self, outputs: Array) -> Array:
        """(n,) places -> (n, 2), the last number of a counter first"""
        low = np.uint64(self._start & ((1 << 64) - 1))
        places = outputs.astype(np.uint64) * np.uint64(philox.RESERVED) + np.uint64(self._counter) + low
        high = np.full(places.size, np.uint64(self._start >> 64)) + (places < low).astype(np.uint64)
        bits = philox.blocks(np, self._key, places, high)
        self._counter += 1
        return philox.to_float64(bits[:, ::2], bits[:, 1::2])[:, ::-1]

    @property
    def is_spent(self) -> bool:
        return self._counter >= _COUNTERS_MAX


def _many(key: int, start: int, rates: Array) -> Array:
    """One number for each rate, in float64; NaN where the rate is no finite number."""
    result = np.full(rates.shape, np.nan, rates.dtype)
    small, large = rates < _SMALL_RATES, (rates >= _SMALL_RATES) & (rates < np.inf)
    for outputs, draw in ((np.flatnonzero(small), _multiplied), (np.flatnonzero(large), _rejected)):
        if outputs.size:
            result[outputs] = draw(_Uniforms(key, start), outputs, rates[outputs])
    return result


def _multiplied(uniforms: _Uniforms, outputs: Array, rates: Array) -> Array:
    """How many uniform numbers are multiplied before the product is at most exp(-rate) (Knuth)."""
    least = np.exp(-rates)
    product, counted = np.ones_like(rates), np.zeros_like(rates)
    pending = np.arange(rates.size)
    while pending.size and not uniforms.is_spent:
        numbers = uniforms.next(outputs[pending])
        for column in numbers.T:
            product[pending] *= column
            going = product[pending] > least[pending]
            counted[pending] += going
            # Those that have ended stay below.
            product[pending[~going]] = 0
        pending = pending[product[pending] > least[pending]]
    return counted


def _rejected(uniforms: _Uniforms, outputs: Array, rates: Array) -> Array:
    """Transformed rejection (Hörmann, 1993, "The transformed rejection method for Poisson variables")."""
    from scipy.special import gammaln

    logarithm = np.log(rates)
    b = 0.931 + 2.53 * np.sqrt(rates)
    a = -0.059 + 0.02483 * b
    steepness = 1.1239 + 1.1328 / (b - 3.4)
    box = 0.9277 - 3.6224 / (b - 2)
    result = np.full_like(rates, np.nan)
    pending = np.arange(rates.size)
    while pending.size and not uniforms.is_spent:
        numbers = uniforms.next(outputs[pending])
        for pair in range(0, numbers.shape[1], 2):
            here = np.flatnonzero(np.isnan(result[pending]))
            at = pending[here]
            u, v = numbers[here, pair] - 0.5, numbers[here, pair + 1]
            shifted = 0.5 - np.abs(u)
            k = np.floor((2 * a[at] / shifted + b[at]) * u + rates[at] + 0.43)
            quick = (shifted >= 0.07) & (v <= box[at])
            never = (k < 0) | ((shifted < 0.013) & (v > shifted))
            ratio = v * steepness[at] / (a[at] / (shifted * shifted) + b[at])
            s = np.log(ratio)
            gamma = gammaln(np.maximum(k, 0) + 1)
            kept = quick | (~never & (s <= -rates[at] + k * logarithm[at] - gamma))
            result[at[kept]] = k[kept]
        pending = pending[np.isnan(result[pending])]
    return result


def _samples(key: int, start: int, rate: Array, samples: int, dtype: DType) -> Array:
    """(samples, rates): the outputs of one rate have counters next to each other."""
    rates = np.repeat(rate.reshape(-1).astype(np.float64), samples)
    return _many(key, start, rates).reshape(rate.size, samples).T.astype(dtype.as_numpy_dtype)


def _of_node(shape: Array, rate: Array, dtype: DType, node: Node, ctx: KernelContext) -> Any:
    dims = shape_of(shape)
    samples = count_of(dims)
    if not samples:
        return np.empty(dims + rate.shape, dtype.as_numpy_dtype)
    if not rate.size:
        raise InvalidArgumentError("Input rate should have non-zero element count, got: 0")
    key, start = node_generator(ctx, node).reserve(samples * rate.size * philox.RESERVED)
    return _samples(key, start, rate, samples, dtype).reshape(dims + rate.shape)


@kernel("RandomPoisson", device="CPU", fresh=True, heavy=_cost)
def random_poisson(shape: Array, rate: Array, *, dtype: DType, node: Node, ctx: KernelContext) -> Any:
    """Numbers of the Poisson distributions with these rates: shape + rate.shape, of the rates' type.

    For a CPU: TensorFlow has no kernel for GPUs.
    """
    return _of_node(shape, rate, dtype, node, ctx)


@kernel("RandomPoissonV2", device="CPU", fresh=True, heavy=_cost)
def random_poisson_v2(shape: Array, rate: Array, *, dtype: DType, node: Node, ctx: KernelContext) -> Any:
    """Numbers of the Poisson distributions with these rates: shape + rate.shape."""
    return _of_node(shape, rate, dtype, node, ctx)


@kernel(
    "StatelessRandomPoisson", device="CPU", fresh=True, heavy=lambda shape, *rest: _cost(shape, np.float32(0))
)
def stateless_random_poisson(shape: Array, seed: Array, lam: Array, *, dtype: DType) -> Any:
    """Numbers of the Poisson distributions with these rates: of a shape that ends with theirs."""
    dims = shape_of(shape)
    key, start = key_and_counter(seed)
    if dims[len(dims) - lam.ndim :] != lam.shape:
        raise InvalidArgumentError(
            f"Shape passed in must end with broadcasted shape: {brackets(dims)} and {brackets(lam.shape)}"
        )
    count = count_of(dims)
    if not count:
        return np.empty(dims, dtype.as_numpy_dtype)
    return _samples(key, start, lam, count // lam.size, dtype).reshape(dims)
