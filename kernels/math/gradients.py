"""Gradients of elementwise functions that TensorFlow has as ops of their own.

Each takes y, the output of the function (or x, its input, where the name of the argument says so), and
dy, the gradient that arrives. Complex values of y are conjugated where TensorFlow does so.
"""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Array
from flowengine.kernels.common.ufuncs import float_kernel


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
