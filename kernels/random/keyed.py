"""Random tensors that are a function of a key and a counter, given or kept by a generator."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.kernels.common import philox
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.common.host_vectors import vector
from flowengine.kernels.random.seeds import key_and_counter
from flowengine.kernels.random.stateful import count_of, shape_of, shuffled
from flowengine.kernels.registry import kernel
from flowengine.kernels.state.variables import existing

# Random tensors that are a function of a key and a counter, which other ops make of a seed.

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


# Random numbers from a generator whose state is a variable: the counter, its lower half first, and the key.
#
# Each number reserves 256 counters, whatever it needs.

#: Numbers of the state: two of the counter, one key.
_STATE: Final = 3

_WORD: Final = (1 << 32) - 1
#: The number of an algorithm that TensorFlow has for other devices.
_THREEFRY: Final = 2
#: Nodes of two concurrent steps may draw from one variable on two threads.
_lock: Final = threading.Lock()


def check_generator_algorithm(algorithm: Any) -> None:
    """InvalidArgumentError for any algorithm but Philox, UnimplementedError for one of other devices."""
    if not algorithm.ndim and int(algorithm) == _THREEFRY:
        raise UnimplementedError("ThreeFry, algorithm 2, is for other devices than CPUs")
    check_algorithm(algorithm)


def reserve(resource: object, counts: int, skipped: int = 0) -> tuple[int, int, list[int]]:
    """(key, counter) from which `counts` counters belong to the caller, and the state as it was.

    skipped   elements of the state before the counter
    """
    variable = existing(resource)
    if variable.dtype.name != "int64":
        raise InvalidArgumentError(f"dtype of RNG state variable must be int64, not {variable.dtype}")
    with _lock:
        state = variable.mutable()
        if state.ndim != 1:
            raise InvalidArgumentError(
                f"RNG state must have one and only one dimension, not {state.ndim}: {brackets(state.shape)}"
            )
        if state.size < skipped + _STATE:
            raise InvalidArgumentError(
                "For the Philox algorithm, the size of state must be at least "
                f"{skipped + _STATE}; got {state.size}"
            )
        before = state.tolist()
        low, high, key = (int(n) & _LOW for n in before[skipped : skipped + _STATE])
        counter = high << 64 | low
        after = _skipped(counter, counts)
        words = np.array([after & _LOW, after >> 64 & _LOW], np.uint64)
        state[skipped : skipped + 2] = words.view(np.int64)
    return key, counter, before


def _skipped(counter: int, counts: int) -> int:
    """The counter `counts` (64 bits) later, with TensorFlow's carries: one may be lost."""
    low = (counter & _WORD) + (counts & _WORD)
    high = (counts >> 32) + (low >> 32) & _WORD
    middle = (counter >> 32 & _WORD) + high
    upper = (counter >> 64) + (middle >> 32) & _LOW
    return upper << 64 | (middle & _WORD) << 32 | low & _WORD


def _draw(
    distribution: Callable[..., Any], resource: object, shape: Array, dtype: DType, skipped: int = 0
) -> Any:
    dims = shape_of(shape)
    count = count_of(dims)
    key, counter, _ = reserve(resource, count * philox.RESERVED, skipped)
    if not count:
        return np.empty(dims, dtype.as_numpy_dtype)
    return distribution(np, key, counter, count, dtype.base).reshape(dims)


def _generator_cost(resource: object, *rest: Any) -> float:
    shape = next(value for value in rest if getattr(value, "ndim", 0) == 1)
    return elements_of(shape) * 0.02


@kernel("StatefulStandardNormal", device="CPU", heavy=_generator_cost)
def stateful_standard_normal(resource: object, shape: Array, *, dtype: DType) -> Any:
    """Numbers of mean 0 and deviation 1; the state begins with the algorithm's number."""
    variable = existing(resource)
    state = variable.read()
    if getattr(state, "ndim", 0) == 1 and state.size:
        check_generator_algorithm(np.int64(state[0]))
    return _draw(philox.normal, resource, shape, dtype, skipped=1)


@kernel("StatefulStandardNormalV2", device="CPU", heavy=_generator_cost)
def stateful_standard_normal_v2(resource: object, algorithm: Any, shape: Array, *, dtype: DType) -> Any:
    """Numbers of mean 0 and deviation 1."""
    check_generator_algorithm(algorithm)
    return _draw(philox.normal, resource, shape, dtype)


@kernel("StatefulTruncatedNormal", device="CPU", heavy=_generator_cost)
def stateful_truncated_normal(resource: object, algorithm: Any, shape: Array, *, dtype: DType) -> Any:
    """Numbers of a normal distribution, none beyond two deviations."""
    check_generator_algorithm(algorithm)
    return _draw(philox.truncated_normal, resource, shape, dtype)


@kernel("StatefulUniform", device="CPU", heavy=_generator_cost)
def stateful_uniform(resource: object, algorithm: Any, shape: Array, *, dtype: DType) -> Any:
    """Numbers in [0, 1)."""
    check_generator_algorithm(algorithm)
    return _draw(philox.uniform, resource, shape, dtype)


@kernel(
    "StatefulUniformFullInt",
    device="CPU",
    types={"dtype": ("int32", "int64", "uint32", "uint64")},
    heavy=_generator_cost,
)
def stateful_uniform_full_int(resource: object, algorithm: Any, shape: Array, *, dtype: DType) -> Any:
    """Integers of all values that the type has."""
    check_generator_algorithm(algorithm)
    return _draw(philox.full_integers, resource, shape, dtype)


@kernel("StatefulUniformInt", device="CPU", types={"dtype": ("int32", "int64")}, heavy=_generator_cost)
def stateful_uniform_int(
    resource: object, algorithm: Any, shape: Array, minval: Any, maxval: Any, *, dtype: DType
) -> Any:
    """Integers in [minval, maxval); InvalidArgumentError where that is empty."""
    check_generator_algorithm(algorithm)
    low, high = limits(minval, maxval)

    def between(xp: Any, key: int, start: int, count: int, of: DType) -> Any:
        return philox.uniform_integers(xp, key, start, count, low, high, of)

    return _draw(between, resource, shape, dtype)


@kernel("RngSkip", device="CPU", heavy=False)
def rng_skip(resource: object, algorithm: Any, delta: Any) -> None:
    """Leave out the counters of `delta` numbers."""
    check_generator_algorithm(algorithm)
    _check_delta(delta)
    reserve(resource, int(delta) * philox.RESERVED & _LOW)


@kernel("RngReadAndSkip", device="CPU", heavy=False)
def rng_read_and_skip(resource: object, alg: Any, delta: Any) -> Array:
    """The state (3,) before the counters of `delta` numbers are left out."""
    check_generator_algorithm(alg)
    _check_delta(delta)
    *_, before = reserve(resource, int(delta) * philox.RESERVED & _LOW)
    return np.array(before[:_STATE], np.int64)


def _check_delta(delta: Any) -> None:
    if delta.ndim:
        raise InvalidArgumentError(f"delta must be of shape [], not {brackets(delta.shape)}")


@kernel(
    "NonDeterministicInts",
    device="CPU",
    types={"dtype": ("int32", "int64", "uint32", "uint64")},
    fresh=True,
)
def non_deterministic_ints(shape: Array, *, dtype: DType) -> Array:
    """Integers that nobody can tell before, from the system's source."""
    dims = shape_of(shape)
    wanted = np.dtype(dtype.as_numpy_dtype)
    return np.frombuffer(bytearray(os.urandom(count_of(dims) * wanted.itemsize)), wanted).reshape(dims)
