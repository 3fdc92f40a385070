"""Which element each of a periodic resampling's comes from: tables of numbers, computed from shapes."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets

#: Shapes whose places are remembered: those of the steps of a few graphs.
_REMEMBERED = 16


@lru_cache(maxsize=_REMEMBERED)
def places_of(given: tuple[int, ...], wanted: tuple[int | None, ...] | None) -> Array:
    """Return the number of the element that each of the result's comes from: int64, of the result's shape.

    Raises InvalidArgumentError for a shape of another rank, without one open axis, or with a size below that
    of the values.
    """
    if wanted is None or len(wanted) != len(given):
        shown = "unknown" if wanted is None else brackets([-1 if size is None else size for size in wanted])
        raise InvalidArgumentError(
            f"periodic_resample expects the rank of the input tensor, {len(given)}, to be the same as the "
            f"length of the desired shape, which is {shown}"
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


def last_places(places: Array) -> tuple[Array, Array]:
    """Return the elements that are taken, (n,) int64, and where each is taken last, (n,) int64."""
    flat = places.reshape(-1)
    # The last position is the first in the reversed list.
    kept, first = np.unique(flat[::-1], return_index=True)
    return kept, flat.size - 1 - first


__all__ = ["last_places", "places_of"]
