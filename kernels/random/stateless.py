"""Random tensors that are a function of their seed: the same seed, the same numbers, every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common import philox
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.random.seeds import key_and_counter
from flowengine.kernels.random.stateful import categories, count_of, shape_of
from flowengine.kernels.registry import kernel


def drawn_by_seed(
    xp: Any, distribution: Callable[..., Array], shape: Array, seed: Array, dtype: DType
) -> Any:
    """Numbers of a shape that are a function of a seed of two integers."""
    dims = shape_of(shape)
    key, counter = key_and_counter(seed)
    count = count_of(dims)
    if not count:
        return xp.empty(dims, dtype.as_numpy_dtype)
    return distribution(xp, key, counter, count, dtype.base).reshape(dims)


def _cost(shape: Array, *rest: Any) -> float:
    return elements_of(shape) * 0.02


@kernel("StatelessRandomUniform", fresh=True, heavy=_cost, host=("shape", "seed"))
def stateless_random_uniform(xp: Any, shape: Array, seed: Array, *, dtype: DType) -> Any:
    """Numbers in [0, 1)."""
    return drawn_by_seed(xp, philox.uniform, shape, seed, dtype)


@kernel("StatelessRandomNormal", fresh=True, heavy=_cost, host=("shape", "seed"))
def stateless_random_normal(xp: Any, shape: Array, seed: Array, *, dtype: DType) -> Any:
    """Numbers of mean 0 and deviation 1."""
    return drawn_by_seed(xp, philox.normal, shape, seed, dtype)


@kernel("StatelessTruncatedNormal", fresh=True, heavy=_cost, host=("shape", "seed"))
def stateless_truncated_normal(xp: Any, shape: Array, seed: Array, *, dtype: DType) -> Any:
    """Numbers of a normal distribution, none beyond two deviations."""
    return drawn_by_seed(xp, philox.truncated_normal, shape, seed, dtype)


@kernel("StatelessRandomUniformInt", fresh=True, heavy=_cost, host=("shape", "seed", "minval", "maxval"))
def stateless_random_uniform_int(
    xp: Any, shape: Array, seed: Array, minval: Any, maxval: Any, *, dtype: DType
) -> Any:
    """Integers in [minval, maxval); InvalidArgumentError where that is empty."""
    return integers_by_seed(xp, philox.uniform_integers, shape, seed, minval, maxval, dtype)


def integers_by_seed(
    xp: Any, draw: Callable[..., Any], shape: Array, seed: Array, minval: Any, maxval: Any, dtype: DType
) -> Any:
    """Integers in [minval, maxval) by a seed, by `philox.uniform_integers` or its like."""
    for name, value in (("minval", minval), ("maxval", maxval)):
        if getattr(value, "ndim", 0):
            raise InvalidArgumentError(f"{name} must be 0-D, got shape {shape_text(value)}")
    low, high = int(minval), int(maxval)
    if low >= high:
        raise InvalidArgumentError(f"Need minval < maxval, got {low} >= {high}")

    def integers(xp: Any, key: int, counter: int, count: int, dtype: DType) -> Any:
        return draw(xp, key, counter, count, low, high, dtype)

    return drawn_by_seed(xp, integers, shape, seed, dtype)


@kernel("StatelessMultinomial", fresh=True, host=("num_samples", "seed"))
def stateless_multinomial(
    xp: Any, logits: Array, num_samples: Any, seed: Array, *, output_dtype: DType
) -> Any:
    """Draw classes: (B, C) unnormalised log-probabilities to (B, num_samples)."""
    key, counter = key_and_counter(seed)
    return categories(xp, logits, num_samples, output_dtype, lambda count: (key, counter))
