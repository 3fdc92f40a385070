"""Random tensors that are a function of a key and a counter, which other ops make of a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common import philox
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.common.host_vectors import vector
from flowengine.kernels.random.seeds import key_and_counter
from flowengine.kernels.random.stateful import count_of, shape_of, shuffled
from flowengine.kernels.registry import kernel

#: TensorFlow's numbers of algorithms: the one that there is here, and the one that leaves it to the device.
PHILOX: Final = 1
_ANY: Final = 3
_LOW: Final = (1 << 64) - 1


def check_algorithm(alg: Any) -> None:
    """InvalidArgumentError for any algorithm but Philox."""
    if alg.ndim:
        raise InvalidArgumentError(f"algorithm must be of shape [], not {brackets(alg.shape)}")
    if int(alg) not in (PHILOX, _ANY):
        raise InvalidArgumentError(f"Unsupported algorithm id: {int(alg)}")


def check_key(key: Array) -> None:
    """InvalidArgumentError for any shape but that of one number."""
    if key.shape != (1,):
        raise InvalidArgumentError(f"key must have shape [1], not {brackets(key.shape)}")


def start_of(key: Array, counter: Array, alg: Any) -> tuple[int, int]:
    """The generator's key and first counter; InvalidArgumentError for other shapes or another algorithm."""
    check_algorithm(alg)
    check_key(key)
    if counter.ndim != 1 or counter.shape[0] < 2:
        raise InvalidArgumentError(
            f"counter must be a vector of 2 numbers, but has shape {brackets(counter.shape)}"
        )
    low, high = (int(c) for c in counter[:2].tolist())
    return int(key[0]), high << 64 | low


def _key_counter(seed: Array) -> tuple[Array, Array]:
    key, counter = key_and_counter(seed)
    return vector([key], np.uint64), vector([counter & _LOW, counter >> 64], np.uint64)


@kernel("StatelessRandomGetKeyCounter", device=None, host=("seed", "key", "counter"), heavy=False)
def stateless_random_get_key_counter(seed: Array) -> tuple[Array, Array]:
    """The key (1,) and the counter (2,), uint64, that belong to a seed of two integers."""
    return _key_counter(seed)


@kernel("StatelessRandomGetKeyCounterAlg", device=None, host=("seed", "key", "counter", "alg"), heavy=False)
def stateless_random_get_key_counter_alg(seed: Array) -> tuple[Array, Array, Any]:
    """As before, and the algorithm's number."""
    return *_key_counter(seed), np.int32(PHILOX)


@kernel("StatelessRandomGetAlg", device=None, host=("alg",), heavy=False)
def stateless_random_get_alg() -> Any:
    """The number of the algorithm, Philox."""
    return np.int32(PHILOX)


def _cost(shape: Array, *rest: Any) -> float:
    return elements_of(shape) * 0.02


_HOST: Final = ("shape", "key", "counter", "alg")


def drawn_from(
    xp: Any, distribution: Callable[..., Any], shape: Array, start: tuple[int, int], dtype: DType
) -> Any:
    """Numbers of a shape from a key and a counter on."""
    dims = shape_of(shape)
    count = count_of(dims)
    if not count:
        return xp.empty(dims, dtype.as_numpy_dtype)
    return distribution(xp, *start, count, dtype.base).reshape(dims)


@kernel("StatelessRandomUniformV2", fresh=True, heavy=_cost, host=_HOST)
def stateless_random_uniform_v2(
    xp: Any, shape: Array, key: Array, counter: Array, alg: Any, *, dtype: DType
) -> Any:
    """Numbers in [0, 1)."""
    return drawn_from(xp, philox.uniform, shape, start_of(key, counter, alg), dtype)


@kernel("StatelessRandomNormalV2", fresh=True, heavy=_cost, host=_HOST)
def stateless_random_normal_v2(
    xp: Any, shape: Array, key: Array, counter: Array, alg: Any, *, dtype: DType
) -> Any:
    """Numbers of mean 0 and deviation 1."""
    return drawn_from(xp, philox.normal, shape, start_of(key, counter, alg), dtype)


@kernel("StatelessTruncatedNormalV2", fresh=True, heavy=_cost, host=_HOST)
def stateless_truncated_normal_v2(
    xp: Any, shape: Array, key: Array, counter: Array, alg: Any, *, dtype: DType
) -> Any:
    """Numbers of a normal distribution, none beyond two deviations."""
    return drawn_from(xp, philox.truncated_normal, shape, start_of(key, counter, alg), dtype)


@kernel("StatelessRandomUniformFullIntV2", fresh=True, heavy=_cost, host=_HOST)
def stateless_random_uniform_full_int_v2(
    xp: Any, shape: Array, key: Array, counter: Array, alg: Any, *, dtype: DType
) -> Any:
    """Integers of all values that the type has."""
    return drawn_from(xp, philox.full_integers, shape, start_of(key, counter, alg), dtype)


@kernel("StatelessRandomUniformFullInt", fresh=True, heavy=_cost, host=("shape", "seed"))
def stateless_random_uniform_full_int(xp: Any, shape: Array, seed: Array, *, dtype: DType) -> Any:
    """Integers of all values that the type has."""
    return drawn_from(xp, philox.full_integers, shape, key_and_counter(seed), dtype)


@kernel(
    "StatelessRandomUniformIntV2",
    types={"dtype": ("int32", "int64")},
    fresh=True,
    heavy=_cost,
    host=(*_HOST, "minval", "maxval"),
)
def stateless_random_uniform_int_v2(
    xp: Any, shape: Array, key: Array, counter: Array, alg: Any, minval: Any, maxval: Any, *, dtype: DType
) -> Any:
    """Integers in [minval, maxval); InvalidArgumentError where that is empty."""
    start = start_of(key, counter, alg)
    return integers_between(xp, shape, start, minval, maxval, dtype)


def integers_between(
    xp: Any,
    shape: Array,
    start: tuple[int, int],
    minval: Any,
    maxval: Any,
    dtype: DType,
    draw: Callable[..., Any] = philox.uniform_integers,
) -> Any:
    """Integers in [minval, maxval) from these counters on."""
    dims = shape_of(shape)
    count = count_of(dims)
    if not count:
        return xp.empty(dims, dtype.as_numpy_dtype)
    low, high = limits(minval, maxval)
    return draw(xp, *start, count, low, high, dtype.base).reshape(dims)


def limits(minval: Any, maxval: Any) -> tuple[int, int]:
    """Both as integers; InvalidArgumentError unless they are scalars in order."""
    for name, value in (("minval", minval), ("maxval", maxval)):
        if value.ndim:
            raise InvalidArgumentError(f"{name} must be 0-D, got shape {brackets(value.shape)}")
    low, high = int(minval), int(maxval)
    if low >= high:
        raise InvalidArgumentError(f"Need minval < maxval, got {low} >= {high}")
    return low, high


@kernel("StatelessShuffle", device="CPU")
def stateless_shuffle(value: Array, key: Array, counter: Array, alg: Any) -> Any:
    """The rows of a tensor in random order. For a CPU: TensorFlow has no kernel for GPUs."""
    start = start_of(key, counter, alg)
    if value.ndim == 0 or value.size == 0 or value.shape[0] <= 1:
        return value
    return value[shuffled(lambda counts: start, list(range(value.shape[0])))]
