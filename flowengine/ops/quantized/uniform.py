"""Codes by scales and zero points, for whole tensors or for each index of an axis."""

from __future__ import annotations

from typing import Final

from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import unchanged

_AXIS: Final = "quantization_axis: int = -1; quantization_min_val, quantization_max_val: int"

define(
    "UniformQuantize(input: Tin, scales: float, zero_points: int32) -> output: Tout",
    f"Tin: {{float}}; Tout: {{qint8, quint8, qint32}}; {_AXIS}",
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "UniformDequantize(input: Tin, scales: float, zero_points: int32) -> output: Tout",
    f"Tin: {{qint8, quint8, qint32}}; Tout: {{float}}; {_AXIS}",
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "UniformQuantizedClipByValue(operand, min, max: T, scales: float, zero_points: int32) -> output: T",
    f"T: {{qint32}}; {_AXIS}",
    NotDifferentiable(),
    shape=unchanged,
)
