"""Elementwise functions of two tensors, with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, TensorShape, broadcast_shapes
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import broadcast, merged

define(
    "Add",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=[
        "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string}"
    ],
    shape=broadcast,
)
define(
    "AddV2",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}"],
    is_commutative=True,
    is_aggregate=True,
    shape=broadcast,
)
define(
    "Sub",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=[
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128}"
    ],
    shape=broadcast,
)
define(
    "Mul",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=[
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128}"
    ],
    is_commutative=True,
    shape=broadcast,
)
define(
    "MulNoNan",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {half, float, double, complex64, complex128}"],
    shape=broadcast,
)
define(
    "Div",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=[
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128}"
    ],
    shape=broadcast,
)
define(
    "DivNoNan",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {half, float, double, complex64, complex128}"],
    shape=broadcast,
)
define(
    "RealDiv",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=[
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128}"
    ],
    shape=broadcast,
)
define(
    "FloorDiv",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=[
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128}"
    ],
    shape=broadcast,
)
define(
    "TruncateDiv",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=[
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128}"
    ],
    shape=broadcast,
)
define(
    "FloorMod",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {int32, int64, bfloat16, half, float, double}"],
    shape=broadcast,
)
define(
    "TruncateMod",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {int32, int64, bfloat16, half, float, double}"],
    shape=broadcast,
)
define(
    "Mod",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {int32, int64, half, half, bfloat16, float, double}"],
    shape=broadcast,
)
define(
    "Pow",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, float, half, double, int32, int64, complex64, complex128}"],
    shape=broadcast,
)
define(
    "Maximum",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64}"],
    shape=broadcast,
)
define(
    "Minimum",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64}"],
    shape=broadcast,
)
define(
    "SquaredDifference",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
    is_commutative=True,
    shape=broadcast,
)
define("Atan2", inputs=["y: T", "x: T"], outputs=["z: T"], attrs=["T: floattype"], shape=broadcast)
define(
    "Complex",
    inputs=["real: T", "imag: T"],
    outputs=["out: Tout"],
    attrs=["T: {float, double} = float", "Tout: {complex64, complex128} = complex64"],
    shape=broadcast,
)
define(
    "NextAfter",
    inputs=["x1: T", "x2: T"],
    outputs=["output: T"],
    attrs=["T: {double, float} = float"],
    shape=broadcast,
)
define(
    "Xdivy",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {half, float, double, complex64, complex128}"],
    shape=broadcast,
)
define(
    "Xlogy",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {half, float, double, complex64, complex128}"],
    shape=broadcast,
)
define("Zeta", inputs=["x: T", "q: T"], outputs=["z: T"], attrs=["T: {float, double}"], shape=broadcast)
define("Polygamma", inputs=["a: T", "x: T"], outputs=["z: T"], attrs=["T: {float, double}"], shape=broadcast)
define("Igamma", inputs=["a: T", "x: T"], outputs=["z: T"], attrs=["T: {float, double}"], shape=broadcast)
define("Igammac", inputs=["a: T", "x: T"], outputs=["z: T"], attrs=["T: {float, double}"], shape=broadcast)
define(
    "IgammaGradA", inputs=["a: T", "x: T"], outputs=["z: T"], attrs=["T: {float, double}"], shape=broadcast
)
define("Greater", inputs=["x: T", "y: T"], outputs=["z: bool"], attrs=["T: realnumbertype"], shape=broadcast)
define(
    "GreaterEqual", inputs=["x: T", "y: T"], outputs=["z: bool"], attrs=["T: realnumbertype"], shape=broadcast
)
define("Less", inputs=["x: T", "y: T"], outputs=["z: bool"], attrs=["T: realnumbertype"], shape=broadcast)
define(
    "LessEqual", inputs=["x: T", "y: T"], outputs=["z: bool"], attrs=["T: realnumbertype"], shape=broadcast
)
define("LogicalAnd", inputs=["x: bool", "y: bool"], outputs=["z: bool"], is_commutative=True, shape=broadcast)
define("LogicalOr", inputs=["x: bool", "y: bool"], outputs=["z: bool"], is_commutative=True, shape=broadcast)


def equal(c: ShapeContext) -> Sequence[TensorShape]:
    """Broadcast; where that cannot work and the attribute allows it, one scalar that says so."""
    try:
        shape = broadcast_shapes(c.input(0), c.input(1))
    except InvalidArgumentError:
        if c.attrs["incompatible_shape_error"]:
            raise
        return [SCALAR]
    if c.attrs["incompatible_shape_error"] or (c.input(0).is_fully_defined and c.input(1).is_fully_defined):
        return [shape]
    # Shapes found incompatible when the step runs would give a scalar.
    return [UNKNOWN_SHAPE]


define(
    "Equal",
    inputs=["x: T", "y: T"],
    outputs=["z: bool"],
    attrs=[
        (
            "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, quint8, "
            "qint8, qint32, string, bool, complex128}"
        ),
        "incompatible_shape_error: bool = true",
    ],
    is_commutative=True,
    shape=equal,
)
define(
    "NotEqual",
    inputs=["x: T", "y: T"],
    outputs=["z: bool"],
    attrs=[
        (
            "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, quint8, "
            "qint8, qint32, string, bool, complex128}"
        ),
        "incompatible_shape_error: bool = true",
    ],
    is_commutative=True,
    shape=equal,
)
define(
    "ApproximateEqual",
    inputs=["x: T", "y: T"],
    outputs=["z: bool"],
    attrs=["T: numbertype", "tolerance: float = 1e-05"],
    is_commutative=True,
    shape=merged,
)
define(
    "InvGrad",
    inputs=["y: T", "dy: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=merged,
)
define(
    "ReciprocalGrad",
    inputs=["y: T", "dy: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=merged,
)
define(
    "RsqrtGrad",
    inputs=["y: T", "dy: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=merged,
)
define(
    "SigmoidGrad",
    inputs=["y: T", "dy: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=merged,
)
define(
    "SqrtGrad",
    inputs=["y: T", "dy: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=merged,
)
define(
    "TanhGrad",
    inputs=["y: T", "dy: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=merged,
)
