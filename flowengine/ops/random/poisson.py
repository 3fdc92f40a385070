"""Poisson-distributed numbers."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import merge_dims, ranked


@define(
    "RandomPoisson(shape: S, rate: dtype) -> output: dtype",
    "stateful; seed, seed2: int = 0; S: indextype; dtype: {half, float, double}",
    NotDifferentiable(),
)
@define(
    "RandomPoissonV2(shape: S, rate: R) -> output: dtype",
    "stateful; seed, seed2: int = 0; S: indextype; R: {half, float, double, int32, int64} = double",
    "dtype: {half, float, double, int32, int64} = int64",
    NotDifferentiable(),
)
def per_parameter(c: ShapeContext) -> Shapes:
    """A sample of the given shape for every parameter."""
    return [c.input_as_shape(0).concatenate(c.input(1))]


@define(
    "StatelessRandomPoisson(shape: T, seed: Tseed, lam: Rtype) -> output: dtype",
    "Rtype, dtype: {half, float, double, int32, int64}; T: indextype; Tseed: indextype = int64",
    NotDifferentiable(),
)
def stateless_poisson(c: ShapeContext) -> Shapes:
    """shape, seed (two integers), rates -> a tensor of that shape"""
    merge_dims(ranked(c, 1, 1)[0], 2, "The length of the seed and 2")
    return [c.input_as_shape(0)]
