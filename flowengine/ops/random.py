"""Random numbers from a seed."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "Multinomial",
    inputs=["logits: T", "num_samples: int32"],
    outputs=["output: output_dtype"],
    attrs=["seed: int = 0", "seed2: int = 0", "T: realnumbertype", "output_dtype: {int32, int64} = int64"],
    is_stateful=True,
)
define(
    "ParameterizedTruncatedNormal",
    inputs=["shape: T", "means: dtype", "stdevs: dtype", "minvals: dtype", "maxvals: dtype"],
    outputs=["output: dtype"],
    attrs=["seed: int = 0", "seed2: int = 0", "dtype: floattype", "T: {int32, int64}"],
    is_stateful=True,
)
define(
    "RandomGamma",
    inputs=["shape: S", "alpha: T"],
    outputs=["output: T"],
    attrs=["seed: int = 0", "seed2: int = 0", "S: {int32, int64}", "T: {half, float, double}"],
    is_stateful=True,
)
define(
    "RandomGammaGrad", inputs=["alpha: T", "sample: T"], outputs=["output: T"], attrs=["T: {float, double}"]
)
define(
    "RandomPoisson",
    inputs=["shape: S", "rate: dtype"],
    outputs=["output: dtype"],
    attrs=["seed: int = 0", "seed2: int = 0", "S: {int32, int64}", "dtype: {half, float, double}"],
    is_stateful=True,
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
)
define(
    "RandomShuffle",
    inputs=["value: T"],
    outputs=["output: T"],
    attrs=["seed: int = 0", "seed2: int = 0", "T: type"],
    is_stateful=True,
)
define(
    "RandomStandardNormal",
    inputs=["shape: T"],
    outputs=["output: dtype"],
    attrs=["seed: int = 0", "seed2: int = 0", "dtype: floattype", "T: {int32, int64}"],
    is_stateful=True,
)
define(
    "RandomUniform",
    inputs=["shape: T"],
    outputs=["output: dtype"],
    attrs=["seed: int = 0", "seed2: int = 0", "dtype: floattype", "T: {int32, int64}"],
    is_stateful=True,
)
define(
    "RandomUniformInt",
    inputs=["shape: T", "minval: Tout", "maxval: Tout"],
    outputs=["output: Tout"],
    attrs=["seed: int = 0", "seed2: int = 0", "Tout: {int32, int64}", "T: {int32, int64}"],
    is_stateful=True,
)
define(
    "TruncatedNormal",
    inputs=["shape: T"],
    outputs=["output: dtype"],
    attrs=["seed: int = 0", "seed2: int = 0", "dtype: floattype", "T: {int32, int64}"],
    is_stateful=True,
)
