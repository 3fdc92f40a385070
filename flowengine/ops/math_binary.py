"""Elementwise functions of two tensors, with broadcasting."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "Add",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=[
        "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string}"
    ],
)
define(
    "AddV2",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}"],
    is_commutative=True,
    is_aggregate=True,
)
define(
    "ApproximateEqual",
    inputs=["x: T", "y: T"],
    outputs=["z: bool"],
    attrs=["T: numbertype", "tolerance: float = 1e-05"],
    is_commutative=True,
)
define("Atan2", inputs=["y: T", "x: T"], outputs=["z: T"], attrs=["T: floattype"])
define(
    "Complex",
    inputs=["real: T", "imag: T"],
    outputs=["out: Tout"],
    attrs=["T: {float, double} = float", "Tout: {complex64, complex128} = complex64"],
)
define(
    "Div",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=[
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128}"
    ],
)
define(
    "DivNoNan",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {half, float, double, complex64, complex128}"],
)
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
)
define(
    "FloorDiv",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=[
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128}"
    ],
)
define(
    "FloorMod",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {int32, int64, bfloat16, half, float, double}"],
)
define("Greater", inputs=["x: T", "y: T"], outputs=["z: bool"], attrs=["T: realnumbertype"])
define("GreaterEqual", inputs=["x: T", "y: T"], outputs=["z: bool"], attrs=["T: realnumbertype"])
define("Igamma", inputs=["a: T", "x: T"], outputs=["z: T"], attrs=["T: {float, double}"])
define("IgammaGradA", inputs=["a: T", "x: T"], outputs=["z: T"], attrs=["T: {float, double}"])
define("Igammac", inputs=["a: T", "x: T"], outputs=["z: T"], attrs=["T: {float, double}"])
define(
    "InvGrad",
    inputs=["y: T", "dy: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define("Less", inputs=["x: T", "y: T"], outputs=["z: bool"], attrs=["T: realnumbertype"])
define("LessEqual", inputs=["x: T", "y: T"], outputs=["z: bool"], attrs=["T: realnumbertype"])
define("LogicalAnd", inputs=["x: bool", "y: bool"], outputs=["z: bool"], is_commutative=True)
define("LogicalOr", inputs=["x: bool", "y: bool"], outputs=["z: bool"], is_commutative=True)
define(
    "Maximum",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64}"],
)
define(
    "Minimum",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64}"],
)
define(
    "Mod",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {int32, int64, half, half, bfloat16, float, double}"],
)
define(
    "Mul",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=[
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128}"
    ],
    is_commutative=True,
)
define(
    "MulNoNan",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {half, float, double, complex64, complex128}"],
)
define("NextAfter", inputs=["x1: T", "x2: T"], outputs=["output: T"], attrs=["T: {double, float} = float"])
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
)
define("Polygamma", inputs=["a: T", "x: T"], outputs=["z: T"], attrs=["T: {float, double}"])
define(
    "Pow",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, float, half, double, int32, int64, complex64, complex128}"],
)
define(
    "RealDiv",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=[
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128}"
    ],
)
define(
    "ReciprocalGrad",
    inputs=["y: T", "dy: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define(
    "RsqrtGrad",
    inputs=["y: T", "dy: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define(
    "SigmoidGrad",
    inputs=["y: T", "dy: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define(
    "SqrtGrad",
    inputs=["y: T", "dy: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define(
    "SquaredDifference",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
    is_commutative=True,
)
define(
    "Sub",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=[
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128}"
    ],
)
define(
    "TanhGrad",
    inputs=["y: T", "dy: T"],
    outputs=["z: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define(
    "TruncateDiv",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=[
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128}"
    ],
)
define(
    "TruncateMod",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {int32, int64, bfloat16, half, float, double}"],
)
define(
    "Xdivy",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {half, float, double, complex64, complex128}"],
)
define(
    "Xlogy",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {half, float, double, complex64, complex128}"],
)
define("Zeta", inputs=["x: T", "q: T"], outputs=["z: T"], attrs=["T: {float, double}"])
