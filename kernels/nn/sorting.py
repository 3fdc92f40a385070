"""The greatest elements of rows, whether a target is among them, and single order statistics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, in_host_memory
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.registry import kernel


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
