"""Random numbers from a seed."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    broadcast,
    check_scalars,
    dimension_value,
    ranked,
    ranked_at_most,
    shape_from_input,
    unchanged,
)

define(
    "RandomUniform",
    inputs=["shape: T"],
    outputs=["output: dtype"],
    attrs=["seed: int = 0", "seed2: int = 0", "dtype: floattype", "T: {int32, int64}"],
    is_stateful=True,
    shape=shape_from_input(0),
)
define(
    "RandomStandardNormal",
    inputs=["shape: T"],
    outputs=["output: dtype"],
    attrs=["seed: int = 0", "seed2: int = 0", "dtype: floattype", "T: {int32, int64}"],
    is_stateful=True,
    shape=shape_from_input(0),
)
define(
    "TruncatedNormal",
    inputs=["shape: T"],
    outputs=["output: dtype"],
    attrs=["seed: int = 0", "seed2: int = 0", "dtype: floattype", "T: {int32, int64}"],
    is_stateful=True,
    shape=shape_from_input(0),
)


def uniform_int(c: ShapeContext) -> Sequence[TensorShape]:
    check_scalars(c, 1, 2)
    return [c.input_as_shape(0)]


define(
    "RandomUniformInt",
    inputs=["shape: T", "minval: Tout", "maxval: Tout"],
    outputs=["output: Tout"],
    attrs=["seed: int = 0", "seed2: int = 0", "Tout: {int32, int64}", "T: {int32, int64}"],
    is_stateful=True,
    shape=uniform_int,
)


def parameterized(c: ShapeContext) -> Sequence[TensorShape]:
    for index in range(1, 5):
        ranked_at_most(c, index, 1)
    return [c.input_as_shape(0)]


define(
    "ParameterizedTruncatedNormal",
    inputs=["shape: T", "means: dtype", "stdevs: dtype", "minvals: dtype", "maxvals: dtype"],
    outputs=["output: dtype"],
    attrs=["seed: int = 0", "seed2: int = 0", "dtype: floattype", "T: {int32, int64}"],
    is_stateful=True,
    shape=parameterized,
)


def per_parameter(c: ShapeContext) -> Sequence[TensorShape]:
    """A sample of the given shape for every parameter."""
    return [c.input_as_shape(0).concatenate(c.input(1))]


define(
    "RandomGamma",
    inputs=["shape: S", "alpha: T"],
    outputs=["output: T"],
    attrs=["seed: int = 0", "seed2: int = 0", "S: {int32, int64}", "T: {half, float, double}"],
    is_stateful=True,
    shape=per_parameter,
)
define(
    "RandomPoisson",
    inputs=["shape: S", "rate: dtype"],
    outputs=["output: dtype"],
    attrs=["seed: int = 0", "seed2: int = 0", "S: {int32, int64}", "dtype: {half, float, double}"],
    is_stateful=True,
    shape=per_parameter,
)
define(
    "RandomPoissonV2",
    inputs=["shape: S", "rate: R"],
    outputs=["output: dtype"],
    attrs=[
        "seed: int = 0",
        "seed2: int = 0",
        "S: {int32, int64}",
        "R: {half, float, double, int32, int64} = double",
        "dtype: {half, float, double, int32, int64} = int64",
    ],
    is_stateful=True,
    shape=per_parameter,
)
define(
    "RandomGammaGrad",
    inputs=["alpha: T", "sample: T"],
    outputs=["output: T"],
    attrs=["T: {float, double}"],
    shape=broadcast,
)
define(
    "RandomShuffle",
    inputs=["value: T"],
    outputs=["output: T"],
    attrs=["seed: int = 0", "seed2: int = 0", "T: type"],
    is_stateful=True,
    shape=unchanged,
)


def multinomial(c: ShapeContext) -> Sequence[TensorShape]:
    return [TensorShape([ranked(c, 0, 2)[0], dimension_value(c, 1)])]


define(
    "Multinomial",
    inputs=["logits: T", "num_samples: int32"],
    outputs=["output: output_dtype"],
    attrs=["seed: int = 0", "seed2: int = 0", "T: realnumbertype", "output_dtype: {int32, int64} = int64"],
    is_stateful=True,
    shape=multinomial,
)
