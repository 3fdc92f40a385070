"""Regression by rows that never rise: the nearest in squares to what is given.

Neighbours that rise are pooled: their mean stands for all of them, and it is compared with the pool before.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.kernels.registry import kernel

HOST: Final = "pools grow one element after another; TensorFlow has no kernel for GPUs either"


def _pools(row: list[float]) -> tuple[list[float], list[int]]:
    """(mean, size) of each pool of a row, from its first element on."""
    totals: list[float] = []
    sizes: list[int] = []
    for value in row:
        total, size = value, 1
        while sizes and totals[-1] * size <= total * sizes[-1]:
            if totals[-1] * size == total * sizes[-1] and size == 1 and sizes[-1] == 1:
                break
            total += totals.pop()
            size += sizes.pop()
        totals.append(total)
        sizes.append(size)
    return [total / size for total, size in zip(totals, sizes, strict=True)], sizes


@kernel("IsotonicRegression", fresh=True)
def isotonic_regression(x: Array, *, output_dtype: DType) -> tuple[Array, Array]:
    """The nearest rows that never rise, and for each element the number of its pool (int32)."""
    rows = x.reshape(-1, x.shape[-1] if x.ndim else 1) if x.size else x.reshape(0, 0)
    out = np.empty(rows.shape, output_dtype.as_numpy_dtype)
    segments = np.empty(rows.shape, np.int32)
    for place, row in enumerate(rows.astype(np.float64).tolist()):
        means, sizes = _pools(row)
        out[place] = np.repeat(np.array(means), sizes).astype(out.dtype)
        segments[place] = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return out.reshape(x.shape), segments.reshape(x.shape)
