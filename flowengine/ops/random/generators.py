"""Random numbers from a generator whose state is a variable."""

from __future__ import annotations

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import shape_from_input

define(
    "NonDeterministicInts(shape: shape_dtype) -> output: dtype",
    "stateful; dtype, shape_dtype: type = int64",
    shape=shape_from_input(0),
)
define(
    "StatefulStandardNormal(resource: resource, shape: shape_dtype) -> output: dtype",
    "stateful; dtype: type = float; shape_dtype: type = int64",
    shape=shape_from_input(1),
)
define(
    "StatefulStandardNormalV2, StatefulTruncatedNormal, "
    "StatefulUniform(resource: resource, algorithm: int64, shape: shape_dtype) -> output: dtype",
    "stateful; dtype: type = float; shape_dtype: type = int64",
    shape=shape_from_input(2),
)
define(
    "StatefulUniformFullInt(resource: resource, algorithm: int64, shape: shape_dtype) -> output: dtype",
    "stateful; dtype: type = uint64; shape_dtype: type = int64",
    shape=shape_from_input(2),
)
define(
    "StatefulUniformInt(resource: resource, algorithm: int64, shape: shape_dtype, minval, maxval: dtype) "
    "-> output: dtype",
    "stateful; dtype, shape_dtype: type = int64",
    shape=shape_from_input(2),
)
define(
    "StatefulRandomBinomial(resource: resource, algorithm: int64, shape: S, counts, probs: T) "
    "-> output: dtype",
    "stateful; S: indextype; T: {half, float, double, int32, int64} = double",
    "dtype: {half, float, double, int32, int64} = int64",
    shape=shape_from_input(2),
)
define("RngSkip(resource: resource, algorithm, delta: int64)", "stateful")
