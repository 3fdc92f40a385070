"""Sums of large tensors in blocks, and extremes of two tensors by NumPy's own functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.kernels.common.blockwise import LARGE, blockwise, is_large
from flowengine.kernels.common.ufuncs import FLOATS
from flowengine.kernels.math.binary import add_n
from flowengine.kernels.registry import kernel


@kernel("Maximum", device="CPU", types={"T": FLOATS}, fresh=True)
def maximum(x: Array, y: Array) -> Any:
    """y where x < y, else x: a NaN in x stays, a NaN in y loses."""
    return _mend(np.maximum(x, y), x, y)


@kernel("Minimum", device="CPU", types={"T": FLOATS}, fresh=True)
def minimum(x: Array, y: Array) -> Any:
    """y where y < x, else x: a NaN in x stays, a NaN in y loses."""
    return _mend(np.minimum(x, y), x, y)


def _mend(extreme: Any, x: Array, y: Array) -> Any:
    """NumPy lets a NaN win on either side: take x back where only y has one."""
    # The greatest of an array with a NaN is a NaN, which alone differs from itself.
    greatest_y = np.maximum.reduce(y, None) if y.ndim and y.size else y
    if y.size == 0 or greatest_y == greatest_y:
        return extreme
    return np.where(np.isnan(y), x, extreme)


@kernel("AddN", "AccumulateNV2", device="CPU", fresh=True)
def add_n_in_blocks(inputs: tuple[Any, ...]) -> Any:
    """The sum of tensors of one shape: of large ones a block of all of them at a time."""
    first = inputs[0]
    if len(inputs) > 1 and getattr(first, "size", 0) >= LARGE and is_large(*inputs):
        return _add_blocks(inputs)
    return add_n(np, inputs)


def _add_blocks(inputs: tuple[Any, ...]) -> Any:
    """The sum of large arrays, a block of all of them at a time."""
    result = empty(inputs[0].shape, inputs[0].dtype)

    def work(total: Array, one: Array, other: Array, *more: Array) -> None:
        np.add(one, other, total)
        for value in more:
            np.add(total, value, total)

    blockwise(work, result, *inputs)
    return result
