"""Numbers with fractions to integers, up or down at random."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import check_scalars, merge_dims, ranked


@define(
    "StochasticCastToInt(input: Tin, key, counter: uint64, alg: int32) -> output: Tout",
    "Tin: {half, bfloat16, float, double}; Tout: {int8, int16, int32}",
    NotDifferentiable(),
)
def stochastic_cast(c: ShapeContext) -> Shapes:
    """a tensor, key, counter, algorithm -> a tensor of its shape"""
    merge_dims(ranked(c, 1, 1)[0], 1, "The length of the key and 1")
    ranked(c, 2, 1)
    check_scalars(c, 3)
    return [c.input(0)]
