"""Elements at every s-th place of an axis, gathered and put back.

A ufunc over every second row of eight floats spends its time on entering its inner loop. Where rows are
short, those of each place modulo the stride are first copied together as if each were one wide number,
which takes a tenth of that; the work then runs over long rows.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array

#: Bytes of a row from which its loop is worth entering.
_LONG_ROW: Final = 512


def wide(x: Array) -> Any:
    """(lead, size, tail) as (lead, size) of elements that are each a row; the rows must be contiguous."""
    return x.view(np.dtype((np.void, x.shape[2] * x.itemsize)))[:, :, 0]


def split(x: Array, step: int, *, empty: bool = False) -> list[Array] | None:
    """x (lead, size, tail), C-contiguous, by place modulo `step`: arrays (lead, ceil, tail).

    None where it does not pay. With `empty` the parts are zeros of the shapes, to be put back by `joined`.
    """
    lead, size, tail = x.shape
    if step == 1 or tail * x.itemsize >= _LONG_ROW or lead == 0 or tail == 0 or not x.flags.c_contiguous:
        return None
    if empty:
        return [np.zeros((lead, len(range(i, size, step)), tail), x.dtype) for i in range(step)]
    rows = wide(x)
    parts = []
    for i in range(step):
        part = np.empty((lead, len(range(i, size, step)), tail), x.dtype)
        if part.size:
            np.copyto(wide(part), rows[:, i::step])
        parts.append(part)
    return parts


def joined(parts: list[Array], out: Array) -> None:
    """The inverse of `split`, into (lead, size, tail)."""
    rows = wide(out)
    for i, part in enumerate(parts):
        if part.size:
            np.copyto(rows[:, i :: len(parts)], wide(part))
