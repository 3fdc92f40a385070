"""Binomially distributed numbers."""

from __future__ import annotations

from typing import Final

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import merge_dims, ranked, shape_from_input

_TYPES: Final = (
    "S: indextype; T: {half, float, double, int32, int64} = double; "
    "dtype: {half, float, double, int32, int64} = int64"
)

define(
    "StatefulRandomBinomial(resource: resource, algorithm: int64, shape: S, counts, probs: T) "
    "-> output: dtype",
    f"stateful; {_TYPES}",
    NotDifferentiable(),
    shape=shape_from_input(2),
)


@define(
    "StatelessRandomBinomial(shape: S, seed: Tseed, counts, probs: T) -> output: dtype",
    f"Tseed: indextype = int64; {_TYPES}",
    NotDifferentiable(),
)
def stateless_binomial(c: ShapeContext) -> Shapes:
    """shape, seed (two integers), counts and probabilities -> a tensor of that shape"""
    merge_dims(ranked(c, 1, 1)[0], 2, "The length of the seed and 2")
    return [c.input_as_shape(0)]
