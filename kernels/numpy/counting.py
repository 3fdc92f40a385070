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
