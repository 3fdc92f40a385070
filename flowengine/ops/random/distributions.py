"""Gamma- and Poisson-distributed numbers."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import broadcast, merge_dims, ranked

# Poisson-distributed numbers.


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


# Gamma-distributed numbers.

define(
    "RandomGamma(shape: S, alpha: T) -> output: T",
    "stateful; seed, seed2: int = 0; S: indextype; T: {half, float, double}",
    shape=per_parameter,
)
define("RandomGammaGrad(alpha, sample: T) -> output: T", "T: {float, double}", shape=broadcast)


@define(
    "StatelessRandomGammaV2(shape: T, seed: Tseed, alpha: dtype) -> output: dtype",
    "dtype: {half, float, double}; T: indextype; Tseed: indextype = int64",
)
def stateless_gamma(c: ShapeContext) -> Shapes:
    """shape, seed (two integers), parameters -> a tensor of that shape"""
    merge_dims(ranked(c, 1, 1)[0], 2, "The length of the seed and 2")
    return [c.input_as_shape(0)]


@define(
    "StatelessRandomGammaV3(shape: shape_dtype, key, counter: uint64, alg: int32, alpha: dtype) "
    "-> output: dtype",
    "dtype: {half, float, double}; shape_dtype: indextype = int32",
)
def keyed_gamma(c: ShapeContext) -> Shapes:
    """shape, key, counter, algorithm, parameters -> a tensor of that shape"""
    merge_dims(ranked(c, 1, 1)[0], 1, "The length of the key and 1")
    return [c.input_as_shape(0)]
