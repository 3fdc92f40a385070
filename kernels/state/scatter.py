"""Updates of rows and slices of variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.bad_indices import without_outside
from flowengine.kernels.common.host_rows import SPARSE_ELEMENTS, SPARSE_KINDS, at, sum_rows
from flowengine.kernels.registry import kernel
from flowengine.kernels.state import device_scatter
from flowengine.kernels.state.repeated_rows import all_different, different, last_of_each, rounds
from flowengine.kernels.state.variables import check_dtype, existing
from flowengine.resources.variable import Variable

# Sparse updates of variables, in place: they cost their rows, however large the variable is.
#
# The reference forms (`ScatterAdd`) return the reference, the resource forms (`ResourceScatterAdd`)
# nothing. Where an index occurs more than once its updates are all applied, in order; for an assignment
# the last one stays. An index out of range fails before anything is written.

#: Elements of a row from which sums by a sparse product are quicker than `ufunc.at`.
_WIDTH_MIN = 4
#: Up to so many elements `ufunc.at` (3 ns an element, 10 of few) is quicker than finding out whether a row
#: comes twice.
_AT_ELEMENTS_MAX = 2048


def scatter_cost(ref: Variable, indices: Any, updates: Any) -> float:
    """Microseconds: rows are read and written at random places, some 50 ns and 1 ns a byte each."""
    rows = getattr(indices, "size", 1)
    return float(rows) * 0.05 + float(getattr(updates, "nbytes", 8)) * 0.001


def describe_index(indices: Array, position: int) -> str:
    """`indices[1,0] = 7` for the element at a flat position."""
    where = np.unravel_index(position, indices.shape) if indices.ndim else ()
    place = f"[{','.join(str(int(i)) for i in where)}]" if indices.ndim else ""
    return f"indices{place} = {int(indices.reshape(-1)[position])}"


def check_indices(indices: Array, limit: int) -> None:
    """InvalidArgumentError naming the first index outside [0, limit)."""
    if not indices.size:
        return
    if np.minimum.reduce(indices, axis=None) >= 0 and np.maximum.reduce(indices, axis=None) < limit:
        return
    flat = indices.reshape(-1)
    position = int(np.argmax((flat < 0) | (flat >= limit)))
    raise InvalidArgumentError(f"{describe_index(indices, position)} is not in [0, {limit})")


def _truncated_divide(numerator: Array, denominator: Array) -> Array:
    """Division as TensorFlow's on integers: towards zero."""
    if numerator.dtype.kind not in "iu":
        return np.divide(numerator, denominator)
    if not np.all(denominator):
        raise InvalidArgumentError("Integer division by zero")
    quotient = np.floor_divide(numerator, denominator)
    quotient += ((numerator % denominator) != 0) & ((numerator < 0) != (denominator < 0))
    return quotient


def _combine(ufunc: Any, target: Array, rows: Array, updates: Array) -> None:
    """target[rows] = ufunc(target[rows], updates), once for every occurrence of a row.

    target   (N, ...)
    rows     (K,) integers in [0, N)
    updates  (K, ...) or of rank 0
    """
    if rows.size == 0 or target.size == 0:
        return
    if updates.ndim == 0:
        updates = np.broadcast_to(updates, (rows.size, *target.shape[1:]))
    if updates.size <= _AT_ELEMENTS_MAX and ufunc is not _truncated_divide:
        at(ufunc, target, rows, updates)
        return
    if all_different(rows, len(target)):
        target[rows] = ufunc(target[rows], updates)
        return
    if ufunc is _truncated_divide:
        for selected in rounds(rows):
            target[rows[selected]] = ufunc(target[rows[selected]], updates[selected])
        return
    # Updates of one row are combined before they meet the target, which rounds differently from one by one,
    # but in a fixed order.
    if ufunc in (np.add, np.subtract) and updates.dtype.char in SPARSE_KINDS:
        if updates.size < max(_WIDTH_MIN * rows.size, SPARSE_ELEMENTS):
            at(ufunc, target, rows, updates)
            return
        unique, places = different(rows, len(target))
        sums = sum_rows(places, np.ascontiguousarray(updates).reshape(rows.size, -1), unique.size)
        target[unique] = ufunc(target[unique], sums.reshape(unique.size, *target.shape[1:]))
        return
    order = np.argsort(rows, kind="stable")
    in_order = rows[order]
    starts = np.flatnonzero(np.concatenate(([True], in_order[1:] != in_order[:-1])))
    unique = in_order[starts]
    within = np.add if ufunc is np.subtract else ufunc
    reduced = within.reduceat(updates[order], starts, axis=0, dtype=target.dtype)
    target[unique] = ufunc(target[unique], reduced)


def _store(target: Array, rows: Array, updates: Array) -> None:
    """target[rows] = updates, the last of several for one row.

    Assignment by an index array with repetitions is left open by NumPy, so they are taken out first.
    """
    if rows.size == 0 or target.size == 0:
        return
    keep = last_of_each(rows, len(target))
    if keep is not None:
        rows = rows[keep]
        if updates.ndim:
            updates = updates[keep]
    target[rows] = updates


def _scatter(variable: Variable, indices: Any, updates: Any, ufunc: Any) -> None:
    """Rows of a variable. indices: any shape; updates: indices.shape + row shape, or rank 0."""
    indices = to_array(indices)
    updates = to_array(updates)
    shape = variable.value_shape
    if shape is None or not variable.is_initialized:
        raise variable.uninitialized()
    if not shape:
        raise InvalidArgumentError("params must be at least 1-D, got shape []")
    if updates.ndim and updates.shape != indices.shape + shape[1:]:
        raise InvalidArgumentError(
            "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got "
            f"updates.shape {list(updates.shape)}, indices.shape {list(indices.shape)}, "
            f"params.shape {list(shape)}"
        )
    check_indices(indices, shape[0])
    rows = indices.reshape(-1)
    if updates.ndim:
        updates = updates.reshape((rows.size, *shape[1:]))
    _apply(ufunc, variable.mutable(), rows, updates)


def _apply(ufunc: Any, target: Array, rows: Array, updates: Array) -> None:
    if ufunc is None:
        _store(target, rows, updates)
    else:
        _combine(ufunc, target, rows, updates)


def scatter_slices(variable: Variable, indices: Any, updates: Any, ufunc: Any, policy: bytes = b"") -> None:
    """Slices of a variable. indices: (..., K), each K coordinates of a slice; updates: (...) + slice."""
    shape = variable.value_shape
    if shape is None or not variable.is_initialized:
        raise variable.uninitialized()
    indices, updates = without_outside(to_array(indices), to_array(updates), shape, policy)
    rows = nd_rows(indices, updates.shape, shape)
    depth = indices.shape[-1]
    outer = int(np.multiply.reduce(shape[:depth], dtype=np.int64))
    target = variable.mutable().reshape((outer, *shape[depth:]))
    _apply(ufunc, target, rows, updates.reshape((rows.size, *shape[depth:])))


def nd_rows(indices: Array, updates_shape: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """The flat positions, among the slices of a tensor of this shape, that `indices` (..., K) name.

    Raises InvalidArgumentError where the shapes do not fit or an index lies outside.
    """
    if indices.ndim < 1:
        raise InvalidArgumentError("indices must be at least a vector, got shape []")
    batch, depth = indices.shape[:-1], indices.shape[-1]
    if depth > len(shape) or updates_shape != batch + shape[depth:]:
        raise InvalidArgumentError(
            "Must have updates.shape = indices.shape[:-1] + params.shape[indices.shape[-1]:], got "
            f"updates.shape {list(updates_shape)}, indices.shape {list(indices.shape)}, "
            f"params.shape {list(shape)}"
        )
    flat = indices.reshape((int(np.multiply.reduce(batch, dtype=np.int64)), depth))
    limits = np.array(shape[:depth], dtype=np.int64)
    outside = ((flat < 0) | (flat >= limits)).any(axis=1)
    if outside.any():
        position = int(np.argmax(outside))
        where = [int(i) for i in np.unravel_index(position, batch)] if batch else []
        raise InvalidArgumentError(
            f"indices{where if where else ''} = {flat[position].tolist()} does not index into shape "
            f"{list(shape)}"
        )
    strides = np.ones(depth, dtype=np.int64)
    if depth > 1:
        strides[:-1] = np.multiply.accumulate(limits[:0:-1])[::-1]
    rows: Array = flat.astype(np.int64, copy=False) @ strides if depth else np.zeros(len(flat), np.int64)
    return rows


@kernel("ScatterUpdate", heavy=scatter_cost)
def scatter_update(ref: Variable, indices: Any, updates: Any) -> Variable:
    """Set rows; of several updates of one row the last stays."""
    _scatter(ref, indices, updates, None)
    return ref


@kernel("ScatterAdd", heavy=scatter_cost)
def scatter_add(ref: Variable, indices: Any, updates: Any) -> Variable:
    """Add to rows."""
    _scatter(ref, indices, updates, np.add)
    return ref


@kernel("ScatterSub", heavy=scatter_cost)
def scatter_sub(ref: Variable, indices: Any, updates: Any) -> Variable:
    """Subtract from rows."""
    _scatter(ref, indices, updates, np.subtract)
    return ref


@kernel("ScatterMul", heavy=scatter_cost)
def scatter_mul(ref: Variable, indices: Any, updates: Any) -> Variable:
    """Multiply rows."""
    _scatter(ref, indices, updates, np.multiply)
    return ref


@kernel("ScatterDiv", heavy=scatter_cost)
def scatter_div(ref: Variable, indices: Any, updates: Any) -> Variable:
    """Divide rows; integers towards zero."""
    _scatter(ref, indices, updates, _truncated_divide)
    return ref


@kernel("ScatterMin", heavy=scatter_cost)
def scatter_min(ref: Variable, indices: Any, updates: Any) -> Variable:
    """Elementwise minimum of rows and updates."""
    _scatter(ref, indices, updates, np.minimum)
    return ref


@kernel("ScatterMax", heavy=scatter_cost)
def scatter_max(ref: Variable, indices: Any, updates: Any) -> Variable:
    """Elementwise maximum of rows and updates."""
    _scatter(ref, indices, updates, np.maximum)
    return ref


@kernel("ScatterNdUpdate", heavy=scatter_cost)
def scatter_nd_update(
    ref: Variable, indices: Any, updates: Any, *, bad_indices_policy: bytes = b""
) -> Variable:
    """Set slices."""
    scatter_slices(ref, indices, updates, None, bad_indices_policy)
    return ref


@kernel("ScatterNdAdd", heavy=scatter_cost)
def scatter_nd_add(ref: Variable, indices: Any, updates: Any, *, bad_indices_policy: bytes = b"") -> Variable:
    """Add to slices."""
    scatter_slices(ref, indices, updates, np.add, bad_indices_policy)
    return ref


@kernel("ScatterNdSub", heavy=scatter_cost)
def scatter_nd_sub(ref: Variable, indices: Any, updates: Any, *, bad_indices_policy: bytes = b"") -> Variable:
    """Subtract from slices."""
    scatter_slices(ref, indices, updates, np.subtract, bad_indices_policy)
    return ref


def _resource_scatter(resource: Any, indices: Any, updates: Any, dtype: DType, ufunc: Any) -> None:
    variable = existing(resource)
    check_dtype(variable, dtype)
    _scatter(variable, indices, updates, ufunc)


@kernel("ResourceScatterUpdate", heavy=scatter_cost)
def resource_scatter_update(resource: Any, indices: Any, updates: Any, *, dtype: DType) -> None:
    """Set rows; of several updates of one row the last stays."""
    _resource_scatter(resource, indices, updates, dtype, None)


@kernel("ResourceScatterAdd", heavy=scatter_cost)
def resource_scatter_add(resource: Any, indices: Any, updates: Any, *, dtype: DType) -> None:
    """Add to rows."""
    _resource_scatter(resource, indices, updates, dtype, np.add)


@kernel("ResourceScatterSub", heavy=scatter_cost)
def resource_scatter_sub(resource: Any, indices: Any, updates: Any, *, dtype: DType) -> None:
    """Subtract from rows."""
    _resource_scatter(resource, indices, updates, dtype, np.subtract)


@kernel("ResourceScatterMul", heavy=scatter_cost)
def resource_scatter_mul(resource: Any, indices: Any, updates: Any, *, dtype: DType) -> None:
    """Multiply rows."""
    _resource_scatter(resource, indices, updates, dtype, np.multiply)


@kernel("ResourceScatterDiv", heavy=scatter_cost)
def resource_scatter_div(resource: Any, indices: Any, updates: Any, *, dtype: DType) -> None:
    """Divide rows; integers towards zero."""
    _resource_scatter(resource, indices, updates, dtype, _truncated_divide)


@kernel("ResourceScatterMin", heavy=scatter_cost)
def resource_scatter_min(resource: Any, indices: Any, updates: Any, *, dtype: DType) -> None:
    """Elementwise minimum of rows and updates."""
    _resource_scatter(resource, indices, updates, dtype, np.minimum)


@kernel("ResourceScatterMax", heavy=scatter_cost)
def resource_scatter_max(resource: Any, indices: Any, updates: Any, *, dtype: DType) -> None:
    """Elementwise maximum of rows and updates."""
    _resource_scatter(resource, indices, updates, dtype, np.maximum)


@kernel("ResourceScatterNdUpdate", heavy=scatter_cost)
def resource_scatter_nd_update(
    ref: Any, indices: Any, updates: Any, *, bad_indices_policy: bytes = b""
) -> None:
    """Set slices."""
    scatter_slices(existing(ref), indices, updates, None, bad_indices_policy)


@kernel("ResourceScatterNdAdd", heavy=scatter_cost)
def resource_scatter_nd_add(ref: Any, indices: Any, updates: Any, *, bad_indices_policy: bytes = b"") -> None:
    """Add to slices."""
    scatter_slices(existing(ref), indices, updates, np.add, bad_indices_policy)


@kernel("ResourceScatterNdSub", heavy=scatter_cost)
def resource_scatter_nd_sub(ref: Any, indices: Any, updates: Any, *, bad_indices_policy: bytes = b"") -> None:
    """Subtract from slices."""
    scatter_slices(existing(ref), indices, updates, np.subtract, bad_indices_policy)


def _gather_cost(resource: Any, indices: Any) -> float:
    """Microseconds: a gather moves each row once, some 20 ns a row and 0.3 ns a byte."""
    shape = getattr(resource, "value_shape", None) or (1,)
    row_elements = float(np.multiply.reduce(shape[1:], dtype=np.float64))
    return float(getattr(indices, "size", 1)) * (0.02 + row_elements * 4 * 0.0003)


@kernel("ResourceGather", fresh=True, heavy=_gather_cost)
def resource_gather(resource: Any, indices: Any, *, dtype: DType, batch_dims: int) -> Array:
    """Rows of the variable: indices.shape + params.shape[1:]; with `batch_dims` leading axes in common.

    Raises InvalidArgumentError naming the index that is out of range.
    """
    variable = existing(resource)
    check_dtype(variable, dtype)
    params = to_array(variable.read())
    indices = to_array(indices)
    if params.ndim == 0:
        raise InvalidArgumentError("params must be at least 1 dimensional")
    if batch_dims == 0:
        check_indices(indices, params.shape[0])
        taken: Array = params.take(indices, axis=0)
        return taken
    depth = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    if not 0 <= depth <= min(indices.ndim, params.ndim - 1):
        raise InvalidArgumentError(
            f"batch_dims = {batch_dims} must lie in [0, {min(indices.ndim, params.ndim - 1)}]"
        )
    if params.shape[:depth] != indices.shape[:depth]:
        raise InvalidArgumentError(
            f"with batch_dims = {batch_dims} params and indices must begin alike, but have shapes "
            f"{list(params.shape)} and {list(indices.shape)}"
        )
    check_indices(indices, params.shape[depth])
    batches = int(np.multiply.reduce(params.shape[:depth], dtype=np.int64))
    rows = indices.reshape((batches, int(np.multiply.reduce(indices.shape[depth:], dtype=np.int64))))
    flat = params.reshape((batches, *params.shape[depth:]))
    picked: Array = flat[np.arange(batches)[:, None], rows]
    return picked.reshape(indices.shape + params.shape[depth + 1 :])


@kernel("ResourceGatherNd", fresh=True)
def resource_gather_nd(resource: Any, indices: Any, *, dtype: DType) -> Array:
    """Slices of the variable that the last axis of `indices` (..., K) names."""
    variable = existing(resource)
    check_dtype(variable, dtype)
    params = to_array(variable.read())
    indices = to_array(indices)
    depth = indices.shape[-1] if indices.ndim else 0
    rows = nd_rows(indices, indices.shape[:-1] + params.shape[depth:], params.shape)
    outer = int(np.multiply.reduce(params.shape[:depth], dtype=np.int64))
    picked: Array = params.reshape((outer, *params.shape[depth:])).take(rows, axis=0)
    return picked.reshape(indices.shape[:-1] + params.shape[depth:])


for _name, _way in device_scatter.WAYS.items():
    _types = None if _way.types is None else {"dtype": _way.types["T"]}
    kernel(f"Scatter{_name}", device=None, types=_way.types)(device_scatter.by_reference(_way))
    kernel(f"ResourceScatter{_name}", device=None, types=_types)(device_scatter.by_handle(_way))
    if _name in ("Update", "Add", "Sub"):
        kernel(f"ScatterNd{_name}", device=None)(device_scatter.slices_by_reference(_way))
        kernel(f"ResourceScatterNd{_name}", device=None)(device_scatter.slices_by_handle(_way))
kernel("ResourceGather", device=None, fresh=True)(device_scatter.resource_gather)
kernel("ResourceGatherNd", device=None, fresh=True)(device_scatter.resource_gather_nd)


# The larger or the smaller of slices of variables and updates, in place.


@kernel("ScatterNdMax", heavy=scatter_cost)
def scatter_nd_max(ref: Variable, indices: Any, updates: Any, *, bad_indices_policy: bytes = b"") -> Variable:
    """Elementwise maximum of slices and updates."""
    scatter_slices(ref, indices, updates, np.maximum, bad_indices_policy)
    return ref


@kernel("ScatterNdMin", heavy=scatter_cost)
def scatter_nd_min(ref: Variable, indices: Any, updates: Any, *, bad_indices_policy: bytes = b"") -> Variable:
    """Elementwise minimum of slices and updates."""
    scatter_slices(ref, indices, updates, np.minimum, bad_indices_policy)
    return ref


@kernel("ResourceScatterNdMax", heavy=scatter_cost)
def resource_scatter_nd_max(ref: Any, indices: Any, updates: Any, *, bad_indices_policy: bytes = b"") -> None:
    """Elementwise maximum of slices and updates."""
    scatter_slices(existing(ref), indices, updates, np.maximum, bad_indices_policy)


@kernel("ResourceScatterNdMin", heavy=scatter_cost)
def resource_scatter_nd_min(ref: Any, indices: Any, updates: Any, *, bad_indices_policy: bytes = b"") -> None:
    """Elementwise minimum of slices and updates."""
    scatter_slices(existing(ref), indices, updates, np.minimum, bad_indices_policy)


for _name in ("Max", "Min"):
    _way = device_scatter.WAYS[_name]
    kernel(f"ScatterNd{_name}", device=None)(device_scatter.slices_by_reference(_way))
    kernel(f"ResourceScatterNd{_name}", device=None)(device_scatter.slices_by_handle(_way))
