"""Gradients of functions defined by integrals, and of quantiles of normal numbers."""

from __future__ import annotations

import math

from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


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
