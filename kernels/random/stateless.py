"""Random tensors that are a function of their seed: the same seed, the same numbers, every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common import philox
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.random.stateful import categories, count_of, shape_of
from flowengine.kernels.registry import kernel

_MASK64 = (1 << 64) - 1
#: The key under which a seed is scrambled, so that a caller need not know which of its bits are strong.
_SCRAMBLE_KEY = 0x02461E29 << 32 | 0x3EC8F720


def key_and_counter(seed: Array) -> tuple[int, int]:
    """The generator's key and first counter from two integers; InvalidArgumentError for other shapes."""
    if seed.shape != (2,):
        raise InvalidArgumentError(f"seed must have shape [2], not {shape_text(seed)}")
    first, second = (int(s) & _MASK64 for s in seed.tolist())
    mixed = philox.counted(_SCRAMBLE_KEY, second << 64 | first, 1)[0].tolist()
    return mixed[1] << 32 | mixed[0], (mixed[3] << 32 | mixed[2]) << 64


def _draw(distribution: Callable[..., Array], shape: Array, seed: Array, dtype: DType) -> Any:
    dims = shape_of(shape)
    key, counter = key_and_counter(seed)
    count = count_of(dims)
    if not count:
        return np.empty(dims, dtype.as_numpy_dtype)
    return distribution(key, counter, count, dtype.base).reshape(dims)


def _cost(shape: Array, *rest: Any) -> float:
    return float(np.prod(shape, dtype=np.float64)) * 0.02


@kernel("StatelessRandomUniform", fresh=True, heavy=_cost)
def stateless_random_uniform(shape: Array, seed: Array, *, dtype: DType) -> Any:
    """Numbers in [0, 1)."""
    return _draw(philox.uniform, shape, seed, dtype)


@kernel("StatelessRandomNormal", fresh=True, heavy=_cost)
def stateless_random_normal(shape: Array, seed: Array, *, dtype: DType) -> Any:
    """Numbers of mean 0 and deviation 1."""
    return _draw(philox.normal, shape, seed, dtype)


@kernel("StatelessTruncatedNormal", fresh=True, heavy=_cost)
def stateless_truncated_normal(shape: Array, seed: Array, *, dtype: DType) -> Any:
    """Numbers of a normal distribution, none beyond two deviations."""
    return _draw(philox.truncated_normal, shape, seed, dtype)


@kernel("StatelessRandomUniformInt", fresh=True, heavy=_cost)
def stateless_random_uniform_int(shape: Array, seed: Array, minval: Any, maxval: Any, *, dtype: DType) -> Any:
    """Integers in [minval, maxval); InvalidArgumentError where that is empty."""
    for name, value in (("minval", minval), ("maxval", maxval)):
        if getattr(value, "ndim", 0):
            raise InvalidArgumentError(f"{name} must be 0-D, got shape {shape_text(value)}")
    low, high = int(minval), int(maxval)
    if low >= high:
        raise InvalidArgumentError(f"Need minval < maxval, got {low} >= {high}")

    def integers(key: int, counter: int, count: int, dtype: DType) -> Array:
        return philox.uniform_integers(key, counter, count, low, high, dtype)

    return _draw(integers, shape, seed, dtype)


@kernel("StatelessMultinomial", fresh=True)
def stateless_multinomial(logits: Array, num_samples: Any, seed: Array, *, output_dtype: DType) -> Any:
    """Draw classes: (B, C) unnormalised log-probabilities to (B, num_samples)."""
    key, counter = key_and_counter(seed)
    return categories(logits, num_samples, output_dtype, lambda count: (key, counter))
