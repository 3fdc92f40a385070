"""Gamma-distributed numbers by Marsaglia and Tsang's rejection from normal ones.

Every output has a stretch of counters of its own, so that those accepted at the first try, nearly all,
are computed at once and the others one by one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.ir.graph import Node
from flowengine.kernels import philox
from flowengine.kernels.context import KernelContext
from flowengine.kernels.random import count_of, node_generator, shape_of
from flowengine.kernels.registry import kernel


def _pairs(key: int, start: int, outputs: Array, counter: int) -> tuple[Array, Array]:
    """Two normal and two uniform numbers of a counter of each output's stretch: (n, 2), (n, 2)."""
    low = np.uint64(start & ((1 << 64) - 1))
    places = outputs.astype(np.uint64) * np.uint64(philox.RESERVED) + np.uint64(counter) + low
    high = np.full(places.size, np.uint64(start >> 64)) + (places < low).astype(np.uint64)
    bits = philox.blocks(key, places, high)
    return philox.box_muller64(bits), philox.to_float64(bits[:, ::2], bits[:, 1::2])


def _accepted(x: Any, u: Any, v: Any, d: Any) -> Any:
    """Whether a candidate is kept: a cheap bound first, two logarithms else."""
    squeeze = u < 1 - 0.0331 * x**4
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
        v = v**3
        if _accepted(x, uniform(), v, d):
            return d * v * (uniform() ** (1 / alpha) if alpha < 1 else 1.0)


@kernel("RandomGamma", fresh=True, heavy=lambda shape, alpha: float(np.prod(shape, dtype=float)) * alpha.size)
def random_gamma(shape: Array, alpha: Array, *, node: Node, ctx: KernelContext) -> Any:
    """Numbers of the gamma distributions with shape parameters alpha and scale 1: shape + alpha.shape."""
    dims = shape_of(shape)
    samples, kinds = count_of(dims), alpha.size
    result = np.empty((samples, kinds), np.float64)
    if result.size:
        key, start = node_generator(ctx, node).reserve(samples * kinds * philox.RESERVED)
        for kind, value in enumerate(alpha.reshape(-1).astype(np.float64).tolist()):
            outputs = np.arange(samples) + kind * samples
            result[:, kind] = _many(key, start, outputs, value)
    return result.astype(alpha.dtype).reshape(dims + alpha.shape)


def _many(key: int, start: int, outputs: Array, alpha: float) -> Array:
    if alpha == 1.0:
        exponential: Array = -np.log(1 - _pairs(key, start, outputs, 0)[1][:, 1])
        return exponential
    d = alpha + (2 / 3 if alpha < 1 else -1 / 3)
    x = _pairs(key, start, outputs, 0)[0][:, 1]
    uniforms = _pairs(key, start, outputs, 1)[1]
    v = 1 + x / 3 / math.sqrt(d)
    inside = v > 0
    v = np.where(inside, v, 1.0) ** 3
    kept = inside & _accepted(x, uniforms[:, 1], v, d)
    result: Array = d * v * (uniforms[:, 0] ** (1 / alpha) if alpha < 1 else 1.0)
    for place in np.flatnonzero(~kept).tolist():
        result[place] = _one(key, start + philox.RESERVED * int(outputs[place]), alpha)
    return result
