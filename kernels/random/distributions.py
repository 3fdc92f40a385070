"""Gamma- and Poisson-distributed numbers."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common import gamma_derivatives, philox
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.context import KernelContext
from flowengine.kernels.math.special import special_functions
from flowengine.kernels.random.keyed import start_of
from flowengine.kernels.random.seeds import key_and_counter
from flowengine.kernels.random.stateful import count_of, node_generator, shape_of
from flowengine.kernels.registry import kernel

# Poisson-distributed numbers, drawn until they are accepted.
#
# Each output has a stretch of counters of its own, so that all are drawn at once: those that are not yet
# accepted go on with their next counter.

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


def _poisson_numbers(key: int, start: int, rates: Array) -> Array:
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


def _poisson_samples(key: int, start: int, rate: Array, samples: int, dtype: DType) -> Array:
    """(samples, rates): the outputs of one rate have counters next to each other."""
    rates = np.repeat(rate.reshape(-1).astype(np.float64), samples)
    return _poisson_numbers(key, start, rates).reshape(rate.size, samples).T.astype(dtype.as_numpy_dtype)


def _of_node(shape: Array, rate: Array, dtype: DType, node: Node, ctx: KernelContext) -> Any:
    dims = shape_of(shape)
    samples = count_of(dims)
    if not samples:
        return np.empty(dims + rate.shape, dtype.as_numpy_dtype)
    if not rate.size:
        raise InvalidArgumentError("Input rate should have non-zero element count, got: 0")
    key, start = node_generator(ctx, node).reserve(samples * rate.size * philox.RESERVED)
    return _poisson_samples(key, start, rate, samples, dtype).reshape(dims + rate.shape)


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
    return _poisson_samples(key, start, lam, count // lam.size, dtype).reshape(dims)


# Gamma-distributed numbers by Marsaglia and Tsang's rejection from normal ones.
#
# Every output has a stretch of counters of its own, so that those accepted at the first or second try,
# nearly all, are computed at once and the others one by one.


def _pairs(key: int, start: int, outputs: Array, counter: int) -> tuple[Array, Array]:
    """Two normal and two uniform numbers of a counter of each output's stretch: (n, 2), (n, 2)."""
    low = np.uint64(start & ((1 << 64) - 1))
    places = outputs.astype(np.uint64) * np.uint64(philox.RESERVED) + np.uint64(counter) + low
    high = np.full(places.size, np.uint64(start >> 64)) + (places < low).astype(np.uint64)
    bits = philox.blocks(np, key, places, high)
    return philox.box_muller64(np, bits), philox.to_float64(bits[:, ::2], bits[:, 1::2])


def _accepted(x: Any, u: Any, v: Any, d: Any) -> Any:
    """Whether a candidate is kept: a cheap bound first, two logarithms else."""
    squeeze = u < 1 - 0.0331 * (x * x) * (x * x)
    return squeeze | (np.log(u) < 0.5 * x * x + d * (1 - v + np.log(v)))


def _one(key: int, start: int, alpha: float) -> float:
    """One number, drawn until it is accepted."""
    d = alpha + (2 / 3 if alpha < 1 else -1 / 3)
    c = 1 / 3 / math.sqrt(d)
    counter = 0
    normals: list[float] = []
    uniforms: list[float] = []

    def uniform() -> float:
        nonlocal counter
        if not uniforms:
            uniforms.extend(_pairs(key, start, np.zeros(1, np.int64), counter)[1][0].tolist())
            counter += 1
        return uniforms.pop()

    while True:
        if not normals:
            normals.extend(_pairs(key, start, np.zeros(1, np.int64), counter)[0][0].tolist())
            counter += 1
        x = normals.pop()
        v = 1 + c * x
        if v <= 0:
            continue
        v = v * v * v
        if bool(_accepted(x, uniform(), v, d)):
            number: float = d * v
            return number if alpha >= 1 else number * uniform() ** (1 / alpha if alpha else math.inf)


@kernel(
    "RandomGamma",
    device="CPU",
    fresh=True,
    heavy=lambda shape, alpha: float(np.prod(shape, dtype=float)) * alpha.size,
)
def random_gamma(shape: Array, alpha: Array, *, node: Node, ctx: KernelContext) -> Any:
    """Numbers of the gamma distributions with shape parameters alpha and scale 1: shape + alpha.shape."""
    dims = shape_of(shape)
    samples, kinds = count_of(dims), alpha.size
    if not samples * kinds:
        return np.empty(dims + alpha.shape, alpha.dtype)
    key, start = node_generator(ctx, node).reserve(samples * kinds * philox.RESERVED)
    return _gamma_samples(key, start, alpha, samples).reshape(dims + alpha.shape)


def _gamma_samples(key: int, start: int, alpha: Array, samples: int) -> Array:
    """(samples, parameters): the outputs of one parameter have counters next to each other."""
    parameters = np.repeat(alpha.reshape(-1).astype(np.float64), samples)
    return _gamma_numbers(key, start, parameters).reshape(alpha.size, samples).T.astype(alpha.dtype)


def _of_shape(shape: Array, start: tuple[int, int], alpha: Array) -> Any:
    dims = shape_of(shape)
    count = count_of(dims)
    if not count:
        return np.empty(dims, alpha.dtype)
    if dims[len(dims) - alpha.ndim :] != alpha.shape:
        raise InvalidArgumentError(
            f"Shape passed in must end with broadcasted shape: {brackets(dims)} and {brackets(alpha.shape)}"
        )
    return _gamma_samples(*start, alpha, count // alpha.size).reshape(dims)


def _stateless_cost(shape: Array, *rest: Any) -> float:
    return elements_of(shape)


@kernel("StatelessRandomGammaV2", device="CPU", fresh=True, heavy=_stateless_cost)
def stateless_random_gamma_v2(shape: Array, seed: Array, alpha: Array) -> Any:
    """Numbers of the gamma distributions with shape parameters alpha: of a shape that ends with theirs."""
    return _of_shape(shape, key_and_counter(seed), alpha)


@kernel("StatelessRandomGammaV3", device="CPU", fresh=True, heavy=_stateless_cost)
def stateless_random_gamma_v3(shape: Array, key: Array, counter: Array, alg: Any, alpha: Array) -> Any:
    """The same for a key and a counter."""
    return _of_shape(shape, start_of(key, counter, alg), alpha)


def _gamma_numbers(key: int, start: int, alpha: Array) -> Array:
    """One number for each parameter."""
    normals, first = _pairs(key, start, np.arange(alpha.size), 0)
    uniforms = _pairs(key, start, np.arange(alpha.size), 1)[1]
    result, kept, inside = _candidates(normals[:, 1], uniforms[:, 1], uniforms[:, 0], alpha)
    # The second try has its normal number already, and what uniform ones the first left over.
    again = np.flatnonzero(~kept)
    if again.size:
        spent = inside[again]
        third = _pairs(key, start, again, 2)[1]
        u = np.where(spent, uniforms[again, 0], uniforms[again, 1])
        b = np.where(spent, third[:, 1], uniforms[again, 0])
        result[again], kept[again], _ = _candidates(normals[again, 0], u, b, alpha[again])
    for place in np.flatnonzero(~kept & (alpha != 1)).tolist():
        result[place] = _one(key, start + philox.RESERVED * place, float(alpha[place]))
    # A parameter of 1 is the exponential distribution, drawn by its inverse.
    return np.where(alpha == 1, -np.log1p(-first[:, 1]), result)


def _candidates(x: Array, u: Array, b: Array, alpha: Array) -> tuple[Array, Array, Array]:
    """(number, whether it is accepted, whether its uniform number was needed) of one try each."""
    small = alpha < 1
    d = alpha + np.where(small, 2 / 3, -1 / 3)
    v = 1 + x / 3 / np.sqrt(d)
    inside = v > 0
    v = np.where(inside, v, 1.0)
    v = v * v * v
    # Below 1 a number for alpha + 1 is drawn and scaled down; for 0 that leaves 0.
    scale = np.where(small, b ** (1 / np.where(small, alpha, 1.0)), 1.0)
    return d * v * scale, inside & _accepted(x, u, v, d), inside


@kernel("RandomGammaGrad", fresh=True, heavy=lambda alpha, sample: (alpha.size + sample.size) * 1.0)
def random_gamma_grad(xp: Any, alpha: Array, sample: Array) -> Any:
    """The derivative of a number drawn with the shape parameter alpha with regard to it."""
    return gamma_derivatives.sample_grad(xp, special_functions(xp), alpha, sample)
