"""Elementwise functions of one tensor."""

from __future__ import annotations

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import unchanged

define(
    "Abs",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int8, int16, int32, int64}"],
    shape=unchanged,
)
define(
    "Acos",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Acosh",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Angle",
    inputs=["input: T"],
    outputs=["output: Tout"],
    attrs=["T: {complex64, complex128} = complex64", "Tout: {float, double} = float"],
    shape=unchanged,
)
define(
    "Asin",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Asinh",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Atan",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Atanh",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=unchanged,
)
define("BesselI0e", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"], shape=unchanged)
define("BesselI1e", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"], shape=unchanged)
define(
    "Cast",
    inputs=["x: SrcT"],
    outputs=["y: DstT"],
    attrs=["SrcT: type", "DstT: type", "Truncate: bool = false"],
    shape=unchanged,
)
define("Ceil", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"], shape=unchanged)
define(
    "ComplexAbs",
    inputs=["x: T"],
    outputs=["y: Tout"],
    attrs=["T: {complex64, complex128} = complex64", "Tout: {float, double} = float"],
    shape=unchanged,
)
define(
    "Conj",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: {complex64, complex128, variant} = complex64"],
    shape=unchanged,
)
define(
    "Cos",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Cosh",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=unchanged,
)
define("Digamma", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"], shape=unchanged)
define("Erf", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"], shape=unchanged)
define("Erfc", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"], shape=unchanged)
define(
    "Exp",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Expm1",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=unchanged,
)
define("Floor", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"], shape=unchanged)
define(
    "Imag",
    inputs=["input: T"],
    outputs=["output: Tout"],
    attrs=["T: {complex64, complex128} = complex64", "Tout: {float, double} = float"],
    shape=unchanged,
)
define(
    "Inv",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
    shape=unchanged,
)
define("IsFinite", inputs=["x: T"], outputs=["y: bool"], attrs=["T: floattype"], shape=unchanged)
define("IsInf", inputs=["x: T"], outputs=["y: bool"], attrs=["T: floattype"], shape=unchanged)
define("IsNan", inputs=["x: T"], outputs=["y: bool"], attrs=["T: floattype"], shape=unchanged)
define("Lgamma", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"], shape=unchanged)
define(
    "Log",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Log1p",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=unchanged,
)
define("LogicalNot", inputs=["x: bool"], outputs=["y: bool"], shape=unchanged)
define(
    "Neg",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Real",
    inputs=["input: T"],
    outputs=["output: Tout"],
    attrs=["T: {complex64, complex128} = complex64", "Tout: {float, double} = float"],
    shape=unchanged,
)
define(
    "Reciprocal",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
    shape=unchanged,
)
define("Rint", inputs=["x: T"], outputs=["y: T"], attrs=["T: floattype"], shape=unchanged)
define(
    "Round",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Rsqrt",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Sigmoid",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Sign",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Sin",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Sinh",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Sqrt",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Square",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Tan",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
    shape=unchanged,
)
define(
    "Tanh",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {bfloat16, half, float, double, complex64, complex128}"],
    shape=unchanged,
)
