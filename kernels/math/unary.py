"""Elementwise functions of one tensor, and their gradients that are ops of their own."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, in_host_memory
from flowengine.kernels.common.ufuncs import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    NARROW,
    float_kernel,
    register_ufunc,
    widened,
)
from flowengine.kernels.registry import kernel

# Elementwise functions of one tensor.
#
# Most are a NumPy ufunc as it is. Where TensorFlow answers otherwise than NumPy, the function says how:
# `Sign` of NaN is 0, `Round` rounds half to even, complex numbers have a sign of length one.

_UFUNCS: Final = {
    "Abs": np.absolute,
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": np.arctanh,
    "Ceil": np.ceil,
    "Conj": np.conjugate,
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Exp": np.exp,
    "Expm1": np.expm1,
    "Floor": np.floor,
    "Inv": np.reciprocal,
    "Invert": np.invert,
    "IsFinite": np.isfinite,
    "IsInf": np.isinf,
    "IsNan": np.isnan,
    "Log": np.log,
    "Log1p": np.log1p,
    "LogicalNot": np.logical_not,
    "Neg": np.negative,
    "Reciprocal": np.reciprocal,
    "Rint": np.rint,
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Sqrt": np.sqrt,
    "Square": np.square,
    "Tan": np.tan,
    "Tanh": np.tanh,
}

#: Of integers NumPy would make these float64: they are for floats and complex numbers only.
_FLOAT_VALUED: Final = frozenset({"Acos", "Asin", "Atan", "Tan"})

_INLINE: Final = {"Abs": "abs({0})", "LogicalNot": "~{0}", "Neg": "-{0}", "Square": "{0} * {0}"}

for _op, _ufunc in _UFUNCS.items():
    register_ufunc(
        _op,
        _ufunc,
        types=(*FLOATS, *COMPLEX) if _op in _FLOAT_VALUED else None,
        inline=_INLINE.get(_op),
    )

register_ufunc("Round", np.positive, types=INTEGERS)
register_ufunc("Round", np.rint)
register_ufunc("ComplexAbs", np.absolute)


@kernel("Sign", types={"T": COMPLEX}, fresh=True)
def sign_complex(xp: Any, x: Array) -> Any:
    """x / |x|, and 0 for 0."""
    magnitude = xp.absolute(x)
    return xp.where(magnitude == 0, x.dtype.type(0), x / magnitude)


@kernel("Sign", types={"T": FLOATS}, fresh=True)
def sign_float(xp: Any, x: Array) -> Any:
    """-1, 0 or 1; NaN has the sign 0."""
    if x.ndim == 0 and in_host_memory(x):
        return x.dtype.type(int(x > 0) - int(x < 0))
    return ((x > 0).view(np.int8) - (x < 0).view(np.int8)).astype(x.dtype)


register_ufunc("Sign", np.sign)


@float_kernel("Rsqrt", fresh=True)
def rsqrt(xp: Any, x: Array) -> Any:
    """1 / sqrt(x)."""
    root = xp.sqrt(x)
    return xp.reciprocal(root, root) if x.ndim else xp.reciprocal(root)


@kernel("Sigmoid", types={"T": NARROW}, fresh=True)
@widened
def sigmoid_narrow(xp: Any, x: Array) -> Any:
    return sigmoid(xp, x)


@kernel("Sigmoid", fresh=True)
def sigmoid(xp: Any, x: Array) -> Any:
    """1 / (1 + exp(-x)); a large negative x gives 0 through the infinity of exp."""
    y = xp.negative(x)
    if y.ndim == 0:
        return xp.reciprocal(xp.exp(y) + y.dtype.type(1))
    # Each in place: four passes over one new array.
    xp.exp(y, y)
    xp.add(y, 1, y)
    return xp.reciprocal(y, y)


@kernel("PopulationCount", fresh=True)
def population_count(xp: Any, x: Array) -> Any:
    """How many bits are set, uint8; a negative number counts as its two's complement."""
    return xp.bitwise_count(x.view(f"u{x.dtype.itemsize}"))


@kernel("Real", device=None, heavy=False)
def real(x: Array) -> Any:
    return x.real


@kernel("Imag", device=None, heavy=False)
def imag(x: Array) -> Any:
    return x.imag


@kernel("Angle", fresh=True)
def angle(xp: Any, x: Array) -> Any:
    """The argument of a complex number, in (-pi, pi]."""
    return xp.arctan2(x.imag, x.real)


@kernel("Complex", fresh=True)
def complex_(xp: Any, real: Array, imag: Array) -> Any:
    """real + i imag, broadcast."""
    dtype = dtypes.complex64 if real.dtype == np.float32 else dtypes.complex128
    result = xp.empty(xp.broadcast_shapes(real.shape, imag.shape), dtype.as_numpy_dtype)
    result.real = real
    result.imag = imag
    return result


# Gradients of elementwise functions that TensorFlow has as ops of their own.
#
# Each takes y, the output of the function (or x, its input, where the name of the argument says so), and
# dy, the gradient that arrives. Complex values of y are conjugated where TensorFlow does so.


def _conj(xp: Any, y: Array) -> Any:
    return xp.conjugate(y) if y.dtype.kind == "c" else y


def _zero_where_nothing_came(xp: Any, dy: Array, result: Any) -> Any:
    """Zero where dy is zero: there x = 0 has no infinite slope, as in TensorFlow."""
    nothing = xp.equal(dy, 0)
    if dy.ndim == 0:
        return xp.where(nothing, result.dtype.type(0), result)
    xp.copyto(result, 0, where=nothing)
    return result


@float_kernel("InvGrad", "ReciprocalGrad", fresh=True)
def inv_grad(xp: Any, y: Array, dy: Array) -> Any:
    """-dy y^2, y = 1 / x; zero where dy is."""
    y = _conj(xp, y)
    slope = xp.multiply(xp.multiply(xp.negative(dy), y), y)
    return _zero_where_nothing_came(xp, dy, slope)


@float_kernel("SqrtGrad", fresh=True)
def sqrt_grad(xp: Any, y: Array, dy: Array) -> Any:
    """dy / (2 y), y = sqrt(x); zero where dy is."""
    y = _conj(xp, y)
    slope = xp.divide(xp.multiply(dy, y.dtype.type(0.5)), y)
    return _zero_where_nothing_came(xp, dy, slope)


@float_kernel("RsqrtGrad", fresh=True)
def rsqrt_grad(xp: Any, y: Array, dy: Array) -> Any:
    """-dy y^3 / 2, y = 1 / sqrt(x); zero where dy is."""
    y = _conj(xp, y)
    cube = xp.multiply(xp.square(y), y)
    if y.ndim == 0:
        return _zero_where_nothing_came(xp, dy, xp.asarray(dy * cube * y.dtype.type(-0.5)))
    xp.multiply(dy, cube, cube)
    return _zero_where_nothing_came(xp, dy, xp.multiply(cube, y.dtype.type(-0.5), cube))


@float_kernel("SigmoidGrad", fresh=True)
def sigmoid_grad(xp: Any, y: Array, dy: Array) -> Any:
    """dy y (1 - y), y = sigmoid(x)."""
    slope = xp.subtract(1, y)
    if y.ndim == 0:
        return dy * (y * slope)
    xp.multiply(y, slope, slope)
    return xp.multiply(dy, slope, slope)


@float_kernel("TanhGrad", fresh=True)
def tanh_grad(xp: Any, y: Array, dy: Array) -> Any:
    """dy (1 - y^2), y = tanh(x)."""
    slope = xp.square(y)
    if y.ndim == 0:
        return dy * (y.dtype.type(1) - slope)
    xp.subtract(1, slope, slope)
    return xp.multiply(dy, slope, slope)
