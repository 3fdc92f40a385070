"""Random numbers from a generator whose state is a variable."""

from __future__ import annotations

from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import fixed, shape_from_input

define(
    "NonDeterministicInts(shape: shape_dtype) -> output: dtype",
    "stateful; dtype, shape_dtype: type = int64",
    NotDifferentiable(),
    shape=shape_from_input(0),
)
define(
    "StatefulStandardNormal(resource: resource, shape: shape_dtype) -> output: dtype",
    "stateful; dtype: type = float; shape_dtype: type = int64",
    NotDifferentiable(),
    shape=shape_from_input(1),
)
define(
    "StatefulStandardNormalV2, StatefulTruncatedNormal, "
    "StatefulUniform(resource: resource, algorithm: int64, shape: shape_dtype) -> output: dtype",
    "stateful; dtype: type = float; shape_dtype: type = int64",
    NotDifferentiable(),
    shape=shape_from_input(2),
)
define(
    "StatefulUniformFullInt(resource: resource, algorithm: int64, shape: shape_dtype) -> output: dtype",
    "stateful; dtype: type = uint64; shape_dtype: type = int64",
    NotDifferentiable(),
    shape=shape_from_input(2),
)
define(
    "StatefulUniformInt(resource: resource, algorithm: int64, shape: shape_dtype, minval, maxval: dtype) "
    "-> output: dtype",
    "stateful; dtype, shape_dtype: type = int64",
    NotDifferentiable(),
    shape=shape_from_input(2),
)
define("RngSkip(resource: resource, algorithm, delta: int64)", "stateful", NotDifferentiable())
define(
    "RngReadAndSkip(resource: resource, alg: int32, delta: uint64) -> value: int64",
    "stateful",
    NotDifferentiable(),
    shape=fixed([3]),
)
