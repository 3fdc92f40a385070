"""Counting into bins."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "Bincount",
    inputs=["arr: int32", "size: int32", "weights: T"],
    outputs=["bins: T"],
    attrs=["T: {int32, int64, float, double}"],
)
define(
    "Bucketize",
    inputs=["input: T"],
    outputs=["output: int32"],
    attrs=["T: {int32, int64, float, double}", "boundaries: list(float)"],
)
define(
    "CompareAndBitpack",
    inputs=["input: T", "threshold: T"],
    outputs=["output: uint8"],
    attrs=["T: {bool, half, float, double, int8, int16, int32, int64}"],
)
define(
    "DenseBincount",
    inputs=["input: Tidx", "size: Tidx", "weights: T"],
    outputs=["output: T"],
    attrs=["Tidx: {int32, int64}", "T: {int32, int64, float, double}", "binary_output: bool = false"],
)
define(
    "HistogramFixedWidth",
    inputs=["values: T", "value_range: T", "nbins: int32"],
    outputs=["out: dtype"],
    attrs=["T: {int32, int64, float, double}", "dtype: {int32, int64} = int32"],
)
