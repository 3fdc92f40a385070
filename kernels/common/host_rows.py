"""Rows combined by index in host memory: the one fast way, for segments, scatters and embedding gradients.

`numpy.add.at` is quick for one column (1.5 ns an element) but slow for wide rows (8.6 ns an element at
128 columns, against 1.1 for what follows). Some rows are one column to it, with a place for each element. A
wide sum is the product of a sparse matrix of ones with the rows: one column of the matrix a row, its single
entry in the line of the target. Both need no sort and add in the order of the rows.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

HOST = "SciPy's sparse products, ufunc.at and reduceat, which sum in order; devices have atomic additions"

#: Below this many elements the set-up of the sparse product (20 us, and SciPy's import) does not pay: 3 ns an
#: element without it.
SPARSE_ELEMENTS: Final = 16384
#: From here on the places of the elements, 2 us and 1 ns each, pay (beside rows of 16, on an Intel Xeon).
_PLACED_ELEMENTS: Final = 512
#: Types that SciPy's sparse matrices multiply.
SPARSE_KINDS: Final = frozenset("fcd") | frozenset("FDilqLQI")
#: Up to this many elements `ufunc.at` is quicker than sorting the rows.
_AT_ELEMENTS: Final = 2048


def add(out: Array, positions: Array, rows: Array) -> None:
    """out[positions[i]] += rows[i] for every i, in order; see `segment_sums.add_rows`."""
    width = rows.size // len(positions)
    if rows.size < SPARSE_ELEMENTS or width < 4 or out.dtype.char not in SPARSE_KINDS:
        at(np.add, out, positions, rows)
        return
    flat = out.reshape(len(out), width)
    flat += sum_rows(positions, rows.reshape(-1, width), len(out))


def subtract(out: Array, positions: Array, rows: Array) -> None:
    """out[positions[i]] -= rows[i] for every i, in order."""
    at(np.subtract, out, positions, rows)


def at(ufunc: Any, out: Array, positions: Array, rows: Array) -> None:
    """out[positions[i]] = ufunc(out[positions[i]], rows[i]) for every i, in order.

    positions   (M,) in [0, len(out))
    rows        (M, ...), of the type of `out`
    """
    if not len(positions):
        return
    width = rows.size // len(positions)
    if not _PLACED_ELEMENTS <= rows.size <= SPARSE_ELEMENTS or width == 1 or not out.flags.c_contiguous:
        ufunc.at(out, positions, rows)
        return
    places = (positions.astype(np.intp) * width)[:, None] + np.arange(width)
    ufunc.at(out.reshape(-1), places.reshape(-1), rows.reshape(-1))


def sum_rows(positions: Array, rows: Array, count: int) -> Array:
    """The (count, width) sums of the (M, width) rows by position."""
    from scipy.sparse import csc_array

    size = len(positions)
    ones = np.ones(size, rows.dtype)
    pointers = np.arange(size + 1, dtype=positions.dtype)
    total: Array = csc_array((ones, positions, pointers), shape=(count, size)) @ rows
    return total


def starts_of(ids: Array) -> Array:
    """Return the start of each run of equal ids in a sorted, non-empty vector."""
    return np.concatenate(([0], np.flatnonzero(ids[1:] != ids[:-1]) + 1))


def reduce_sorted(ufunc: Any, out: Array, ids: Array, rows: Array) -> None:
    """out[id] = ufunc over the rows with that id, for the ids that occur; ids sorted."""
    if not rows.size:
        return
    starts = starts_of(ids)
    out[ids[starts]] = ufunc.reduceat(rows, starts, axis=0)


def combine(ufunc: Any, out: Array, ids: Array, rows: Array) -> None:
    """See `segment_sums.combine_rows`; ids in any order, all below len(out)."""
    if rows.size <= _AT_ELEMENTS:
        at(ufunc, out, ids, rows)
        return
    order = ids.argsort(kind="stable")
    reduce_sorted(ufunc, out, ids.take(order), rows.take(order, 0))


def counts(positions: Array, count: int) -> Array:
    """How often each number occurs, `count` numbers at least."""
    return np.bincount(positions, minlength=count)


__all__ = [
    "SPARSE_ELEMENTS",
    "SPARSE_KINDS",
    "add",
    "at",
    "combine",
    "counts",
    "reduce_sorted",
    "starts_of",
    "subtract",
    "sum_rows",
]
