"""Copies of views whose elements lie scattered: each line of memory is read once, and by every core."""

from __future__ import annotations

from typing import Final

from flowengine.core.arrays import Array
from flowengine.kernels.common.parallel import slices, spread

HOST: Final = "copies in host memory, over blocks that stay in a core's cache"

#: Elements from which a copy is spread over the cores, and in how many parts.
_SPREAD_MIN: Final = 1 << 18
_PARTS: Final = 8
#: Columns copied at a time where the copy reads across rows: 256 lines of 64 bytes fit the first-level
#: cache, so that each is read once. (8,3136,256) float32 takes 8 ms instead of 15.
_BLOCK: Final = 256
#: Up to this many columns they are copied one by one: (32,3,50176) to channels last in 2 ms, not 6.
_FEW: Final = 8


def copy_across(view: Array, out: Array, is_dense: bool) -> None:
    """Copy a view into a C-contiguous array; whether the view's last axis is dense in memory."""
    copy = _copy_rows if is_dense else _copy_blocks
    if out.size < _SPREAD_MIN:
        copy(view, out)
        return
    # Along the longest axis but the last, one that may be long enough for every core.
    axis = max(range(view.ndim - 1), key=view.shape.__getitem__)
    parts = slices(view.shape[axis], -(-view.shape[axis] // _PARTS))
    lead = (slice(None),) * axis
    spread(lambda number: copy(view[(*lead, parts[number])], out[(*lead, parts[number])]), len(parts))


def _copy_rows(view: Array, out: Array) -> None:
    """Copy a view whose last axis is dense in memory."""
    out[...] = view


def _copy_blocks(view: Array, out: Array) -> None:
    """Copy a view whose last axis is not the one that is dense in memory."""
    columns = view.shape[-1]
    if columns <= _FEW:
        for i in range(columns):
            out[..., i] = view[..., i]
    else:
        for i in range(0, columns, _BLOCK):
            out[..., i : i + _BLOCK] = view[..., i : i + _BLOCK]
