"""Gamma-distributed numbers by Marsaglia and Tsang's rejection from normal ones.

Every output has a stretch of counters of its own, so that those accepted at the first or second try,
nearly all, are computed at once and the others one by one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
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
    return _samples(key, start, alpha, samples).reshape(dims + alpha.shape)


def _samples(key: int, start: int, alpha: Array, samples: int) -> Array:
    """(samples, parameters): the outputs of one parameter have counters next to each other."""
    parameters = np.repeat(alpha.reshape(-1).astype(np.float64), samples)
    return _many(key, start, parameters).reshape(alpha.size, samples).T.astype(alpha.dtype)


def _of_shape(shape: Array, start: tuple[int, int], alpha: Array) -> Any:
    dims = shape_of(shape)
    count = count_of(dims)
    if not count:
        return np.empty(dims, alpha.dtype)
    if dims[len(dims) - alpha.ndim :] != alpha.shape:
        raise InvalidArgumentError(
            f"Shape passed in must end with broadcasted shape: {brackets(dims)} and {brackets(alpha.shape)}"
        )
    return _samples(*start, alpha, count // alpha.size).reshape(dims)


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


def _many(key: int, start: int, alpha: Array) -> Array:
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
