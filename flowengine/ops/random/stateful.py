"""Random tensors, shuffles and draws from categories, from a sequence of their own."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    check_scalars,
    dimension_value,
    ranked,
    shape_from_input,
    unchanged,
)

define(
    "RandomUniform, RandomStandardNormal, TruncatedNormal(shape: T) -> output: dtype",
    "stateful; seed, seed2: int = 0; dtype: floattype; T: indextype",
    NotDifferentiable(),
    shape=shape_from_input(0),
)


@define(
    "RandomUniformInt(shape: T, minval, maxval: Tout) -> output: Tout",
    "stateful; seed, seed2: int = 0; Tout, T: indextype",
    NotDifferentiable(),
)
def uniform_int(c: ShapeContext) -> Shapes:
    check_scalars(c, 1, 2)
    return [c.input_as_shape(0)]


define("RandomShuffle(value: T) -> output: T", "stateful; seed, seed2: int = 0; T: type", shape=unchanged)


@define(
    "Multinomial(logits: T, num_samples: int32) -> output: output_dtype",
    "stateful; seed, seed2: int = 0; T: realnumbertype; output_dtype: indextype = int64",
    NotDifferentiable(),
)
def multinomial(c: ShapeContext) -> Shapes:
    return [TensorShape([ranked(c, 0, 2)[0], dimension_value(c, 1)])]
