"""Reductions and scans along axes."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "All",
    inputs=["input: bool", "reduction_indices: Tidx"],
    outputs=["output: bool"],
    attrs=["keep_dims: bool = false", "Tidx: {int32, int64} = int32"],
)
define(
    "Any",
    inputs=["input: bool", "reduction_indices: Tidx"],
    outputs=["output: bool"],
    attrs=["keep_dims: bool = false", "Tidx: {int32, int64} = int32"],
)
define(
    "ArgMax",
    inputs=["input: T", "dimension: Tidx"],
    outputs=["output: output_type"],
    attrs=["T: numbertype", "Tidx: {int32, int64} = int32", "output_type: {int32, int64} = int64"],
)
define(
    "ArgMin",
    inputs=["input: T", "dimension: Tidx"],
    outputs=["output: output_type"],
    attrs=["T: numbertype", "Tidx: {int32, int64} = int32", "output_type: {int32, int64} = int64"],
)
define(
    "Cumprod",
    inputs=["x: T", "axis: Tidx"],
    outputs=["out: T"],
    attrs=[
        "exclusive: bool = false",
        "reverse: bool = false",
        "T: numbertype",
        "Tidx: {int32, int64} = int32",
    ],
)
define(
    "Cumsum",
    inputs=["x: T", "axis: Tidx"],
    outputs=["out: T"],
    attrs=[
        "exclusive: bool = false",
        "reverse: bool = false",
        "T: numbertype",
        "Tidx: {int32, int64} = int32",
    ],
)
define(
    "CumulativeLogsumexp",
    inputs=["x: T", "axis: Tidx"],
    outputs=["out: T"],
    attrs=[
        "exclusive: bool = false",
        "reverse: bool = false",
        "T: {half, float, double}",
        "Tidx: {int32, int64} = int32",
    ],
)
define(
    "EuclideanNorm",
    inputs=["input: T", "reduction_indices: Tidx"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: numbertype", "Tidx: {int32, int64} = int32"],
)
define(
    "Max",
    inputs=["input: T", "reduction_indices: Tidx"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: numbertype", "Tidx: {int32, int64} = int32"],
)
define(
    "Mean",
    inputs=["input: T", "reduction_indices: Tidx"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: numbertype", "Tidx: {int32, int64} = int32"],
)
define(
    "Min",
    inputs=["input: T", "reduction_indices: Tidx"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: numbertype", "Tidx: {int32, int64} = int32"],
)
define(
    "Prod",
    inputs=["input: T", "reduction_indices: Tidx"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: numbertype", "Tidx: {int32, int64} = int32"],
)
define(
    "Sum",
    inputs=["input: T", "reduction_indices: Tidx"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: numbertype", "Tidx: {int32, int64} = int32"],
)
