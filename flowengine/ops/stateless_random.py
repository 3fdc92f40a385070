"""Random numbers as a function of a seed input."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "StatelessMultinomial",
    inputs=["logits: T", "num_samples: int32", "seed: Tseed"],
    outputs=["output: output_dtype"],
    attrs=["T: realnumbertype", "Tseed: {int32, int64} = int64", "output_dtype: {int32, int64} = int64"],
)
define(
    "StatelessRandomNormal",
    inputs=["shape: T", "seed: Tseed"],
    outputs=["output: dtype"],
    attrs=["dtype: floattype = float", "T: {int32, int64} = int32", "Tseed: {int32, int64} = int64"],
)
define(
    "StatelessRandomUniform",
    inputs=["shape: T", "seed: Tseed"],
    outputs=["output: dtype"],
    attrs=["dtype: floattype = float", "T: {int32, int64} = int32", "Tseed: {int32, int64} = int64"],
)
define(
    "StatelessRandomUniformInt",
    inputs=["shape: T", "seed: Tseed", "minval: dtype", "maxval: dtype"],
    outputs=["output: dtype"],
    attrs=["dtype: {int32, int64}", "T: {int32, int64}", "Tseed: {int32, int64} = int64"],
)
define(
    "StatelessTruncatedNormal",
    inputs=["shape: T", "seed: Tseed"],
    outputs=["output: dtype"],
    attrs=["dtype: floattype = float", "T: {int32, int64} = int32", "Tseed: {int32, int64} = int64"],
)
