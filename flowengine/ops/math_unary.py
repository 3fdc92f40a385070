"""Elementwise functions of one tensor."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "Abs",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int8, int16, int32, int64}"],
)
define(
    "Acos",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
)
define(
    "Acosh",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define(
    "Angle",
    inputs=["input: T"],
    outputs=["output: Tout"],
    attrs=["T: {complex64, complex128} = complex64", "Tout: {float, double} = float"],
)
define(
    "Asin",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
)
define(
    "Asinh",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define(
    "Atan",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
)
define(
    "Atanh",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define("BesselI0e", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"])
define("BesselI1e", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"])
define(
    "Cast",
    inputs=["x: SrcT"],
    outputs=["y: DstT"],
    attrs=["SrcT: type", "DstT: type", "Truncate: bool = false"],
)
define("Ceil", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"])
define(
    "ComplexAbs",
    inputs=["x: T"],
    outputs=["y: Tout"],
    attrs=["T: {complex64, complex128} = complex64", "Tout: {float, double} = float"],
)
define(
    "Conj",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: {complex64, complex128, variant} = complex64"],
)
define(
    "Cos",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define(
    "Cosh",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define("Digamma", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"])
define("Erf", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"])
define("Erfc", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"])
define(
    "Exp",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define(
    "Expm1",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define("Floor", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"])
define(
    "Imag",
    inputs=["input: T"],
    outputs=["output: Tout"],
    attrs=["T: {complex64, complex128} = complex64", "Tout: {float, double} = float"],
)
define(
    "Inv",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
)
define("IsFinite", inputs=["x: T"], outputs=["y: bool"], attrs=["T: floattype"])
define("IsInf", inputs=["x: T"], outputs=["y: bool"], attrs=["T: floattype"])
define("IsNan", inputs=["x: T"], outputs=["y: bool"], attrs=["T: floattype"])
define("Lgamma", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"])
define(
    "Log",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define(
    "Log1p",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define("LogicalNot", inputs=["x: bool"], outputs=["y: bool"])
define(
    "Neg",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
)
define(
    "Real",
    inputs=["input: T"],
    outputs=["output: Tout"],
    attrs=["T: {complex64, complex128} = complex64", "Tout: {float, double} = float"],
)
define(
    "Reciprocal",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
)
define("Rint", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"])
define(
    "Round",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
)
define(
    "Rsqrt",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define(
    "Sigmoid",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define(
    "Sign",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
)
define(
    "Sin",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define(
    "Sinh",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define(
    "Sqrt",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
define(
    "Square",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
)
define(
    "Tan",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
)
define(
    "Tanh",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
)
