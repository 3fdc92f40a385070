"""The greatest elements of rows, and regression by rows that never rise."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, in_host_memory
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.registry import kernel

# The greatest elements of rows, whether a target is among them, and single order statistics.


def check_top(x: Array, k: int) -> None:
    """InvalidArgumentError where there are no k elements in a row."""
    if k < 0:
        raise InvalidArgumentError(f"Need k >= 0, got {k}")
    if x.ndim < 1:
        raise InvalidArgumentError(f"input must be >= 1-D, got shape {shape_text(x)}")
    if x.shape[-1] < k:
        raise InvalidArgumentError(f"input must have at least k columns. Had {x.shape[-1]}, needed {k}")


def descending(xp: Any, rows: Array) -> Any:
    """Positions of each row from the greatest down, of equal ones the first first; NaN before all."""
    last = rows.shape[-1] - 1
    return last - xp.argsort(rows[..., ::-1], axis=-1, kind="stable")[..., ::-1]


def _top(xp: Any, x: Array, k: int) -> Any:
    check_top(x, k)
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    place = descending(xp, rows)[:, :k] if x.size else xp.zeros((rows.shape[0], k), np.int64)
    values = xp.take_along_axis(rows, place, axis=1) if x.size else rows[:, :k]
    shape = (*x.shape[:-1], k)
    return values.reshape(shape), place.astype(np.int32).reshape(shape)


@kernel("TopK", fresh=True)
def top_k(xp: Any, x: Array, *, k: int, node: Node) -> Any:
    """The k greatest of each row, descending, and where they are; of equal ones the first."""
    return _top(xp, x, k)


def scalar_k(k: Any) -> int:
    """k as a number; InvalidArgumentError where it is no scalar."""
    if getattr(k, "ndim", 0):
        raise InvalidArgumentError(f"k must be scalar, got shape {shape_text(k)}")
    return int(k)


@kernel("TopKV2", fresh=True, host=("k",))
def top_k_v2(xp: Any, x: Array, k: Any, *, node: Node) -> Any:
    """`TopK` with k as a tensor; the places are of the type that the node names."""
    values, places = _top(xp, x, scalar_k(k))
    return values, places.astype(node.attrs["index_type"].as_numpy_dtype, copy=False)


@kernel("NthElement", fresh=True, host=("n",))
def nth_element(xp: Any, x: Array, n: Any, *, reverse: bool) -> Any:
    """The element of rank n (from the greatest with `reverse`) of each row."""
    if getattr(n, "ndim", 0):
        raise InvalidArgumentError(f"N must be scalar, got shape {shape_text(n)}")
    rank = int(n)
    if rank < 0:
        raise InvalidArgumentError(f"Need n >= 0, got {rank}")
    if x.ndim < 1:
        raise InvalidArgumentError(f"Input must be >= 1-D, got shape {shape_text(x)}")
    width = x.shape[-1]
    if width <= rank:
        raise InvalidArgumentError(f"Input must have at least n+1 columns: {width} and n = {rank}")
    if reverse:
        rank = width - 1 - rank
    return xp.partition(x, rank, axis=-1)[..., rank]


def _in_top(xp: Any, predictions: Array, targets: Array, k: int) -> Any:
    if predictions.ndim != 2:
        raise InvalidArgumentError(f"predictions must be 2-dimensional, not {shape_text(predictions)}")
    if targets.ndim != 1:
        raise InvalidArgumentError(f"targets must be 1-dimensional, not {shape_text(targets)}")
    rows, classes = predictions.shape
    if targets.shape[0] != rows:
        raise InvalidArgumentError(
            f"First dimension of predictions {rows} must match length of targets {targets.shape[0]}"
        )
    if rows == 0:
        return xp.zeros(0, bool)
    known = (targets >= 0) & (targets < classes)
    if classes == 0:
        return xp.zeros(rows, bool)
    own = predictions[xp.arange(rows), xp.where(known, targets, 0)]
    # One number that is not finite makes a row undecidable.
    is_finite = xp.isfinite(predictions)
    decidable = known if in_host_memory(is_finite) and is_finite.all() else known & is_finite.all(axis=1)
    # In 32 bits, which take three quarters of the time that 64 take.
    return decidable & ((predictions > own[:, None]).sum(axis=1, dtype=np.int32) < k)


@kernel("InTopK", fresh=True)
def in_top_k(xp: Any, predictions: Array, targets: Array, *, k: int) -> Any:
    """Whether less than k classes are predicted above the target; (B, C), (B,) to bool (B,)."""
    return _in_top(xp, predictions, targets, k)


@kernel("InTopKV2", fresh=True, host=("k",))
def in_top_k_v2(xp: Any, predictions: Array, targets: Array, k: Any) -> Any:
    """`InTopK` with k as a tensor."""
    if getattr(k, "ndim", 0):
        raise InvalidArgumentError(f"k must be 0-D, got shape {shape_text(k)}")
    return _in_top(xp, predictions, targets, int(k))


# The greatest or least elements along an axis. An accelerator may miss some; here none is missed.


@kernel("ApproxTopK", fresh=True)
def approx_top_k(xp: Any, x: Array, *, k: int, reduction_dimension: int, is_max_k: bool) -> Any:
    """The k greatest along an axis (or least), the best first, and where they are (int32)."""
    if not -x.ndim <= reduction_dimension < x.ndim:
        raise InvalidArgumentError(
            f"reduction_dimension must be in [{-x.ndim}, {x.ndim}), but is {reduction_dimension}"
        )
    rows = xp.moveaxis(x, reduction_dimension, -1)
    check_top(rows, k)
    places = descending(xp, rows if is_max_k else -rows)[..., :k]
    values = xp.take_along_axis(rows, places, axis=-1)
    found = values, places.astype(np.int32)
    return tuple(xp.ascontiguousarray(xp.moveaxis(each, -1, reduction_dimension)) for each in found)


# Regression by rows that never rise: the nearest in squares to what is given.
#
# Neighbours that rise are pooled: their mean stands for all of them, and it is compared with the pool
# before.

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
