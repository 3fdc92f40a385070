"""Random tensors that are a function of their seed."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import check_scalars, dimension_value, merge_dims, ranked


@define(
    "StatelessRandomNormal, StatelessRandomUniform, "
    "StatelessTruncatedNormal(shape: T, seed: Tseed) -> output: dtype",
    "dtype: floattype = float; T: indextype = int32; Tseed: indextype = int64",
    NotDifferentiable(),
)
def stateless(c: ShapeContext) -> Shapes:
    """shape, seed (two integers) -> a tensor of that shape."""
    merge_dims(ranked(c, 1, 1)[0], 2, "The length of the seed and 2")
    return [c.input_as_shape(0)]


@define(
    "StatelessRandomUniformInt(shape: T, seed: Tseed, minval, maxval: dtype) -> output: dtype",
    "dtype, T: indextype; Tseed: indextype = int64",
    NotDifferentiable(),
)
def stateless_int(c: ShapeContext) -> Shapes:
    check_scalars(c, 2, 3)
    return stateless(c)


@define(
    "StatelessMultinomial(logits: T, num_samples: int32, seed: Tseed) -> output: output_dtype",
    "T: realnumbertype; Tseed, output_dtype: indextype = int64",
    NotDifferentiable(),
)
def stateless_multinomial(c: ShapeContext) -> Shapes:
    merge_dims(ranked(c, 2, 1)[0], 2, "The length of the seed and 2")
    return [TensorShape([ranked(c, 0, 2)[0], dimension_value(c, 1)])]
