"""Normal numbers between bounds of their own."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import ranked, ranked_at_most


@define(
    "ParameterizedTruncatedNormal(shape: T, means, stdevs, minvals, maxvals: dtype) -> output: dtype",
    "stateful; seed, seed2: int = 0; dtype: floattype; T: indextype",
    NotDifferentiable(),
)
def parameterized(c: ShapeContext) -> Shapes:
    for index in range(1, 5):
        ranked_at_most(c, index, 1)
    return [c.input_as_shape(0)]


@define(
    "StatelessParameterizedTruncatedNormal(shape: S, seed: Tseed, means, stddevs, minvals, maxvals: dtype) "
    "-> output: dtype",
    "S: indextype; Tseed: indextype = int64; dtype: {half, float, double}",
    NotDifferentiable(),
)
def stateless_parameterized(c: ShapeContext) -> Shapes:
    ranked(c, 0, 1)
    ranked(c, 1, 1)
    return [c.input_as_shape(0)]
