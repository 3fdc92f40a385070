"""Questions to the device on which a node runs."""

from __future__ import annotations

from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

define(
    "DeviceIndex() -> index: int32",
    "stateful; device_names: list(string)",
    NotDifferentiable(),
    shape=scalars,
)
define("IsTensorFloat32Enabled() -> enabled: bool", "stateful", NotDifferentiable(), shape=scalars)
