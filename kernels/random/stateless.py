"""Numbers that are a function of a seed or of their place alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.accounting import ask_for
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common import philox
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.random.keyed import check_algorithm, check_key
from flowengine.kernels.random.seeds import key_and_counter
from flowengine.kernels.random.stateful import categories, count_of, shape_of
from flowengine.kernels.registry import kernel
from flowengine.resources.data.by_number.order import shuffled_index

# Random tensors that are a function of their seed: the same seed, the same numbers, every time.


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


# The place of an index in a random order of all: see `resources/data/by_number/order.py`.

#: What the key of a round takes, and its place in the list of them.
_KEY_BYTES: Final = 40


def _shuffle_cost(*_: Any) -> float:
    """Microseconds: the rounds of a new order are gone through for all numbers of 16 bits."""
    return 10_000.0


@kernel("RandomIndexShuffle", device="CPU", fresh=True, heavy=_shuffle_cost)
def random_index_shuffle(index: Array, seed: Array, max_index: Array, *, rounds: int) -> Any:
    """Return the position of each index, of those up to max_index, in the order of its seed.

    index       () or (N,)
    seed        (3,) or (N, 3): those of one order
    max_index   () or (N,)

    Any number of `rounds` is gone through, as long as the step wants it: ResourceExhaustedError where their
    keys are more than it may take. For a CPU: TensorFlow has no kernel for GPUs.
    """
    if rounds < 4 or rounds % 2:
        raise InvalidArgumentError(f"rounds must be even and at least 4, but is {rounds}")
    if seed.ndim not in (1, 2) or seed.shape[-1] != 3:
        raise InvalidArgumentError(f"seed must have shape [3] or [n, 3], not {brackets(seed.shape)}")
    for name, value in (("index", index), ("max_index", max_index)):
        if value.ndim > 1:
            raise InvalidArgumentError(
                f"{name} must be a scalar or a vector, not of shape {brackets(value.shape)}"
            )
    try:
        shape = np.broadcast_shapes(index.shape, seed.shape[:-1], max_index.shape)
    except ValueError:
        raise InvalidArgumentError(
            "index, seed and max_index must have the same number of elements: "
            f"{brackets(index.shape)}, {brackets(seed.shape)} and {brackets(max_index.shape)}"
        ) from None
    indices = np.broadcast_to(index, shape).reshape(-1).tolist()
    bounds = np.broadcast_to(max_index, shape).reshape(-1).tolist()
    seeds = np.broadcast_to(seed, (*shape, 3)).reshape(-1, 3).tolist()
    for each, bound in zip(indices, bounds, strict=True):
        if not 0 <= each <= bound:
            raise InvalidArgumentError(f"index {each} is not between 0 and max_index, {bound}")
    ask_for(_KEY_BYTES * rounds)
    places = [
        shuffled_index(each, tuple(numbers), bound, rounds)
        for each, numbers, bound in zip(indices, seeds, bounds, strict=True)
    ]
    return np.array(places, index.dtype).reshape(shape)


# Numbers with fractions to integers, up or down at random: what is next is the more likely.
#
# The random numbers are TensorFlow's. Its CPU kernel rounds eight numbers at a time where the result is
# int32
# and the input float32 or float64, and all others one by one. Eight float32 numbers take one counter, whose
# four random numbers serve twice; eight float64 numbers take two, whose two numbers serve twice. One by
# one, a
# number takes a counter of its own if it has a fraction and is within the integer's range, and none
# otherwise.

#: Numbers that are rounded together, of each pair of types for which TensorFlow does so.
_TOGETHER: Final = 8
_IN_EIGHTS: Final = (dtypes.float32, dtypes.float64)


def _rounding_cost(value: Array, *rest: Any) -> float:
    return value.size * 0.1


@kernel("StochasticCastToInt", fresh=True, heavy=_rounding_cost, host=("key", "counter", "alg"))
def stochastic_cast_to_int(
    xp: Any, value: Array, key: Array, counter: Array, alg: Any, *, Tin: DType, Tout: DType
) -> Any:
    """Each number as one of the two integers next to it.

    value       any shape, a floating type
    key         (1,), uint64, and counter, (1 or more), of which the first number counts
    returns     the value's shape, int8, int16 or int32; of a negative number the integer above as often as
                its fraction says, of a positive one the same away from 0; NaN is 0, and what lies outside of
                the integer's range is its end. (TensorFlow's kernel makes the least integer of what is too
                large wherever the largest is no number of the input's type.)

    InvalidArgumentError for other shapes of key and counter, and for another algorithm than Philox.
    """
    check_algorithm(alg)
    check_key(key)
    if counter.ndim != 1 or not counter.size:
        raise InvalidArgumentError(
            f"counter must be a vector of at least 1 number, but has shape {brackets(counter.shape)}"
        )
    # Here the counter is what other ops have as their key.
    seed, start = int(counter[0]), int(key[0]) << 64
    limits = np.iinfo(Tout.as_numpy_dtype)
    flat = value.reshape(-1)
    # float64 holds the ends of all of these integers.
    wide = flat.astype(np.float64, copy=False)
    is_above, is_below = wide >= limits.max, wide <= limits.min
    inside = xp.where(is_above | is_below | (flat != flat), flat.dtype.type(0), flat)
    eights = flat.size - flat.size % _TOGETHER if Tout is dtypes.int32 and Tin in _IN_EIGHTS else 0
    drawn = eights // philox.group_of(Tin) // 2
    parts = [
        _in_eights(xp, inside[:eights], seed, start, Tin),
        _one_by_one(xp, inside[eights:], seed, start + drawn, Tin),
    ]
    rounded = xp.concatenate(parts).astype(Tout.as_numpy_dtype)
    as_integer = rounded.dtype.type
    rounded = xp.where(is_above, as_integer(limits.max), rounded)
    return xp.where(is_below, as_integer(limits.min), rounded).reshape(value.shape)


def _in_eights(xp: Any, numbers: Array, seed: int, start: int, dtype: DType) -> Any:
    """Each counter's numbers serve twice, one after another: they are four of float32, two of float64."""
    group = philox.group_of(dtype)
    drawn = philox.uniform(xp, seed, start, numbers.size // 2, dtype).reshape(-1, 1, group)
    drawn = xp.broadcast_to(drawn, (drawn.shape[0], 2, group)).reshape(-1)
    up = numbers.dtype.type(1) - drawn
    return _stepped(xp, numbers, xp.where(numbers < 0, numbers + drawn, numbers + up))


def _one_by_one(xp: Any, numbers: Array, seed: int, start: int, dtype: DType) -> Any:
    has_fraction = xp.floor(numbers) != numbers
    # Which of the counters is a number's own; before the first with a fraction it does not matter.
    places = xp.maximum(xp.cumsum(has_fraction, dtype=np.int64) - 1, 0).astype(np.uint64)
    drawn = philox.first_uniform(xp, seed, start, places, dtype)
    # In this order, as sums are rounded to the type.
    up = numbers + numbers.dtype.type(1) - drawn
    return _stepped(xp, numbers, xp.where(numbers < 0, numbers + drawn, up))


def _stepped(xp: Any, numbers: Array, sums: Array) -> Any:
    """The integers below the sums; integers stay, also those to which a type can add no fraction."""
    return xp.where(xp.floor(numbers) == numbers, numbers, xp.floor(sums))


# Sobol's sequence, by SciPy's direction numbers, which are those of Joe and Kuo (2008).

HOST: Final = "SciPy computes the points, in host memory"

#: So many dimensions have direction numbers.
_DIMENSIONS_MAX: Final = 21201


def _number(value: Any, name: str, least: int) -> int:
    if getattr(value, "ndim", 0):
        raise InvalidArgumentError(f"{name} must be a scalar, got shape {shape_text(value)}")
    if int(value) < least:
        raise InvalidArgumentError(f"{name} must be at least {least}, but is {int(value)}")
    return int(value)


@kernel("SobolSample", device="CPU", fresh=True)
def sobol_sample(dim: Any, num_results: Any, skip: Any, *, dtype: DType) -> Array:
    """(num_results, dim) points in the open unit cube, after `skip` others; the origin is left out."""
    size, count = _number(dim, "dim", 1), _number(num_results, "num_results", 1)
    first = _number(skip, "skip", 0)
    if size > _DIMENSIONS_MAX:
        raise InvalidArgumentError(f"dim must be at most {_DIMENSIONS_MAX}, but is {size}")
    if count >= (1 << 31) - 1 - first:
        raise InvalidArgumentError(f"num_results {count} and skip {first} are more than there are points")
    from scipy.stats.qmc import Sobol

    points = Sobol(size, scramble=False, bits=32)
    points.fast_forward(first + 1)
    found: Array = points.random(count).astype(dtype.as_numpy_dtype)
    return found
