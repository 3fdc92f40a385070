"""Sums, products and concatenations of quantised tensors."""

from __future__ import annotations

from flowengine.core.shapes import SCALAR, broadcast_shapes
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.array.joining import concatenated
from flowengine.ops.linalg.products import mat_mul
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import check_scalars


@define(
    "QuantizedAdd, "
    "QuantizedMul(x: T1, y: T2, min_x, max_x, min_y, max_y: float) -> z: Toutput, min_z, max_z: float",
    "T1, T2: quantizedtype; Toutput: quantizedtype = qint32",
    NotDifferentiable(),
)
def quantized_binary(c: ShapeContext) -> Shapes:
    check_scalars(c, 2, 3, 4, 5)
    return [broadcast_shapes(c.input(0), c.input(1)), SCALAR, SCALAR]


@define(
    "QuantizedMatMul(a: T1, b: T2, min_a, max_a, min_b, max_b: float) "
    "-> out: Toutput, min_out, max_out: float",
    "T1, T2: quantizedtype; Toutput: quantizedtype = qint32; transpose_a, transpose_b: bool = false",
    "Tactivation: quantizedtype = quint8",
    NotDifferentiable(),
)
def quantized_mat_mul(c: ShapeContext) -> Shapes:
    check_scalars(c, 2, 3, 4, 5)
    return [*mat_mul(c), SCALAR, SCALAR]


@define(
    "QuantizedConcatV2(values: N * T, axis: Tidx, input_mins, input_maxes: N * float) "
    "-> output: T, output_min, output_max: float",
    "N: int >= 2; T: type; Tidx: indextype = int32",
    NotDifferentiable(),
)
def quantized_concat_v2(c: ShapeContext) -> Shapes:
    count = c.attrs["N"]
    return [concatenated(c, count, range(count)), SCALAR, SCALAR]


@define(
    "QuantizedConcat(concat_dim: int32, values: N * T, input_mins, input_maxes: N * float) "
    "-> output: T, output_min, output_max: float",
    "N: int >= 2; T: type",
    NotDifferentiable(),
)
def quantized_concat(c: ShapeContext) -> Shapes:
    return [concatenated(c, 0, range(1, 1 + c.attrs["N"])), SCALAR, SCALAR]
