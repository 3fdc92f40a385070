"""Normal numbers between bounds of their own, drawn until they are accepted.

Bounds around the mean are met by normal numbers; others by uniform or exponential ones (Robert, 1995,
"Simulation of truncated normal variables"). All numbers of a node come from one sequence, batch after batch,
as TensorFlow's do where one thread draws them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InternalError, InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common import philox
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.context import KernelContext
from flowengine.kernels.math.special import special_functions
from flowengine.kernels.random.seeds import key_and_counter
from flowengine.kernels.random.stateful import count_of, node_generator, shape_of
from flowengine.kernels.registry import kernel

#: Where so many deviations are inside of the bounds on one side, normal numbers are tried.
_DEVIATIONS: Final = 1.3
#: Numbers that are refused one after another before the node gives up.
_REFUSED_MAX: Final = 1000
#: Numbers of a batch where all batches have the same bounds.
_BATCH: Final = 100
#: Counters that are tried at a time, at least.
_GROUPS: Final = 8

#: Below this logarithm a probability is not made of it: that is at 8 deviations.
_FAR_TAIL: Final = -34.0
#: Steps from a quantile's first terms to its last bits, everywhere beyond.
_NEWTON_STEPS: Final = 3
_LOG_TWO_PI: Final = math.log(2 * math.pi)

#: Groups of numbers (groups, numbers of a group) -> candidates of deviation 1 in order, and which are taken.
_Trial = Callable[[Any], tuple[Array, Array]]


class _CounterSequence:
    """The numbers from one counter on; those of one counter are a group, which is used up or thrown away."""

    def __init__(self, key: int, start: int, dtype: DType) -> None:
        self._key, self._counter, self._dtype = key, start, dtype
        self._group = 2 if dtype is dtypes.float64 else 4

    def accepted(self, wanted: int, distribution: Any, step: int, trial: _Trial) -> Array:
        """So many candidates that are taken; InternalError where too many are refused in a row.

        step    counters that a trial needs together
        """
        found: list[Array] = []
        refused = 0
        while wanted:
            rounds = max(_GROUPS, -(-2 * wanted // self._group))
            count = rounds * step * self._group
            numbers = distribution(np, self._key, self._counter, count, self._dtype)
            candidates, taken = trial(numbers.reshape(rounds * step, self._group))
            places = np.flatnonzero(taken)[:wanted]
            refused = self._check_refused(places, refused, taken.size)
            found.append(candidates[places])
            wanted -= places.size
            used = rounds if wanted else int(places[-1]) // (candidates.size // rounds) + 1
            self._counter += used * step
        return np.concatenate(found)

    @staticmethod
    def _check_refused(places: Array, before: int, tried: int) -> int:
        """How many were refused at last; `before` of them before these."""
        gaps = np.diff(places, prepend=-1 - before)
        after = tried - 1 - int(places[-1]) if places.size else before + tried
        if max(int(gaps.max(initial=0)) - 1, 0 if places.size else after) >= _REFUSED_MAX:
            raise InternalError("TruncatedNormal rejection sampler failed to accept a sample.")
        return after


def _exp(x: Any) -> Any:
    """Rounded once, as the C library's float functions nearly always are."""
    return np.exp(x.astype(np.float64)).astype(x.dtype)


def _between(sequence: _CounterSequence, wanted: int, low: Any, high: Any) -> Array:
    """So many numbers of mean 0 and deviation 1 in [low, high]; every step is rounded to their type."""
    of = low.dtype.type
    root = np.sqrt(low * low + of(4))
    cutoff = of(2) * _exp(of(0.5) + (low * (low - root)) / of(4)) / (low + root)
    span = high - low
    enough = of(_DEVIATIONS)
    if (low < -enough and high >= 0) or (high > enough and low <= 0):

        def normal(numbers: Array) -> tuple[Array, Array]:
            flat = numbers.reshape(-1)
            return flat, (flat >= low) & (flat <= high)

        return sequence.accepted(wanted, philox.normal, 1, normal)
    if span < cutoff:
        nearest = of(0) if low < 0 else low * low

        def uniform(numbers: Array) -> tuple[Array, Array]:
            z = (numbers[0::2] * span + low).reshape(-1)
            return z, numbers[1::2].reshape(-1) <= _exp((nearest - z * z) / of(2))

        return sequence.accepted(wanted, philox.uniform, 2, uniform)
    rate = (low + root) / of(2)

    def exponential(numbers: Array) -> tuple[Array, Array]:
        first, second = numbers[:, 0::2].reshape(-1), numbers[:, 1::2].reshape(-1)
        z = -np.log(first.astype(np.float64)).astype(first.dtype) / rate + low
        x = rate - z if low < rate else np.full_like(z, low - rate)
        return z, (second <= _exp(-x * x / of(2))) & (z < high)

    return sequence.accepted(wanted, philox.uniform, 1, exponential)


def _of_batch(
    sequence: _CounterSequence, wanted: int, mean: Any, deviation: Any, low: Any, high: Any
) -> Array:
    finite = np.isfinite(low) or np.isfinite(high)
    if not (deviation > 0 and low < high and finite):
        raise _invalid(deviation, low, high)
    if (np.isinf(low) and low < 0) or high < mean:
        # From the other side: one bound is then the lower one, or both are positive.
        low, high, deviation = high, low, -deviation
    numbers = _between(sequence, wanted, (low - mean) / deviation, (high - mean) / deviation)
    result: Array = numbers * deviation + mean
    return result


def _invalid(deviation: Any, low: Any, high: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Invalid parameters: deviation {deviation}, bounds {low} and {high}; wanted are a positive "
        "deviation and bounds in order, one of them finite"
    )


def _cost(shape: Array, *rest: Any) -> float:
    return elements_of(shape) * 0.3


def _checked(shape: Array, named: dict[str, Array]) -> tuple[tuple[int, ...], int, int]:
    """(shape of the result, parts of it that have parameters of their own, numbers of each)."""
    dims = shape_of(shape)
    if not dims:
        raise InvalidArgumentError("Shape tensor must not be empty, got []")
    for name, value in named.items():
        if value.ndim > 1:
            raise InvalidArgumentError(
                f"Input {name} should be a scalar or vector, got shape: {brackets(value.shape)}"
            )
    count, batches = count_of(dims), dims[0]
    if named["means"].size == named["stdevs"].size == 1 and not (
        named["minvals"].ndim or named["maxvals"].ndim
    ):
        return dims, -(-count // _BATCH), _BATCH
    for name, value in named.items():
        if value.ndim and value.size not in (1, batches):
            raise InvalidArgumentError(
                f"Input {name} should have length 1 or shape[0], got shape: {brackets(value.shape)}"
            )
    return dims, batches, count // batches if batches else 0


def _reserved(batches: int, samples: int) -> int:
    """The counters that a node takes for itself, whatever it uses."""
    return batches * 2 * _REFUSED_MAX * (samples + 3) // 4


@kernel(
    "ParameterizedTruncatedNormal",
    device="CPU",
    types={"dtype": ("float16", "float32", "float64")},
    fresh=True,
    heavy=_cost,
)
def parameterized_truncated_normal(
    shape: Array,
    means: Array,
    stdevs: Array,
    minvals: Array,
    maxvals: Array,
    *,
    dtype: DType,
    node: Node,
    ctx: KernelContext,
) -> Array:
    """Normal numbers between bounds: a row of the result for each of the parameters, or one for all rows.

    For a CPU: numbers are drawn until they are accepted.
    """
    named = {"means": means, "stdevs": stdevs, "minvals": minvals, "maxvals": maxvals}
    dims, batches, samples = _checked(shape, named)
    count = count_of(dims)
    if not count:
        return np.empty(dims, dtype.as_numpy_dtype)
    key, start = node_generator(ctx, node).reserve(_reserved(batches, samples))
    sequence = _CounterSequence(key, start, dtype.base)
    rows = [np.broadcast_to(value.reshape(-1), (batches,)) for value in named.values()]
    result = np.empty(count, dtype.as_numpy_dtype)
    for batch, parameters in enumerate(zip(*rows, strict=True)):
        target = result[batch * samples : (batch + 1) * samples]
        target[...] = _of_batch(sequence, target.size, *parameters)
    return result.reshape(dims)


@kernel(
    "ParameterizedTruncatedNormal",
    types={"dtype": ("float16", "float32", "float64")},
    fresh=True,
    host=("shape",),
)
def parameterized_truncated_normal_by_quantiles(
    xp: Any,
    shape: Array,
    means: Array,
    stdevs: Array,
    minvals: Array,
    maxvals: Array,
    *,
    dtype: DType,
    node: Node,
    ctx: KernelContext,
) -> Any:
    """The same distribution for a device, where nobody looks which numbers are accepted.

    Each number is the quantile of a uniform one: others than a CPU's, as those of TensorFlow's GPUs are.
    """
    named = {"means": means, "stdevs": stdevs, "minvals": minvals, "maxvals": maxvals}
    dims, batches, samples = _checked(shape, named)
    count = count_of(dims)
    if not count:
        return xp.empty(dims, dtype.as_numpy_dtype)
    key, start = node_generator(ctx, node).reserve(_reserved(batches, samples))
    uniform = philox.uniform(xp, key, start, batches * samples, dtypes.float64).reshape(batches, samples)
    mean, deviation, low, high = (
        xp.broadcast_to(value.reshape(-1).astype(np.float64), (batches,)) for value in named.values()
    )
    fits = xp.logical_and(deviation > 0, low < high)
    fits = xp.logical_and(fits, xp.logical_or(xp.isfinite(low), xp.isfinite(high)))
    refuse(xp.logical_not(fits).any(), lambda: _first_invalid(fits, deviation, low, high))
    special = special_functions(xp)
    columns = [value.reshape(batches, 1) for value in ((low - mean) / deviation, (high - mean) / deviation)]
    numbers = quantiles_between(xp, special, uniform, *columns)
    moved = numbers * deviation.reshape(batches, 1) + mean.reshape(batches, 1)
    within = xp.clip(moved, low.reshape(batches, 1), high.reshape(batches, 1))
    return within.reshape(-1)[:count].astype(dtype.as_numpy_dtype).reshape(dims)


def _first_invalid(fits: Array, deviation: Array, low: Array, high: Array) -> InvalidArgumentError:
    at = int(fits.argmin())
    return _invalid(float(deviation[at]), float(low[at]), float(high[at]))


def quantiles_between(xp: Any, special: Any, share: Array, low: Array, high: Array) -> Any:
    """The standard normal numbers of [low, high] below which such shares of those there lie; float64.

    Where the bounds are mostly positive it is computed from the other side, by logarithms of probabilities:
    so far tails do not vanish.
    """
    is_upper = low + high > 0
    lower, upper = xp.where(is_upper, -high, low), xp.where(is_upper, -low, high)
    least, most = special.log_ndtr(lower), special.log_ndtr(upper)
    share = xp.where(is_upper, 1 - share, share)
    ratio = xp.exp(least - most)
    wanted = most + xp.log(ratio + share * (1 - ratio))
    # Beyond so few deviations its own probability says where a number is; farther out Newton's steps do.
    is_far = wanted < _FAR_TAIL
    twice = xp.maximum(-2 * wanted - _LOG_TWO_PI, 1.0)
    far = -xp.sqrt(xp.maximum(twice - xp.log(twice), 1.0))
    for _ in range(_NEWTON_STEPS):
        found = special.log_ndtr(far)
        slope = xp.exp(-far * far / 2 - _LOG_TWO_PI / 2 - found)
        far = far - (found - wanted) / slope
    near = special.ndtri(xp.exp(xp.where(is_far, 0.0, wanted)))
    z = xp.where(is_far, far, near)
    z = xp.minimum(xp.maximum(xp.where(xp.isnan(z), upper, z), lower), upper)
    return xp.where(is_upper, -z, z)


@kernel(
    "StatelessParameterizedTruncatedNormal",
    device="CPU",
    types={"dtype": ("float16", "float32", "float64")},
    fresh=True,
    heavy=_cost,
)
def stateless_parameterized_truncated_normal(
    shape: Array,
    seed: Array,
    means: Array,
    stddevs: Array,
    minvals: Array,
    maxvals: Array,
    *,
    dtype: DType,
) -> Array:
    """Normal numbers between bounds, by a seed; the shape ends with that of the parameters, broadcast."""
    dims = shape_of(shape)
    given = [np.asarray(value) for value in (means, stddevs, minvals, maxvals)]
    try:
        inner = np.broadcast_shapes(*[value.shape for value in given])
    except ValueError:
        shapes = ", ".join(brackets(value.shape) for value in given)
        raise InvalidArgumentError(f"the parameters do not broadcast: {shapes}") from None
    if dims[len(dims) - len(inner) :] != inner or len(inner) > len(dims):
        raise InvalidArgumentError(
            f"Shape passed in must end with broadcasted shape: {brackets(dims)} and {brackets(inner)}"
        )
    key, start = key_and_counter(seed)
    batches = math.prod(inner)
    result = np.empty((count_of(dims) // batches if batches else 0, batches), dtype.as_numpy_dtype)
    sequence = _CounterSequence(key, start, dtype.base)
    columns = [np.broadcast_to(value, inner).reshape(-1) for value in given]
    if result.size:
        for batch, parameters in enumerate(zip(*columns, strict=True)):
            result[:, batch] = _of_batch(sequence, len(result), *parameters)
    return result.reshape(dims)
