"""Random numbers from a generator kept in a variable."""

from __future__ import annotations

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import shape_from_input

define(
    "NonDeterministicInts",
    inputs=["shape: shape_dtype"],
    outputs=["output: dtype"],
    attrs=["dtype: type = int64", "shape_dtype: type = int64"],
    is_stateful=True,
    shape=shape_from_input(0),
)
define(
    "StatefulStandardNormal",
    inputs=["resource: resource", "shape: shape_dtype"],
    outputs=["output: dtype"],
    attrs=["dtype: type = float", "shape_dtype: type = int64"],
    is_stateful=True,
    shape=shape_from_input(1),
)
define(
    "StatefulStandardNormalV2",
    inputs=["resource: resource", "algorithm: int64", "shape: shape_dtype"],
    outputs=["output: dtype"],
    attrs=["dtype: type = float", "shape_dtype: type = int64"],
    is_stateful=True,
    shape=shape_from_input(2),
)
define(
    "StatefulTruncatedNormal",
    inputs=["resource: resource", "algorithm: int64", "shape: shape_dtype"],
    outputs=["output: dtype"],
    attrs=["dtype: type = float", "shape_dtype: type = int64"],
    is_stateful=True,
    shape=shape_from_input(2),
)
define(
    "StatefulUniform",
    inputs=["resource: resource", "algorithm: int64", "shape: shape_dtype"],
    outputs=["output: dtype"],
    attrs=["dtype: type = float", "shape_dtype: type = int64"],
    is_stateful=True,
    shape=shape_from_input(2),
)
define(
    "StatefulUniformFullInt",
    inputs=["resource: resource", "algorithm: int64", "shape: shape_dtype"],
    outputs=["output: dtype"],
    attrs=["dtype: type = uint64", "shape_dtype: type = int64"],
    is_stateful=True,
    shape=shape_from_input(2),
)
define(
    "StatefulUniformInt",
    inputs=["resource: resource", "algorithm: int64", "shape: shape_dtype", "minval: dtype", "maxval: dtype"],
    outputs=["output: dtype"],
    attrs=["dtype: type = int64", "shape_dtype: type = int64"],
    is_stateful=True,
    shape=shape_from_input(2),
)
define(
    "StatefulRandomBinomial",
    inputs=["resource: resource", "algorithm: int64", "shape: S", "counts: T", "probs: T"],
    outputs=["output: dtype"],
    attrs=[
        "S: {int32, int64}",
        "T: {half, float, double, int32, int64} = double",
        "dtype: {half, float, double, int32, int64} = int64",
    ],
    is_stateful=True,
    shape=shape_from_input(2),
)
define("RngSkip", inputs=["resource: resource", "algorithm: int64", "delta: int64"], is_stateful=True)
