"""Numbers with fractions to integers, up or down at random: what is next is the more likely.

The random numbers are TensorFlow's. Its CPU kernel rounds eight numbers at a time where the result is int32
and the input float32 or float64, and all others one by one. Eight float32 numbers take one counter, whose
four random numbers serve twice; eight float64 numbers take two, whose two numbers serve twice. One by one, a
number takes a counter of its own if it has a fraction and is within the integer's range, and none otherwise.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common import philox
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.random.keyed import check_algorithm, check_key
from flowengine.kernels.registry import kernel

#: Numbers that are rounded together, of each pair of types for which TensorFlow does so.
_TOGETHER: Final = 8
_IN_EIGHTS: Final = (dtypes.float32, dtypes.float64)


def _cost(value: Array, *rest: Any) -> float:
    return value.size * 0.1


@kernel("StochasticCastToInt", fresh=True, heavy=_cost, host=("key", "counter", "alg"))
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
