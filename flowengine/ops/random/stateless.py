"""Numbers that are a function of a seed or of their place alone."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape, broadcast_shapes
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    check_scalars,
    dimension_value,
    merge_dims,
    prefix,
    ranked,
    ranked_at_least,
    ranked_at_most,
)

# Random tensors that are a function of their seed.


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


# The place of one index in a random order of all.


@define(
    "RandomIndexShuffle(index: dtype, seed: Tseed, max_index: dtype) -> output: dtype",
    "rounds: int = 4; dtype, Tseed: {int32, uint32, int64, uint64}",
    NotDifferentiable(),
)
def index_shuffle(c: ShapeContext) -> Shapes:
    """indices, seeds (..., 3), greatest indices -> indices; scalars or vectors"""
    index, seed, most = ranked_at_most(c, 0, 1), ranked_at_least(c, 1, 1), ranked_at_most(c, 2, 1)
    if index.dims is None or seed.dims is None or most.dims is None:
        return [UNKNOWN_SHAPE]
    if seed.dims[-1] not in (None, 3) or len(seed.dims) > 2:
        raise InvalidArgumentError(f"seed must have shape [3] or [n, 3], not {seed}")
    return [broadcast_shapes(broadcast_shapes(index, most), prefix(seed, -1))]


# Numbers with fractions to integers, up or down at random.


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


# Sequences that fill a cube evenly.


@define(
    "SobolSample(dim, num_results, skip: int32) -> samples: dtype",
    "dtype: {float, double} = float",
    NotDifferentiable(),
)
def sobol(c: ShapeContext) -> Shapes:
    check_scalars(c, 0, 1, 2)
    return [TensorShape([dimension_value(c, 1), dimension_value(c, 0)])]
