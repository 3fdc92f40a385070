"""Random tensors that are a function of a key and a counter, given or kept by a generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    check_scalars,
    fixed,
    merge_dims,
    ranked,
    shape_from_input,
    unchanged,
)

# Random tensors that are a function of a key and a counter, which other ops make of a seed.

_SEED: Final = "Tseed: indextype = int64"
_SHAPE: Final = "Tshape: indextype = int32"


def _check_key(c: ShapeContext, first: int) -> None:
    """The inputs key (1), counter (2 or more) and algorithm, from this one on."""
    merge_dims(ranked(c, first, 1)[0], 1, "The length of the key and 1")
    ranked(c, first + 1, 1)
    check_scalars(c, first + 2)


@define("StatelessRandomGetKeyCounter(seed: Tseed) -> key, counter: uint64", _SEED, NotDifferentiable())
@define(
    "StatelessRandomGetKeyCounterAlg(seed: Tseed) -> key: uint64, counter: uint64, alg: int32",
    _SEED,
    NotDifferentiable(),
)
def key_counter(c: ShapeContext) -> Shapes:
    """A seed of two integers -> (1), (2), ()"""
    merge_dims(ranked(c, 0, 1)[0], 2, "The length of the seed and 2")
    return [TensorShape([1]), TensorShape([2]), SCALAR][: c.num_outputs]


@define("StatelessRandomGetAlg() -> alg: int32", "stateful", NotDifferentiable())
def get_alg(c: ShapeContext) -> Sequence[TensorShape]:
    return [SCALAR]


@define(
    "StatelessRandomUniformV2, StatelessRandomNormalV2, StatelessTruncatedNormalV2"
    "(shape: Tshape, key, counter: uint64, alg: int32) -> output: dtype",
    f"dtype: floattype = float; {_SHAPE}",
    NotDifferentiable(),
)
@define(
    "StatelessRandomUniformFullIntV2(shape: Tshape, key, counter: uint64, alg: int32) -> output: dtype",
    f"dtype: {{int32, int64, uint32, uint64}} = uint64; {_SHAPE}",
    NotDifferentiable(),
)
@define(
    "StatelessRandomUniformIntV2(shape: Tshape, key, counter: uint64, alg: int32, minval, maxval: dtype) "
    "-> output: dtype",
    f"dtype: {{int32, int64, uint32, uint64}}; {_SHAPE}",
    NotDifferentiable(),
)
def keyed(c: ShapeContext) -> Shapes:
    """shape, key, counter, algorithm -> a tensor of that shape"""
    _check_key(c, 1)
    check_scalars(c, *range(4, c.num_inputs))
    return [c.input_as_shape(0)]


@define(
    "StatelessRandomUniformFullInt(shape: T, seed: Tseed) -> output: dtype",
    "dtype: {int32, int64, uint32, uint64} = uint64; T: indextype = int32",
    "Tseed: {int32, int64, uint32, uint64} = int64",
    NotDifferentiable(),
)
def full_int(c: ShapeContext) -> Shapes:
    merge_dims(ranked(c, 1, 1)[0], 2, "The length of the seed and 2")
    return [c.input_as_shape(0)]


define(
    "StatelessShuffle(value: T, key, counter: uint64, alg: int32) -> output: T", "T: type", shape=unchanged
)


# Random numbers from a generator whose state is a variable.

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
