"""Elements moved from one axis to the others: `PeriodicResample`, the sub-pixel convolution's last part.

Where the other axes grow by whole factors, each element is moved once:

    [[0 1 2 3]            [[0 1]
     [4 5 6 7]]  [4, ?]    [2 3]
                           [4 5]
                           [6 7]]
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.registry import kernel

#: Shapes whose places are remembered: those of the steps of a few graphs.
_REMEMBERED = 16


def _cost(values: Any) -> float:
    """Microseconds: about 100 elements each."""
    return elements_of(values) / 100


@kernel("PeriodicResample", fresh=True, heavy=_cost)
def periodic_resample(xp: Any, values: Array, *, shape: TensorShape) -> Array:
    """Spread the axis that is open in `shape` over the others, whose sizes it gives.

    Raises InvalidArgumentError for a shape of another rank, without one open axis, or with a size below that
    of the values.
    """
    places = _places(tuple(values.shape), shape.dims)
    found: Array = values.reshape(-1)[xp.asarray(places)]
    return found


@kernel("PeriodicResampleOpGrad", fresh=True, heavy=_cost)
def periodic_resample_grad(
    xp: Any, grad: Array, *, original_shape: TensorShape, desired_shape: TensorShape
) -> Array:
    """Move each element back to its place; 0 where none came from, the last of several that came from one."""
    original = original_shape.as_tuple()
    if original is None:
        raise InvalidArgumentError(f"original_shape must be known in full, not {original_shape}")
    places = _places(original, desired_shape.dims)
    if tuple(grad.shape) != places.shape:
        raise InvalidArgumentError(f"grad has shape {brackets(grad.shape)}, not {brackets(places.shape)}")
    flat, taken = places.reshape(-1), grad.reshape(-1)
    # Of places that occur twice the last counts: its position in the reversed list is the first.
    kept, first = np.unique(flat[::-1], return_index=True)
    result: Array = xp.zeros(math.prod(original), grad.dtype)
    result[xp.asarray(kept)] = taken[xp.asarray(flat.size - 1 - first)]
    return result.reshape(original)


@lru_cache(maxsize=_REMEMBERED)
def _places(given: tuple[int, ...], wanted: tuple[int | None, ...] | None) -> Array:
    """The number of the element that each of the result's comes from: int64, of the result's shape."""
    if wanted is None or len(wanted) != len(given):
        told = "unknown" if wanted is None else brackets([-1 if size is None else size for size in wanted])
        raise InvalidArgumentError(
            f"periodic_resample expects the rank of the input tensor, {len(given)}, to be the same as the "
            f"length of the desired shape, which is {told}"
        )
    if wanted.count(None) != 1:
        count = "at least" if None not in wanted else "only"
        raise InvalidArgumentError(f"periodic_resample expects {count} one index to be marked as adjustable")
    for axis, (old, new) in enumerate(zip(given, wanted, strict=True)):
        if new is not None and new < old:
            raise InvalidArgumentError(
                "periodic_resample expects the size of non-adjustable dimensions be at least as large as "
                f"size of input tensor. Dimension {axis} input tensor has size {old}, desired shape has size "
                f"{new}"
            )
    open_axis = wanted.index(None)
    others = math.prod(size for size in wanted if size is not None)
    size = math.prod(given) // others if others else 0
    if size < 1:
        raise InvalidArgumentError(
            f"periodic_resample found that the adjustable dimension, {open_axis}, isn't greater than zero, "
            f"{size}"
        )
    result = [size if new is None else new for new in wanted]
    at = np.indices(result, np.int64)
    factors = [-(-new // old) for old, new in zip(given, result, strict=True)]
    rows, step = list(at), size
    for axis, factor in enumerate(factors):
        if axis != open_axis:
            rows[open_axis] = rows[open_axis] + step * (at[axis] % factor)
            rows[axis] = at[axis] // factor
            step *= factor
    # A row may reach into the next one, as it does in TensorFlow, where a factor is not whole.
    strides = [math.prod(given[axis + 1 :]) for axis in range(len(given))]
    found: Array = np.asarray(sum(row * stride for row, stride in zip(rows, strides, strict=True)))
    if found.max() >= math.prod(given):
        raise InvalidArgumentError(
            f"periodic_resample of {brackets(given)} to {brackets(result)} reads behind the last element"
        )
    found.flags.writeable = False
    return found
