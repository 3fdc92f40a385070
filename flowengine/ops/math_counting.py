"""Counting into bins."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    dimension_value,
    divide_dim,
    merge_dims,
    ranked,
    ranked_at_least,
    ranked_at_most,
    replace_dim,
    unchanged,
    vector,
)

define(
    "Bucketize",
    inputs=["input: T"],
    outputs=["output: int32"],
    attrs=["T: {int32, int64, float, double}", "boundaries: list(float)"],
    shape=unchanged,
)


def bincount(c: ShapeContext) -> Sequence[TensorShape]:
    return [vector(dimension_value(c, 1))]


define(
    "Bincount",
    inputs=["arr: int32", "size: int32", "weights: T"],
    outputs=["bins: T"],
    attrs=["T: {int32, int64, float, double}"],
    shape=bincount,
)


def dense_bincount(c: ShapeContext) -> Sequence[TensorShape]:
    """A vector of bins, or one for each row of a matrix."""
    shape = ranked_at_most(c, 0, 2)
    bins = dimension_value(c, 1)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    return [TensorShape([shape.dims[0], bins]) if len(shape.dims) == 2 else vector(bins)]


define(
    "DenseBincount",
    inputs=["input: Tidx", "size: Tidx", "weights: T"],
    outputs=["output: T"],
    attrs=["Tidx: {int32, int64}", "T: {int32, int64, float, double}", "binary_output: bool = false"],
    shape=dense_bincount,
)


def histogram(c: ShapeContext) -> Sequence[TensorShape]:
    bounds = ranked(c, 1, 1)
    merge_dims(bounds[0], 2, "The length of value_range and 2")
    return [vector(dimension_value(c, 2))]


define(
    "HistogramFixedWidth",
    inputs=["values: T", "value_range: T", "nbins: int32"],
    outputs=["out: dtype"],
    attrs=["T: {int32, int64, float, double}", "dtype: {int32, int64} = int32"],
    shape=histogram,
)


def bitpack(c: ShapeContext) -> Sequence[TensorShape]:
    shape = ranked_at_least(c, 0, 1)
    ranked(c, 1, 0)
    return [replace_dim(shape, -1, divide_dim(shape[-1], 8, "The last dimension"))]


define(
    "CompareAndBitpack",
    inputs=["input: T", "threshold: T"],
    outputs=["output: uint8"],
    attrs=["T: {bool, half, float, double, int8, int16, int32, int64}"],
    shape=bitpack,
)
