"""Random numbers from a generator whose state is a variable: the counter, its lower half first, and the key.

Each number reserves 256 counters, whatever it needs.
"""

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
from flowengine.kernels.random.keyed import check_algorithm as check_keyed
from flowengine.kernels.random.keyed import limits
from flowengine.kernels.random.stateful import count_of, shape_of
from flowengine.kernels.registry import kernel
from flowengine.kernels.state.resource_variables import existing

#: Numbers of the state: two of the counter, one key.
_STATE: Final = 3
_LOW: Final = (1 << 64) - 1
_WORD: Final = (1 << 32) - 1
#: The number of an algorithm that TensorFlow has for other devices.
_THREEFRY: Final = 2
#: Nodes of two concurrent steps may draw from one variable on two threads.
_lock: Final = threading.Lock()


def check_algorithm(algorithm: Any) -> None:
    """InvalidArgumentError for any algorithm but Philox, UnimplementedError for one of other devices."""
    if not algorithm.ndim and int(algorithm) == _THREEFRY:
        raise UnimplementedError("ThreeFry, algorithm 2, is for other devices than CPUs")
    check_keyed(algorithm)


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


def _cost(resource: object, *rest: Any) -> float:
    shape = next(value for value in rest if getattr(value, "ndim", 0) == 1)
    return elements_of(shape) * 0.02


@kernel("StatefulStandardNormal", device="CPU", heavy=_cost)
def stateful_standard_normal(resource: object, shape: Array, *, dtype: DType) -> Any:
    """Numbers of mean 0 and deviation 1; the state begins with the algorithm's number."""
    variable = existing(resource)
    state = variable.read()
    if getattr(state, "ndim", 0) == 1 and state.size:
        check_algorithm(np.int64(state[0]))
    return _draw(philox.normal, resource, shape, dtype, skipped=1)


@kernel("StatefulStandardNormalV2", device="CPU", heavy=_cost)
def stateful_standard_normal_v2(resource: object, algorithm: Any, shape: Array, *, dtype: DType) -> Any:
    """Numbers of mean 0 and deviation 1."""
    check_algorithm(algorithm)
    return _draw(philox.normal, resource, shape, dtype)


@kernel("StatefulTruncatedNormal", device="CPU", heavy=_cost)
def stateful_truncated_normal(resource: object, algorithm: Any, shape: Array, *, dtype: DType) -> Any:
    """Numbers of a normal distribution, none beyond two deviations."""
    check_algorithm(algorithm)
    return _draw(philox.truncated_normal, resource, shape, dtype)


@kernel("StatefulUniform", device="CPU", heavy=_cost)
def stateful_uniform(resource: object, algorithm: Any, shape: Array, *, dtype: DType) -> Any:
    """Numbers in [0, 1)."""
    check_algorithm(algorithm)
    return _draw(philox.uniform, resource, shape, dtype)


@kernel(
    "StatefulUniformFullInt",
    device="CPU",
    types={"dtype": ("int32", "int64", "uint32", "uint64")},
    heavy=_cost,
)
def stateful_uniform_full_int(resource: object, algorithm: Any, shape: Array, *, dtype: DType) -> Any:
    """Integers of all values that the type has."""
    check_algorithm(algorithm)
    return _draw(philox.full_integers, resource, shape, dtype)


@kernel("StatefulUniformInt", device="CPU", types={"dtype": ("int32", "int64")}, heavy=_cost)
def stateful_uniform_int(
    resource: object, algorithm: Any, shape: Array, minval: Any, maxval: Any, *, dtype: DType
) -> Any:
    """Integers in [minval, maxval); InvalidArgumentError where that is empty."""
    check_algorithm(algorithm)
    low, high = limits(minval, maxval)

    def between(xp: Any, key: int, start: int, count: int, of: DType) -> Any:
        return philox.uniform_integers(xp, key, start, count, low, high, of)

    return _draw(between, resource, shape, dtype)


@kernel("RngSkip", device="CPU", heavy=False)
def rng_skip(resource: object, algorithm: Any, delta: Any) -> None:
    """Leave out the counters of `delta` numbers."""
    check_algorithm(algorithm)
    _check_delta(delta)
    reserve(resource, int(delta) * philox.RESERVED & _LOW)


@kernel("RngReadAndSkip", device="CPU", heavy=False)
def rng_read_and_skip(resource: object, alg: Any, delta: Any) -> Array:
    """The state (3,) before the counters of `delta` numbers are left out."""
    check_algorithm(alg)
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
