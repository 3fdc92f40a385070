"""Elementwise functions of one tensor, and their gradients that are ops of their own."""

from __future__ import annotations

from flowengine.ir.traits import Droppable, Elementwise, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import broadcast, merged, unchanged

# Elementwise functions of one tensor.

define(
    "Complex(real, imag: T) -> out: Tout",
    "T: {float, double} = float; Tout: complextype = complex64",
    shape=broadcast,
)
define(
    "Abs(x: T) -> y: T",
    "T: {bfloat16, half, float, double, int8, int16, int32, int64}",
    Elementwise(),
    shape=unchanged,
)
define("Acos(x: T) -> y: T", "T: signedtype", Elementwise(), shape=unchanged)
define("Acosh(x: T) -> y: T", "T: inexacttype", Elementwise(), shape=unchanged)
define(
    "Angle, Imag, Real(input: T) -> output: Tout",
    "T: complextype = complex64; Tout: {float, double} = float",
    shape=unchanged,
)
define("Asin(x: T) -> y: T", "T: signedtype", Elementwise(), shape=unchanged)
define("Asinh(x: T) -> y: T", "T: inexacttype", Elementwise(), shape=unchanged)
define("Atan(x: T) -> y: T", "T: signedtype", Elementwise(), shape=unchanged)
define("Atanh(x: T) -> y: T", "T: inexacttype", Elementwise(), shape=unchanged)
define("Ceil(x: T) -> y: T", "T: floattype", Elementwise(), NotDifferentiable(), shape=unchanged)
define(
    "ComplexAbs(x: T) -> y: Tout",
    "T: complextype = complex64; Tout: {float, double} = float",
    shape=unchanged,
)
define("Conj(input: T) -> output: T", "T: {complex64, complex128, variant} = complex64", shape=unchanged)
define("Cos(x: T) -> y: T", "T: inexacttype", Elementwise(), shape=unchanged)
define("Cosh(x: T) -> y: T", "T: inexacttype", Elementwise(), shape=unchanged)
define("Exp(x: T) -> y: T", "T: inexacttype", Elementwise(), shape=unchanged)
define("Expm1(x: T) -> y: T", "T: inexacttype", Elementwise(), shape=unchanged)
define("Floor(x: T) -> y: T", "T: floattype", Elementwise(), NotDifferentiable(), shape=unchanged)
define("Inv(x: T) -> y: T", "T: signedtype", Elementwise(), shape=unchanged)
define("IsFinite(x: T) -> y: bool", "T: floattype", Elementwise(), NotDifferentiable(), shape=unchanged)
define("IsInf(x: T) -> y: bool", "T: floattype", Elementwise(), NotDifferentiable(), shape=unchanged)
define("IsNan(x: T) -> y: bool", "T: floattype", Elementwise(), NotDifferentiable(), shape=unchanged)
define("Log(x: T) -> y: T", "T: inexacttype", Elementwise(), shape=unchanged)
define("Log1p(x: T) -> y: T", "T: inexacttype", Elementwise(), shape=unchanged)
define("LogicalNot(x: bool) -> y: bool", Elementwise(), NotDifferentiable(), shape=unchanged)
define("Neg(x: T) -> y: T", "T: anysignedtype", Elementwise(), Droppable(), shape=unchanged)
define("Reciprocal(x: T) -> y: T", "T: signedtype", Elementwise(), shape=unchanged)
define("Rint(x: T) -> y: T", "T: floattype", Elementwise(), NotDifferentiable(), shape=unchanged)
define("Round(x: T) -> y: T", "T: signedtype", Elementwise(), NotDifferentiable(), shape=unchanged)
define("Rsqrt(x: T) -> y: T", "T: inexacttype", Elementwise(), shape=unchanged)
define("Sigmoid(x: T) -> y: T", "T: inexacttype", Elementwise(), shape=unchanged)
define("Sign(x: T) -> y: T", "T: anysignedtype", Elementwise(), shape=unchanged)
define("Sin(x: T) -> y: T", "T: inexacttype", Elementwise(), shape=unchanged)
define("Sinh(x: T) -> y: T", "T: inexacttype", Elementwise(), shape=unchanged)
define("Sqrt(x: T) -> y: T", "T: inexacttype", Elementwise(), shape=unchanged)
define("Square(x: T) -> y: T", "T: arithmetictype", Elementwise(), shape=unchanged)
define("Tan(x: T) -> y: T", "T: signedtype", Elementwise(), shape=unchanged)
define("Tanh(x: T) -> y: T", "T: inexacttype", Elementwise(), shape=unchanged)
define("Invert(x: T) -> y: T", "T: integertype", Elementwise(), NotDifferentiable(), shape=unchanged)
define("PopulationCount(x: T) -> y: uint8", "T: integertype", NotDifferentiable(), shape=unchanged)


# Gradients of elementwise functions that are ops of their own.

define("InvGrad(y, dy: T) -> z: T", "T: inexacttype", Elementwise(), shape=merged)
define("ReciprocalGrad(y, dy: T) -> z: T", "T: inexacttype", Elementwise(), shape=merged)
define("RsqrtGrad(y, dy: T) -> z: T", "T: inexacttype", Elementwise(), shape=merged)
define("SigmoidGrad(y, dy: T) -> z: T", "T: inexacttype", Elementwise(), shape=merged)
define("SqrtGrad(y, dy: T) -> z: T", "T: inexacttype", Elementwise(), shape=merged)
define("TanhGrad(y, dy: T) -> z: T", "T: inexacttype", Elementwise(), shape=merged)
