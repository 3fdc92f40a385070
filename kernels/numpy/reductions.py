"""Extremes, logic and positions of extremes by NumPy's own reductions, which its array methods wrap."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.kernels.common.ufuncs import float_kernel
from flowengine.kernels.math.reductions import (
    check_position,
    highest,
    lowest,
    reduced_axes,
    scan_axis,
    scanned,
)
from flowengine.kernels.registry import kernel

_all: Any = np.logical_and.reduce
_any: Any = np.logical_or.reduce


@kernel("Max", device="CPU", host=("reduction_indices",))
def max_(x: Array, reduction_indices: Any, *, keep_dims: bool) -> Any:
    """The greatest over the given axes, NaN passed over; the type's lowest over none."""
    axes = reduced_axes(x, reduction_indices)
    if not axes:
        return x
    reduce: Any = np.maximum.reduce if x.dtype.kind in "iu" else np.fmax.reduce
    return reduce(x, axes, None, None, keep_dims, lowest(x.dtype))


@kernel("Min", device="CPU", host=("reduction_indices",))
def min_(x: Array, reduction_indices: Any, *, keep_dims: bool) -> Any:
    """The least over the given axes, NaN passed over; the type's highest over none."""
    axes = reduced_axes(x, reduction_indices)
    if not axes:
        return x
    reduce: Any = np.minimum.reduce if x.dtype.kind in "iu" else np.fmin.reduce
    return reduce(x, axes, None, None, keep_dims, highest(x.dtype))


@kernel("All", device="CPU", host=("reduction_indices",))
def all_(x: Array, reduction_indices: Any, *, keep_dims: bool) -> Any:
    return _all(x, axis=reduced_axes(x, reduction_indices), keepdims=keep_dims)


@kernel("Any", device="CPU", host=("reduction_indices",))
def any_(x: Array, reduction_indices: Any, *, keep_dims: bool) -> Any:
    return _any(x, axis=reduced_axes(x, reduction_indices), keepdims=keep_dims)


def _position(x: Array, dimension: Any, output_type: DType, greatest: bool) -> Any:
    axis = check_position(x, dimension)
    extreme = np.maximum if greatest else np.minimum
    if x.dtype.kind not in "iub" and x.size:
        best: Any = extreme.reduce(x, None)
        if best != best:
            # NumPy takes a NaN for the extreme; here it is passed over.
            x = np.where(np.isnan(x), x.dtype.type(-np.inf if greatest else np.inf), x)
    place = x.argmax(axis) if greatest else x.argmin(axis)
    dtype = output_type.as_numpy_dtype
    return place if place.dtype == dtype else place.astype(dtype)


@kernel("ArgMax", device="CPU", host=("dimension",))
def arg_max(x: Array, dimension: Any, *, output_type: DType) -> Any:
    """The first position of the greatest element along an axis."""
    return _position(x, dimension, output_type, True)


@kernel("ArgMin", device="CPU", host=("dimension",))
def arg_min(x: Array, dimension: Any, *, output_type: DType) -> Any:
    """The first position of the least element along an axis."""
    return _position(x, dimension, output_type, False)


@float_kernel("CumulativeLogsumexp", device="CPU", host=("axis",))
def cumulative_logsumexp(xp: Any, x: Array, axis: Any, *, exclusive: bool, reverse: bool) -> Any:
    """Running log of sums of exponentials, one after another."""

    def accumulate(along: Array) -> Array:
        return np.logaddexp.accumulate(along, axis=0)

    return scanned(xp, accumulate, float(np.finfo(x.dtype).min), x, scan_axis(x, axis), exclusive, reverse)
