"""Large tensors put together by every core, some rows at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.core.buffers import empty
from flowengine.kernels.array.joining import check_concat
from flowengine.kernels.common.parallel import cores, slices, spread
from flowengine.kernels.registry import kernel

#: Elements of the first input from which the others are looked at.
_LOOKED_AT: Final = 1 << 14


@kernel("ConcatV2", device="CPU", host=("axis",))
def concat_v2(values: tuple[Array, ...], axis: Value) -> Any:
    """The inputs one after another along an axis; their other dimensions must agree."""
    try:
        if type(values[0]) is np.ndarray and values[0].size >= _LOOKED_AT:
            joined = _joined_in_parts(values, int(axis))
            if joined is not None:
                return joined
        return np.concatenate(values, int(axis))
    except (ValueError, TypeError, IndexError):
        check_concat(values, axis)
        raise


@kernel("Concat", device="CPU", host=("concat_dim",))
def concat(concat_dim: Value, values: tuple[Array, ...]) -> Any:
    """ConcatV2 with the axis first."""
    return concat_v2(values, concat_dim)


#: Elements from which a result is put together by every core, some rows at a time.
_LARGE: Final = 1 << 18
#: Bytes of the rows that are put together before the next. What they are written to is in the second cache
#: then from the first table's columns to the last's: 12 MB take 1.0 ms instead of 1.4.
_BLOCK_BYTES: Final = 1 << 19
#: Into how many parts each core's share is divided, so that none waits long for another.
_PARTS_OF_CORE: Final = 2


def _joined_in_parts(values: tuple[Array, ...], axis: int) -> Array | None:
    """Large arrays joined along an axis that is not their first; None for others, and where shapes differ."""
    first = values[0]
    rank, dtype = first.ndim, first.dtype
    axis += rank if axis < 0 else 0
    size = 0
    for value in values:
        if value.ndim != rank or value.dtype != dtype:
            return None
        size += value.size
    if size < _LARGE or not 0 < axis < rank or dtype.hasobject:
        return None
    lead, rest = first.shape[:axis], first.shape[axis + 1 :]
    if any(v.shape[:axis] != lead or v.shape[axis + 1 :] != rest for v in values):
        return None
    if not all(type(v) is np.ndarray and v.flags.c_contiguous for v in values):
        return None
    rows = math.prod(lead)
    shape = (*lead, sum(v.shape[axis] for v in values), *rest)
    result = empty(shape, dtype)
    join_rows([v.reshape(rows, -1) for v in values], result.reshape(rows, -1))
    return result


def join_rows(tables: Sequence[Array], out: Array) -> None:
    """The rows of C-contiguous tables (R, C_i) one after another, in `out` (R, sum of C_i); by every core."""
    rows = len(out)
    block = max(1, _BLOCK_BYTES // max(1, out.shape[1] * out.itemsize))
    count = cores() if out.size >= _LARGE else 1
    if count == 1:
        _join_blocks(tables, out, block)
        return
    parts = slices(rows, max(block, -(-rows // (_PARTS_OF_CORE * count))))

    def join(number: int) -> None:
        part = parts[number]
        _join_blocks([taken[part] for taken in tables], out[part], block)

    spread(join, len(parts))


def _join_blocks(tables: Sequence[Array], out: Array, block: int) -> None:
    if len(out) <= block:
        np.concatenate(tables, 1, out=out)
        return
    for part in slices(len(out), block):
        np.concatenate([taken[part] for taken in tables], 1, out=out[part])
