"""Sparse updates and reads of variables in the memory of a device; `scatter.py` has those of host memory.

Additions are atomic, in any order, and of several assignments to one row any may stay, as with TensorFlow's
kernels for GPUs. An index out of range is told when somebody looks at the checks, before results leave the
step; what the variable holds then is not defined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType, bfloat16, float16, float32, float64
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.array.gather import flat_positions, gather_nd, gather_v2
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.bad_indices import without_outside
from flowengine.kernels.common.indices import check_indices
from flowengine.kernels.common.segment_sums import add_rows, combine_rows, subtract_rows
from flowengine.kernels.registry import kernel
from flowengine.kernels.state.resource_variables import check_dtype, existing
from flowengine.resources.variable import Variable

#: (array module, target rows, positions, update rows): what is done with them.
Combine: TypeAlias = Callable[[Any, Array, Array, Array], None]


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


def _shape_of(variable: Variable) -> tuple[int, ...]:
    shape = variable.value_shape
    if shape is None or not variable.is_initialized:
        raise variable.uninitialized()
    return shape


def _scatter(xp: Any, variable: Variable, indices: Array, updates: Array, combine: Combine) -> None:
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
    target = variable.mutable()
    if rows.size and target.size:
        combine(xp, target, indices.reshape(-1), rows)


def _scatter_slices(
    xp: Any, variable: Variable, indices: Array, updates: Array, combine: Combine, policy: bytes
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
    target = variable.mutable()
    if rows.size and target.size:
        combine(xp, target.reshape((math.prod(shape[:depth]), *shape[depth:])), positions, rows)


_FLOATS: Final = {"T": [float16, bfloat16, float32, float64]}
#: {what is done: (how, types of the form by reference)}
_COMBINES: Final[dict[str, tuple[Combine, Any]]] = {
    "Update": (_store, None),
    "Add": (add_rows, None),
    "Sub": (subtract_rows, None),
    "Mul": (_multiply, None),
    "Div": (_divide, _FLOATS),
    "Min": (_extreme("minimum"), None),
    "Max": (_extreme("maximum"), None),
}


def _by_reference(combine: Combine) -> Callable[..., Variable]:
    def scatter(xp: Any, ref: Variable, indices: Array, updates: Array) -> Variable:
        _scatter(xp, ref, indices, updates, combine)
        return ref

    return scatter


def _by_handle(combine: Combine) -> Callable[..., None]:
    def scatter(xp: Any, resource: Any, indices: Array, updates: Array, *, dtype: DType) -> None:
        variable = existing(resource)
        check_dtype(variable, dtype)
        _scatter(xp, variable, indices, updates, combine)

    return scatter


def _slices_by_reference(combine: Combine) -> Callable[..., Variable]:
    def scatter(
        xp: Any, ref: Variable, indices: Array, updates: Array, *, bad_indices_policy: bytes = b""
    ) -> Variable:
        _scatter_slices(xp, ref, indices, updates, combine, bad_indices_policy)
        return ref

    return scatter


def _slices_by_handle(combine: Combine) -> Callable[..., None]:
    def scatter(
        xp: Any, ref: Any, indices: Array, updates: Array, *, bad_indices_policy: bytes = b""
    ) -> None:
        _scatter_slices(xp, existing(ref), indices, updates, combine, bad_indices_policy)

    return scatter


for _name, (_combine, _types) in _COMBINES.items():
    kernel(f"Scatter{_name}", device=None, types=_types)(_by_reference(_combine))
    kernel(
        f"ResourceScatter{_name}", device=None, types=None if _types is None else {"dtype": _types["T"]}
    )(_by_handle(_combine))
    if _name not in ("Mul", "Div"):
        kernel(f"ScatterNd{_name}", device=None)(_slices_by_reference(_combine))
        kernel(f"ResourceScatterNd{_name}", device=None)(_slices_by_handle(_combine))


@kernel("ResourceGather", device=None, fresh=True)
def resource_gather(xp: Any, resource: Any, indices: Array, *, dtype: DType, batch_dims: int) -> Any:
    """Rows of the variable: indices.shape + params.shape[1:]; with `batch_dims` leading axes in common."""
    variable = existing(resource)
    check_dtype(variable, dtype)
    params = variable.read()
    axis = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    return gather_v2(xp, params, indices, np.int64(axis), batch_dims=batch_dims)


@kernel("ResourceGatherNd", device=None, fresh=True)
def resource_gather_nd(xp: Any, resource: Any, indices: Array, *, dtype: DType) -> Any:
    """Slices of the variable that the last axis of `indices` (..., K) names."""
    variable = existing(resource)
    check_dtype(variable, dtype)
    return gather_nd(xp, variable.read(), indices)
