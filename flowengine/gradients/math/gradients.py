"""Gradients of the gradients that are ops of their own: second derivatives."""

from __future__ import annotations

from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("InvGrad", "ReciprocalGrad")
def reciprocal_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """z = -dy ȳ^2: by y the conjugate of -2 ḡ dy ȳ, by dy -g y^2, which is the op again."""
    y, dy = op.inputs
    of_dy = b.ops.ReciprocalGrad(b.real_or_conj(y), grad)
    product = b.ops.Mul(b.real_or_conj(grad), b.ops.Mul(dy, b.real_or_conj(y)))
    return [b.ops.Mul(-2.0, product), of_dy]


@gradient("RsqrtGrad")
def reciprocal_root_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """z = -dy ȳ^3 / 2: by y -3/2 ḡ dy ȳ^2, by dy the op again."""
    y, dy = op.inputs
    of_dy = b.ops.RsqrtGrad(b.real_or_conj(y), grad)
    product = b.ops.Mul(b.real_or_conj(grad), b.ops.Mul(dy, b.ops.Square(b.real_or_conj(y))))
    return [b.ops.Mul(-1.5, product), of_dy]


@gradient("SqrtGrad")
def square_root_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """z = dy / 2 ȳ: by y the conjugate of -g / y times z, by dy g / 2 y."""
    y, z = op.inputs[0], op.outputs[0]
    quotient = b.ops.RealDiv(grad, y)
    return [b.ops.Neg(b.ops.Mul(b.real_or_conj(quotient), z)), b.ops.Mul(0.5, quotient)]


@gradient("SigmoidGrad")
def sigmoid_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """z = dy y (1 - y): by y g dy (1 - 2 y), by dy the op again."""
    y, dy = (b.real_or_conj(each) for each in op.inputs)
    slope = b.ops.Sub(1.0, b.ops.Mul(2.0, y))
    return [b.ops.Mul(b.ops.Mul(grad, dy), slope), b.ops.SigmoidGrad(y, grad)]


@gradient("TanhGrad")
def hyperbolic_tangent_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """z = dy (1 - y^2): by y -2 g dy y, by dy the op again."""
    y, dy = (b.real_or_conj(each) for each in op.inputs)
    return [b.ops.Mul(b.ops.Mul(grad, dy), b.ops.Mul(-2.0, y)), b.ops.TanhGrad(y, grad)]
