"""Gradients of special functions: error function, gamma, Bessel functions, functions defined by integrals."""

from __future__ import annotations

import math
from collections.abc import Callable

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

# Gradients of special functions: error function, gamma and its kin, Bessel functions that are scaled.
#
# By some arguments there is no closed form of the derivative: their gradient is absent.


@gradient("Erf")
def error_function(b: Backward, op: Operation, grad: Tensor) -> Results:
    """2 g / sqrt(pi) exp(-x^2)"""
    return [b.ops.Mul(grad, _bell(b, op.inputs[0], 2 / math.sqrt(math.pi)))]


@gradient("Erfc")
def error_function_rest(b: Backward, op: Operation, grad: Tensor) -> Results:
    """-2 g / sqrt(pi) exp(-x^2)"""
    return [b.ops.Mul(grad, _bell(b, op.inputs[0], -2 / math.sqrt(math.pi)))]


def _bell(b: Backward, x: Tensor, height: float) -> Tensor:
    result: Tensor = b.ops.Mul(height, b.ops.Exp(b.ops.Neg(b.ops.Square(x))))
    return result


@gradient("Lgamma")
def log_gamma(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g digamma(x)"""
    return [b.ops.Mul(grad, b.ops.Digamma(op.inputs[0]))]


@gradient("Digamma")
def digamma(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g polygamma(1, x)"""
    x = op.inputs[0]
    return [b.ops.Mul(grad, b.ops.Polygamma(b.constant(1, x.dtype), x))]


@gradient("Polygamma")
def polygamma(b: Backward, op: Operation, grad: Tensor) -> Results:
    """By the order nothing; by x g polygamma(n + 1, x)."""
    order, x = op.inputs
    slope = b.ops.Polygamma(b.ops.AddV2(order, 1.0), x)
    return [None, b.sum_to(b.ops.Mul(grad, slope), x, order)]


@gradient("Zeta")
def zeta(b: Backward, op: Operation, grad: Tensor) -> Results:
    """By the exponent nothing; by q -g x zeta(x + 1, q)."""
    x, q = op.inputs
    slope = b.ops.Mul(x, b.ops.Zeta(b.ops.AddV2(x, 1.0), q))
    return [None, b.sum_to(b.ops.Neg(b.ops.Mul(grad, slope)), q, x)]


@gradient("Igamma")
def lower_gamma(b: Backward, op: Operation, grad: Tensor) -> Results:
    """By a an op of its own, by x g exp(-x) x^(a - 1) / gamma(a)."""
    a, x = op.inputs
    of_a, of_x = _gamma_slopes(b, a, x)
    return [b.sum_to(b.ops.Mul(grad, of_a), a, x), b.sum_to(b.ops.Mul(grad, of_x), x, a)]


@gradient("Igammac")
def upper_gamma(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Return the gradients of `Igamma` with the other sign."""
    a, x = op.inputs
    of_a, of_x = _gamma_slopes(b, a, x)
    less = b.ops.Neg(grad)
    return [b.sum_to(b.ops.Mul(less, of_a), a, x), b.sum_to(b.ops.Mul(less, of_x), x, a)]


def _gamma_slopes(b: Backward, a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    power = b.ops.Xlogy(b.ops.Sub(a, 1.0), x)
    return b.ops.IgammaGradA(a, x), b.ops.Exp(b.ops.Sub(b.ops.Sub(power, x), b.ops.Lgamma(a)))


@gradient("Betainc")
def incomplete_beta(b: Backward, op: Operation, grad: Tensor) -> Results:
    """By a and b nothing; by x g x^(a - 1) (1 - x)^(b - 1) / beta(a, b)."""
    first, second, x = op.inputs
    log_beta = b.ops.Sub(
        b.ops.AddV2(b.ops.Lgamma(first), b.ops.Lgamma(second)), b.ops.Lgamma(b.ops.AddV2(first, second))
    )
    powers = b.ops.AddV2(
        b.ops.Xlogy(b.ops.Sub(first, 1.0), x),
        b.ops.Xlogy(b.ops.Sub(second, 1.0), b.ops.Sub(1.0, x)),
    )
    slope = b.ops.Exp(b.ops.Sub(powers, log_beta))
    return [None, None, b.sum_to(b.ops.Mul(grad, slope), x, op.outputs[0])]


@gradient("BesselI0e")
def scaled_first_zero(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g (I1e(x) - sign(x) y)"""
    x = op.inputs[0]
    slope = b.ops.Sub(b.ops.BesselI1e(x), b.ops.Mul(b.ops.Sign(x), op.outputs[0]))
    return [b.ops.Mul(grad, slope)]


@gradient("BesselI1e")
def scaled_first_one(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g (I0e(x) - y (sign(x) + 1 / x)), a half at zero"""
    x, y = op.inputs[0], op.outputs[0]
    at_zero = b.ops.Equal(x, b.constant(0, x.dtype))
    divisor = b.ops.SelectV2(at_zero, b.constant(1, x.dtype), x)
    less = b.ops.Mul(y, b.ops.AddV2(b.ops.Sign(x), b.ops.Reciprocal(divisor)))
    away = b.ops.Sub(b.ops.BesselI0e(x), less)
    return [b.ops.Mul(grad, b.ops.SelectV2(at_zero, b.constant(0.5, x.dtype), away))]


# Gradients of the Bessel functions of order 0 and 1.


@gradient("BesselI0")
def modified_first_zero(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g I1(x)"""
    return [b.ops.Mul(grad, b.ops.BesselI1(op.inputs[0]))]


@gradient("BesselI1")
def modified_first_one(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g (I0(x) - y / x), a half at zero"""
    return [b.ops.Mul(grad, _order_one(b, op, b.ops.BesselI0))]


@gradient("BesselJ0")
def first_zero(b: Backward, op: Operation, grad: Tensor) -> Results:
    """-g J1(x)"""
    return [b.ops.Neg(b.ops.Mul(grad, b.ops.BesselJ1(op.inputs[0])))]


@gradient("BesselJ1")
def first_one(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g (J0(x) - y / x), a half at zero"""
    return [b.ops.Mul(grad, _order_one(b, op, b.ops.BesselJ0))]


def _order_one(b: Backward, op: Operation, order_zero: Callable[[Tensor], Tensor]) -> Tensor:
    """order_zero(x) - y / x; where x is zero, what that tends to."""
    x, y = op.inputs[0], op.outputs[0]
    at_zero = b.ops.Equal(x, b.constant(0, x.dtype))
    divisor = b.ops.SelectV2(at_zero, b.constant(1, x.dtype), x)
    away = b.ops.Sub(order_zero(x), b.ops.RealDiv(y, divisor))
    result: Tensor = b.ops.SelectV2(at_zero, b.constant(0.5, x.dtype), away)
    return result


@gradient("BesselY0")
def second_zero(b: Backward, op: Operation, grad: Tensor) -> Results:
    """-g Y1(x)"""
    return [b.ops.Neg(b.ops.Mul(grad, b.ops.BesselY1(op.inputs[0])))]


@gradient("BesselY1")
def second_one(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g (Y0(x) - y / x)"""
    x = op.inputs[0]
    slope = b.ops.Sub(b.ops.BesselY0(x), b.ops.RealDiv(op.outputs[0], x))
    return [b.ops.Mul(grad, slope)]


@gradient("BesselK0")
def modified_second_zero(b: Backward, op: Operation, grad: Tensor) -> Results:
    """-g K1(x)"""
    return [b.ops.Neg(b.ops.Mul(grad, b.ops.BesselK1(op.inputs[0])))]


@gradient("BesselK1")
def modified_second_one(b: Backward, op: Operation, grad: Tensor) -> Results:
    """-g (K0(x) + y / x)"""
    x = op.inputs[0]
    slope = b.ops.AddV2(b.ops.BesselK0(x), b.ops.RealDiv(op.outputs[0], x))
    return [b.ops.Neg(b.ops.Mul(grad, slope))]


@gradient("BesselK0e")
def scaled_second_zero(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g (y - K1e(x))"""
    slope = b.ops.Sub(op.outputs[0], b.ops.BesselK1e(op.inputs[0]))
    return [b.ops.Mul(grad, slope)]


@gradient("BesselK1e")
def scaled_second_one(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g (y - y / x - K0e(x))"""
    x, y = op.inputs[0], op.outputs[0]
    slope = b.ops.Sub(b.ops.Sub(y, b.ops.RealDiv(y, x)), b.ops.BesselK0e(x))
    return [b.ops.Mul(grad, slope)]


# Gradients of functions defined by integrals, and of quantiles of normal numbers.


@gradient("Erfinv")
def inverse_error_function(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g sqrt(pi) / 2 exp(y^2)"""
    slope = b.ops.Mul(math.sqrt(math.pi) / 2, b.ops.Exp(b.ops.Square(op.outputs[0])))
    return [b.ops.Mul(grad, slope)]


@gradient("Ndtri")
def normal_quantile(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g sqrt(2 pi) exp(y^2 / 2)"""
    half = b.ops.Mul(0.5, b.ops.Square(op.outputs[0]))
    return [b.ops.Mul(grad, b.ops.Mul(math.sqrt(2 * math.pi), b.ops.Exp(half)))]


@gradient("Dawsn")
def dawson(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g (1 - 2 x y)"""
    product = b.ops.Mul(op.inputs[0], op.outputs[0])
    return [b.ops.Mul(grad, b.ops.Sub(1.0, b.ops.Mul(2.0, product)))]


@gradient("Expint")
def exponential_integral(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g exp(x) / x"""
    x = op.inputs[0]
    return [b.ops.Mul(grad, b.ops.RealDiv(b.ops.Exp(x), x))]


@gradient("FresnelCos")
def fresnel_cosine(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g cos(pi / 2 x^2)"""
    return [b.ops.Mul(grad, b.ops.Cos(_fresnel_angle(b, op)))]


@gradient("FresnelSin")
def fresnel_sine(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g sin(pi / 2 x^2)"""
    return [b.ops.Mul(grad, b.ops.Sin(_fresnel_angle(b, op)))]


def _fresnel_angle(b: Backward, op: Operation) -> Tensor:
    result: Tensor = b.ops.Mul(math.pi / 2, b.ops.Square(op.inputs[0]))
    return result


@gradient("Spence")
def dilogarithm(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g log(x) / (1 - x), minus one at one"""
    x = op.inputs[0]
    at_one = b.ops.Equal(x, b.constant(1, x.dtype))
    divisor = b.ops.SelectV2(at_one, b.constant(1, x.dtype), b.ops.Sub(1.0, x))
    slope = b.ops.SelectV2(at_one, b.constant(-1, x.dtype), b.ops.RealDiv(b.ops.Log(x), divisor))
    return [b.ops.Mul(grad, slope)]
