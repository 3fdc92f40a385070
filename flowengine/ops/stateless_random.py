"""Random numbers as a function of a seed input."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import check_scalars, dimension_value, merge_dims, ranked


def stateless(c: ShapeContext) -> Sequence[TensorShape]:
    """shape, seed (two integers) -> a tensor of that shape."""
    merge_dims(ranked(c, 1, 1)[0], 2, "The length of the seed and 2")
    return [c.input_as_shape(0)]


define(
    "StatelessRandomNormal",
    inputs=["shape: T", "seed: Tseed"],
    outputs=["output: dtype"],
    attrs=["dtype: floattype = float", "T: {int32, int64} = int32", "Tseed: {int32, int64} = int64"],
    shape=stateless,
)
define(
    "StatelessRandomUniform",
    inputs=["shape: T", "seed: Tseed"],
    outputs=["output: dtype"],
    attrs=["dtype: floattype = float", "T: {int32, int64} = int32", "Tseed: {int32, int64} = int64"],
    shape=stateless,
)
define(
    "StatelessTruncatedNormal",
    inputs=["shape: T", "seed: Tseed"],
    outputs=["output: dtype"],
    attrs=["dtype: floattype = float", "T: {int32, int64} = int32", "Tseed: {int32, int64} = int64"],
    shape=stateless,
)


def stateless_int(c: ShapeContext) -> Sequence[TensorShape]:
    check_scalars(c, 2, 3)
    return stateless(c)


define(
    "StatelessRandomUniformInt",
    inputs=["shape: T", "seed: Tseed", "minval: dtype", "maxval: dtype"],
    outputs=["output: dtype"],
    attrs=["dtype: {int32, int64}", "T: {int32, int64}", "Tseed: {int32, int64} = int64"],
    shape=stateless_int,
)


def stateless_multinomial(c: ShapeContext) -> Sequence[TensorShape]:
    merge_dims(ranked(c, 2, 1)[0], 2, "The length of the seed and 2")
    return [TensorShape([ranked(c, 0, 2)[0], dimension_value(c, 1)])]


define(
    "StatelessMultinomial",
    inputs=["logits: T", "num_samples: int32", "seed: Tseed"],
    outputs=["output: output_dtype"],
    attrs=["T: realnumbertype", "Tseed: {int32, int64} = int64", "output_dtype: {int32, int64} = int64"],
    shape=stateless_multinomial,
)
