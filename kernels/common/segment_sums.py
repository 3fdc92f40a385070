"""Rows combined by index: sums, products and extremes, for segments, scatters and embedding gradients.

In host memory `host_rows` computes them. A device adds sums by atomic operations, in any order, unless the
caller requests one order (`in_one_order`). Then it computes them, as it always does products and extremes,
from rows sorted by their index, in as many steps as the number of rows has bits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, in_host_memory
from flowengine.kernels.common import host_rows

#: Whether floats are to be added in one order on this thread.
_wished: Final = threading.local()
#: Types that are added atomically as they are.
_ATOMIC: Final = frozenset("ifdFDIQL")


@contextmanager
def in_one_order() -> Iterator[None]:
    """Make kernels on a device add up with the same bits each time, on this thread."""
    before = getattr(_wished, "order", False)
    _wished.order = True
    try:
        yield
    finally:
        _wished.order = before


def add_rows(xp: Any, out: Array, positions: Array, rows: Array) -> None:
    """out[positions[i]] += rows[i] for every i, repeated positions adding up.

    out         (N, ...) contiguous, written
    positions   (M,) integers in [0, N)
    rows        (M, ...) of the dtype of out; half precision is added in float32
    """
    if not rows.size:
        return
    if out.dtype.itemsize == 2 and out.dtype.kind in "fV":
        wide = out.astype(np.float32)
        add_rows(xp, wide, positions, rows.astype(np.float32))
        out[...] = wide.astype(out.dtype)
    elif in_host_memory(out):
        host_rows.add(out, positions, rows)
    elif out.dtype.kind in "fc" and getattr(_wished, "order", False):
        sums = xp.zeros_like(out)
        combine_rows(xp, xp.add, sums, positions, rows)
        out += sums
    elif out.dtype.char in _ATOMIC:
        xp.add.at(out, positions, rows)
    elif out.dtype == np.int64:
        xp.add.at(out.view(np.uint64), positions, rows.view(np.uint64))
    else:
        # Narrow integers wrap alike when they are added in a wider type.
        wide = xp.zeros(out.shape, np.int32)
        xp.add.at(wide, positions, rows.astype(np.int32))
        out += wide.astype(out.dtype)


def subtract_rows(xp: Any, out: Array, positions: Array, rows: Array) -> None:
    """out[positions[i]] -= rows[i] for every i, one after another; see `add_rows`."""
    if in_host_memory(out):
        host_rows.subtract(out, positions, rows)
    else:
        add_rows(xp, out, positions, xp.negative(rows))


def combine_rows(
    xp: Any, ufunc: Any, out: Array, positions: Array, rows: Array, *, in_order: bool = False
) -> None:
    """out[p] = ufunc over the rows with position p, for the positions that occur; the others are left.

    ufunc       of two operands, whose order does not matter: `xp.multiply`, `xp.maximum`, `xp.minimum`
    out         (N, ...) of the ufunc's neutral element, or of anything where the positions are in order
    positions   (M,) integers in [0, N)
    """
    if not rows.size:
        return
    if in_host_memory(out):
        combine = host_rows.reduce_sorted if in_order else host_rows.combine
        combine(ufunc, out, positions, rows)
        return
    ids, values = positions, rows
    if not in_order:
        order = positions.argsort()
        ids, values = positions.take(order), rows.take(order, 0)
    count = len(ids)
    column = (-1,) + (1,) * (values.ndim - 1)
    distance = 1
    while distance < count:
        # Each row is combined with the one so far before it, where that is of its run.
        same = (ids[distance:] == ids[:-distance]).reshape(column)
        combined = xp.where(same, ufunc(values[distance:], values[:-distance]), values[distance:])
        values = xp.concatenate([values[:distance], combined])
        distance *= 2
    # The last row of a run has the result of all; the others go to a row that is dropped.
    is_last = xp.concatenate([ids[1:] != ids[:-1], xp.ones(1, np.bool_)])
    wide = xp.concatenate([out, out[:1]])
    wide[xp.where(is_last, ids, len(out))] = values
    out[...] = wide[:-1]


def count_rows(xp: Any, positions: Array, count: int) -> Any:
    """How often each number below `count` occurs among positions, all of them inside: (count,) int64."""
    if in_host_memory(positions):
        return host_rows.counts(positions, count)
    result = xp.zeros(count, np.uint64)
    xp.add.at(result, positions, np.uint64(1))
    return result.view(np.int64)


def taken_and_rest(xp: Any, positions: Array, numbers: Array) -> tuple[Any, Any]:
    """The numbers at the positions, all of them inside, and the sum of those that are at none.

    Half precision is added in float32.
    """
    unseen = xp.ones(len(numbers), np.bool_)
    unseen[positions] = False
    is_narrow = numbers.dtype.itemsize == 2 and numbers.dtype.kind in "fV"
    wide = numbers.astype(np.float32) if is_narrow else numbers
    left = wide[unseen] if in_host_memory(wide) else xp.where(unseen, wide, wide.dtype.type(0))
    return numbers.take(positions), left.sum(dtype=wide.dtype).astype(numbers.dtype)


__all__ = ["add_rows", "combine_rows", "count_rows", "in_one_order", "subtract_rows", "taken_and_rest"]
