"""Sparse updates and reads of variables in the memory of a device; `scatter.py`, which registers these as
well, has those of host memory.

Additions are atomic, in any order, and of several assignments to one row any may stay, as with TensorFlow's
kernels for GPUs. An index out of range raises its error when the checks are read, before results leave the
step; the variable is not changed then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType, bfloat16, float16, float32, float64
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.array.gather import flat_positions, gather_nd, gather_v2
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.bad_indices import inside, without_outside
from flowengine.kernels.common.indices import check_indices
from flowengine.kernels.common.segment_sums import add_rows, combine_rows, subtract_rows
from flowengine.kernels.state.variables import check_dtype, existing
from flowengine.resources.variable import Variable

#: (array module, target rows, positions, update rows): what is done with them.
Combine: TypeAlias = Callable[[Any, Array, Array, Array], None]


class RowChange(NamedTuple):
    """How rows are changed.

    combine   changes them
    neutral   an update that changes nothing; None for the row itself
    types     {"T": of the variable}; None for all
    """

    combine: Combine
    neutral: int | None
    types: Any = None


def _store(xp: Any, target: Array, positions: Array, rows: Array) -> None:
    target[positions] = rows


def _multiply(xp: Any, target: Array, positions: Array, rows: Array) -> None:
    factors = xp.ones_like(target)
    combine_rows(xp, xp.multiply, factors, positions, rows)
    target *= factors


def _divide(xp: Any, target: Array, positions: Array, rows: Array) -> None:
    divisors = xp.ones_like(target)
    combine_rows(xp, xp.multiply, divisors, positions, rows)
    target /= divisors


def _extreme(name: str) -> Combine:
    def combine(xp: Any, target: Array, positions: Array, rows: Array) -> None:
        ufunc = getattr(xp, name)
        found = target.copy()
        combine_rows(xp, ufunc, found, positions, rows)
        ufunc(target, found, target)

    return combine


def _change(xp: Any, way: RowChange, target: Array, positions: Array, rows: Array, wrong: Any) -> None:
    """Change the target unless some index is wrong, a truth of rank 0 that is not looked at."""
    if not rows.size or not target.size:
        return
    kept = target[positions] if way.neutral is None else rows.dtype.type(way.neutral)
    way.combine(xp, target, positions, xp.where(wrong, kept, rows))


def _shape_of(variable: Variable) -> tuple[int, ...]:
    shape = variable.value_shape
    if shape is None or not variable.is_initialized:
        raise variable.uninitialized()
    return shape


def _scatter(xp: Any, variable: Variable, indices: Array, updates: Array, way: RowChange) -> None:
    """Rows of a variable. indices: any shape; updates: indices.shape + row shape, or rank 0."""
    shape = _shape_of(variable)
    if not shape:
        raise InvalidArgumentError("params must be at least 1-D, got shape []")
    if updates.ndim and updates.shape != indices.shape + shape[1:]:
        raise InvalidArgumentError(
            "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got "
            f"updates.shape {brackets(updates.shape)}, indices.shape {brackets(indices.shape)}, "
            f"params.shape {brackets(shape)}"
        )
    check_indices(indices, shape[0])
    if not updates.ndim:
        updates = xp.broadcast_to(updates, (*indices.shape, *shape[1:]))
    rows = updates.reshape((indices.size, *shape[1:]))
    wrong = ((indices < 0) | (indices >= shape[0])).any()
    _change(xp, way, variable.mutable(), indices.reshape(-1), rows, wrong)


def _scatter_slices(
    xp: Any, variable: Variable, indices: Array, updates: Array, way: RowChange, policy: bytes
) -> None:
    """Slices of a variable. indices: (..., K), each K coordinates of a slice; updates: (...) + slice."""
    shape = _shape_of(variable)
    indices, updates = without_outside(indices, updates, shape, policy)
    if indices.ndim < 1:
        raise InvalidArgumentError("indices must be at least a vector, got shape []")
    batch, depth = indices.shape[:-1], indices.shape[-1]
    if depth > len(shape) or updates.shape != batch + shape[depth:]:
        raise InvalidArgumentError(
            "Must have updates.shape = indices.shape[:-1] + params.shape[indices.shape[-1]:], got "
            f"updates.shape {brackets(updates.shape)}, indices.shape {brackets(indices.shape)}, "
            f"params.shape {brackets(shape)}"
        )
    positions = flat_positions(xp, indices, shape[:depth], "shape").reshape(-1)
    rows = updates.reshape((positions.size, *shape[depth:]))
    wrong = ~inside(indices, shape).all()
    target = variable.mutable().reshape((math.prod(shape[:depth]), *shape[depth:]))
    _change(xp, way, target, positions, rows, wrong)


_FLOATS: Final = {"T": [float16, bfloat16, float32, float64]}
#: {end of an op's name: how it changes rows}
WAYS: Final = {
    "Update": RowChange(_store, None),
    "Add": RowChange(add_rows, 0),
    "Sub": RowChange(subtract_rows, 0),
    "Mul": RowChange(_multiply, 1),
    "Div": RowChange(_divide, 1, _FLOATS),
    "Min": RowChange(_extreme("minimum"), None),
    "Max": RowChange(_extreme("maximum"), None),
}


def by_reference(way: RowChange) -> Callable[..., Variable]:
    def scatter(xp: Any, ref: Variable, indices: Array, updates: Array) -> Variable:
        _scatter(xp, ref, indices, updates, way)
        return ref

    return scatter


def by_handle(way: RowChange) -> Callable[..., None]:
    def scatter(xp: Any, resource: Any, indices: Array, updates: Array, *, dtype: DType) -> None:
        variable = existing(resource)
        check_dtype(variable, dtype)
        _scatter(xp, variable, indices, updates, way)

    return scatter


def slices_by_reference(way: RowChange) -> Callable[..., Variable]:
    def scatter(
        xp: Any, ref: Variable, indices: Array, updates: Array, *, bad_indices_policy: bytes = b""
    ) -> Variable:
        _scatter_slices(xp, ref, indices, updates, way, bad_indices_policy)
        return ref

    return scatter


def slices_by_handle(way: RowChange) -> Callable[..., None]:
    def scatter(
        xp: Any, ref: Any, indices: Array, updates: Array, *, bad_indices_policy: bytes = b""
    ) -> None:
        _scatter_slices(xp, existing(ref), indices, updates, way, bad_indices_policy)

    return scatter


def resource_gather(xp: Any, resource: Any, indices: Array, *, dtype: DType, batch_dims: int) -> Any:
    """Rows of the variable: indices.shape + params.shape[1:]; with `batch_dims` leading axes in common."""
    variable = existing(resource)
    check_dtype(variable, dtype)
    params = variable.read()
    axis = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    return gather_v2(xp, params, indices, np.int64(axis), batch_dims=batch_dims)


def resource_gather_nd(xp: Any, resource: Any, indices: Array, *, dtype: DType) -> Any:
    """Slices of the variable that the last axis of `indices` (..., K) names."""
    variable = existing(resource)
    check_dtype(variable, dtype)
    return gather_nd(xp, variable.read(), indices)


__all__ = [
    "WAYS",
    "RowChange",
    "by_handle",
    "by_reference",
    "resource_gather",
    "resource_gather_nd",
    "slices_by_handle",
    "slices_by_reference",
]
