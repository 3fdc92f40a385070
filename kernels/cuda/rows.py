"""Rows picked by index and rows summed by index: `sources/rows.cuh`, for gathers, scatters and segment sums.

Arrays lie row by row without gaps; indices are int32 or int64. An index out of range is written into the
error record with its value and its place: what it would have picked is 0, what it would have been added to
stays. Nothing is waited for.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.cuda.functions import INDEX_OUTSIDE
from flowengine.kernels.cuda.launching import KernelLaunch, Launcher, over

#: Types that there are atomic additions for.
ATOMIC: Final = frozenset({"float32", "float64", "int32", "uint32", "int64", "uint64"})
#: Bytes that a thread copies at most.
_UNIT_MAX: Final = 16


def gather(
    launcher: Launcher,
    params: Array,
    indices: Array,
    axis: int = 0,
    *,
    batch_dims: int = 0,
    alignment: int = 0,
) -> Any:
    """Slices of `params` along `axis`, picked by `indices`, of which `batch_dims` leading axes are shared.

    params      (B..., P..., N, S...), of any type of 1, 2, 4, 8 or 16 bytes
    indices     (B..., I...)
    alignment   bytes that the address of `params` is a multiple of; 0: those of an element
    returns     (B..., P..., I..., S...)

    Raises InvalidArgumentError for an axis, or axes that are shared, that the shapes do not have.
    """
    rank, shape = params.ndim, params.shape
    if not 0 <= batch_dims <= axis < rank or indices.shape[:batch_dims] != shape[:batch_dims]:
        raise InvalidArgumentError(
            f"slices along axis {axis} of shape {list(shape)} cannot be picked by indices of shape "
            f"{list(indices.shape)} with {batch_dims} axes in common"
        )
    picked = math.prod(indices.shape[batch_dims:])
    outer, middle = math.prod(shape[:axis]), math.prod(shape[batch_dims:axis])
    result = launcher.empty((*shape[:axis], *indices.shape[batch_dims:], *shape[axis + 1 :]), params.dtype)
    if not result.size:
        return result
    item = params.dtype.itemsize
    inner_bytes = math.prod(shape[axis + 1 :]) * item
    unit = math.gcd(inner_bytes, max(item, math.gcd(alignment, _UNIT_MAX)))
    inner = inner_bytes // unit
    name = f"gather_{8 * unit}_{indices.dtype.name}"
    numbers = (outer, shape[axis], picked, inner, middle, INDEX_OUTSIDE)
    launch = over(name, outer * picked * inner, *numbers)
    launcher.launch(launch, [params, indices, result, launcher.error_record])
    return result


def add_rows(
    launcher: Launcher,
    out: Array,
    positions: Array,
    rows: Array,
    *,
    order: Array | None = None,
    subtracts: bool = False,
    drops_negative: bool = False,
) -> None:
    """out[positions[i]] += rows[i] for every i, one after another: the CPU's bits.

    out              (N, ...), written: float16, bfloat16, float32, float64 or integers
    positions        (M,), sorted
    rows             (M, ...) of the type of `out`
    order            (M,) int64: which row each of the sorted positions came with; None for row by row
    subtracts        -= instead
    drops_negative   rows of negative positions are left out, as those of segments are

    Raises InvalidArgumentError for shapes that do not belong together.
    """
    launch = _sum_launch("sum_rows", out, positions, rows, subtracts, drops_negative)
    if launch:
        launcher.launch(launch, [out, positions, order, rows, launcher.error_record])


def add_rows_atomically(
    launcher: Launcher,
    out: Array,
    positions: Array,
    rows: Array,
    *,
    subtracts: bool = False,
    drops_negative: bool = False,
) -> None:
    """`add_rows` of positions in any order, for the types of `ATOMIC`: floats are added in no fixed order."""
    if out.dtype.name not in ATOMIC:
        raise InvalidArgumentError(
            f"there are no atomic additions of {out.dtype.name}: sort, and use add_rows"
        )
    launch = _sum_launch("sum_rows_atomically", out, positions, rows, subtracts, drops_negative)
    if launch:
        launcher.launch(launch, [out, positions, rows, launcher.error_record])


def _sum_launch(
    name: str, out: Array, positions: Array, rows: Array, subtracts: bool, drops: bool
) -> KernelLaunch | None:
    if positions.ndim != 1 or rows.shape != (*positions.shape, *out.shape[1:]) or rows.dtype != out.dtype:
        raise InvalidArgumentError(
            f"rows of shape {list(rows.shape)} ({rows.dtype.name}) and positions of shape "
            f"{list(positions.shape)} do not belong to what they are added to, of shape {list(out.shape)} "
            f"({out.dtype.name})"
        )
    if not rows.size:
        return None
    count, width = len(positions), math.prod(rows.shape[1:])
    numbers = (count, len(out), width, int(subtracts), int(drops), INDEX_OUTSIDE)
    return over(f"{name}_{out.dtype.name}_{positions.dtype.name}", count * width, *numbers)


def sorted_positions(xp: Any, positions: Array) -> tuple[Any, Any]:
    """(positions in rising order, which row each came with): what `add_rows` takes."""
    order = xp.argsort(positions, kind="stable").astype(np.int64)
    return positions.take(order), order


__all__ = ["ATOMIC", "add_rows", "add_rows_atomically", "gather", "sorted_positions"]
