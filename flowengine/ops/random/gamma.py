"""Gamma-distributed numbers."""

from __future__ import annotations

from flowengine.ops.random.stateful import per_parameter
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import broadcast

define(
    "RandomGamma(shape: S, alpha: T) -> output: T",
    "stateful; seed, seed2: int = 0; S: indextype; T: {half, float, double}",
    shape=per_parameter,
)
define("RandomGammaGrad(alpha, sample: T) -> output: T", "T: {float, double}", shape=broadcast)
