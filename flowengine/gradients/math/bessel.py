"""Gradients of the Bessel functions of order 0 and 1."""

from __future__ import annotations

from collections.abc import Callable

from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


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
