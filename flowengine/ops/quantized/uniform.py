"""Codes by scales and zero points, for whole tensors or for each index of an axis."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import broadcast, dims_of, merge_dims, ranked, unchanged

_AXIS: Final = "quantization_axis: int = -1; quantization_min_val, quantization_max_val: int"


def quantization(*names: str) -> str:
    """The attributes of the codes of several tensors."""
    return "; ".join(
        f"{n}_quantization_axis: int = -1; {n}_quantization_min_val, {n}_quantization_max_val: int"
        for n in names
    )


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
define(
    "UniformRequantize(input: Tin, input_scales: float, input_zero_points: int32, output_scales: float, "
    "output_zero_points: int32) -> output: Tout",
    f"Tin, Tout: {{qint8, qint32}}; {quantization('input', 'output')}",
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "UniformQuantizedAdd(lhs, rhs: T, lhs_scales: float, lhs_zero_points: int32, rhs_scales: float, "
    "rhs_zero_points: int32, output_scales: float, output_zero_points: int32) -> output: T",
    f"{quantization('lhs', 'rhs', 'output')}; T: {{qint32}}",
    NotDifferentiable(),
    shape=broadcast,
)


def _product(c: ShapeContext) -> Shapes:
    """(M, K), (K, N) -> (M, N)"""
    rows, left = dims_of(ranked(c, 0, 2), 2)
    right, columns = dims_of(ranked(c, 1, 2), 2)
    merge_dims(left, right, "The columns of lhs and the rows of rhs")
    return [TensorShape([rows, columns])]


define(
    "UniformQuantizedDot(lhs, rhs: Tin, lhs_scales: float, lhs_zero_points: int32, rhs_scales: float, "
    "rhs_zero_points: int32, output_scales: float, output_zero_points: int32) -> output: Tout",
    f"Tin: {{qint8}}; Tout: {{qint32}}; {quantization('lhs', 'rhs', 'output')}",
    NotDifferentiable(),
    shape=_product,
)
define(
    "UniformQuantizedDotHybrid(lhs: Tlhs, rhs: Trhs, rhs_scales: float, rhs_zero_points: int32) "
    "-> output: Tout",
    f"Tlhs: {{float}}; Trhs: {{qint8}}; Tout: {{float}}; {quantization('rhs')}",
    NotDifferentiable(),
    shape=_product,
)
