"""Counts and sums of numbers by NumPy's `bincount`, which adds floats in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.math.sequences import bin_count, negative_number
from flowengine.kernels.registry import kernel


@kernel("Bincount", device="CPU", fresh=True, host=("size",))
def bincount(arr: Array, size: Any, weights: Array) -> Any:
    """How often each number below `size` occurs, or the sum of its weights where there are any."""
    count = bin_count(size)
    numbers = arr.reshape(-1)
    if numbers.size and int(numbers.min()) < 0:
        raise negative_number()
    inside = numbers < count
    if not weights.size:
        return np.bincount(numbers[inside], minlength=count)[:count].astype(weights.dtype)
    if weights.size != arr.size:
        raise InvalidArgumentError(
            f"weights must have the shape of arr or none: {shape_text(weights)} vs. {shape_text(arr)}"
        )
    bins = np.zeros(count, weights.dtype)
    if weights.dtype.kind == "f":
        bins[:] = np.bincount(numbers[inside], weights.reshape(-1)[inside], minlength=count)[:count]
    else:
        np.add.at(bins, numbers[inside], weights.reshape(-1)[inside])
    return bins


def binned(rows: Array | None, count: int, values: Array, size: int, weights: Array, binary: bool) -> Array:
    """(size,) or (count, size) bins: how often, with what weights, or whether values occur in each row.

    Values are not negative; those of `size` and more are in no bin.
    """
    inside = values < size
    at = values[inside] if rows is None else rows[inside] * size + values[inside]
    total = count * size
    if binary:
        out = np.zeros(total, weights.dtype)
        out[at] = 1
    elif not weights.size:
        out = np.bincount(at, minlength=total).astype(weights.dtype)
    elif weights.dtype == np.float64:
        out = np.bincount(at, weights[inside], minlength=total)
    else:
        out = np.zeros(total, weights.dtype)
        np.add.at(out, at, weights[inside])
    return out if rows is None else out.reshape(count, size)
