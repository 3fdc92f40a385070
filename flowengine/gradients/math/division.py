"""Gradients of division and remainders."""

from __future__ import annotations

from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("Div", "RealDiv")
def division(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g / y and -(g / y) z"""
    x, y = op.inputs
    quotient = b.ops.RealDiv(grad, b.real_or_conj(y))
    of_y = b.ops.Neg(b.ops.Mul(quotient, b.real_or_conj(op.outputs[0])))
    return [b.sum_to(quotient, x, y), b.sum_to(of_y, y, x)]


@gradient("DivNoNan")
def division_without_nan(b: Backward, op: Operation, grad: Tensor) -> Results:
    """As of a division; zero where the divisor is zero."""
    x, y = op.inputs
    quotient = b.ops.DivNoNan(grad, b.real_or_conj(y))
    of_y = b.ops.Neg(b.ops.Mul(quotient, b.real_or_conj(op.outputs[0])))
    return [b.sum_to(quotient, x, y), b.sum_to(of_y, y, x)]


@gradient("FloorMod")
def floored_remainder(b: Backward, op: Operation, grad: Tensor) -> Results:
    """z = x - y floor(x / y): g and -g floor(x / y)"""
    x, y = op.inputs
    of_y = b.ops.Neg(b.ops.Mul(grad, b.ops.FloorDiv(x, y)))
    return [b.sum_to(grad, x, y), b.sum_to(of_y, y, x)]


@gradient("Mod", "TruncateMod")
def truncated_remainder(b: Backward, op: Operation, grad: Tensor) -> Results:
    """z = x - y q: g and -g q, where the whole number q is (x - z) / y"""
    x, y = op.inputs
    whole = b.ops.Rint(b.ops.RealDiv(b.ops.Sub(x, op.outputs[0]), y))
    of_y = b.ops.Neg(b.ops.Mul(grad, whole))
    return [b.sum_to(grad, x, y), b.sum_to(of_y, y, x)]
