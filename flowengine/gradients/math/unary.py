"""Gradients of elementwise functions of one tensor, and their gradients that are ops of their own."""

from __future__ import annotations

from dataclasses import replace

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import part_type
from flowengine.gradients.values import Gradient, IndexedSlices, Results
from flowengine.graphs.tensor import Operation, Tensor

# Gradients of elementwise functions of one tensor.
#
# `g` in an equation is the gradient of the output y, a bar over a letter the complex conjugate: for a
# complex
# function that has a derivative f', what goes back is g times the conjugate of f'(x).


@gradient("Abs")
def absolute(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g sign(x): nothing at zero."""
    return [b.ops.Mul(grad, b.ops.Sign(op.inputs[0]))]


@gradient("Acos")
def arc_cosine(b: Backward, op: Operation, grad: Tensor) -> Results:
    """-g / sqrt(1 - x^2)"""
    return [b.ops.Neg(b.ops.Mul(grad, _one_over_root(b, op)))]


@gradient("Asin")
def arc_sine(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g / sqrt(1 - x^2)"""
    return [b.ops.Mul(grad, _one_over_root(b, op))]


def _one_over_root(b: Backward, op: Operation) -> Tensor:
    square = b.ops.Square(b.real_or_conj(op.inputs[0]))
    result: Tensor = b.ops.Reciprocal(b.ops.Sqrt(b.ops.Sub(1.0, square)))
    return result


@gradient("Acosh")
def area_cosine(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g / sinh(y), conjugated"""
    return [b.ops.RealDiv(grad, b.real_or_conj(b.ops.Sinh(op.outputs[0])))]


@gradient("Asinh")
def area_sine(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g / cosh(y), conjugated"""
    return [b.ops.RealDiv(grad, b.real_or_conj(b.ops.Cosh(op.outputs[0])))]


@gradient("Atan")
def arc_tangent(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g / (1 + x^2)"""
    square = b.ops.Square(b.real_or_conj(op.inputs[0]))
    return [b.ops.RealDiv(grad, b.ops.AddV2(1.0, square))]


@gradient("Atanh")
def area_tangent(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g / (1 - x^2)"""
    square = b.ops.Square(b.real_or_conj(op.inputs[0]))
    return [b.ops.RealDiv(grad, b.ops.Sub(1.0, square))]


@gradient("Cos")
def cosine(b: Backward, op: Operation, grad: Tensor) -> Results:
    """-g sin(x)"""
    return [b.ops.Neg(b.ops.Mul(grad, b.ops.Sin(b.real_or_conj(op.inputs[0]))))]


@gradient("Sin")
def sine(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g cos(x)"""
    return [b.ops.Mul(grad, b.ops.Cos(b.real_or_conj(op.inputs[0])))]


@gradient("Tan")
def tangent(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g (1 + y^2)"""
    square = b.ops.Square(b.real_or_conj(op.outputs[0]))
    return [b.ops.Mul(grad, b.ops.AddV2(1.0, square))]


@gradient("Cosh")
def hyperbolic_cosine(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g sinh(x)"""
    return [b.ops.Mul(grad, b.ops.Sinh(b.real_or_conj(op.inputs[0])))]


@gradient("Sinh")
def hyperbolic_sine(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g cosh(x)"""
    return [b.ops.Mul(grad, b.ops.Cosh(b.real_or_conj(op.inputs[0])))]


@gradient("Tanh")
def hyperbolic_tangent(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g (1 - y^2), an op of its own"""
    return [b.ops.TanhGrad(b.real_or_conj(op.outputs[0]), grad)]


@gradient("Sigmoid")
def sigmoid(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g y (1 - y), an op of its own"""
    return [b.ops.SigmoidGrad(b.real_or_conj(op.outputs[0]), grad)]


@gradient("Exp")
def exponential(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g y"""
    return [b.ops.Mul(grad, b.real_or_conj(op.outputs[0]))]


@gradient("Expm1")
def exponential_less_one(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g exp(x): y + 1 would have lost the small values."""
    return [b.ops.Mul(grad, b.ops.Exp(b.real_or_conj(op.inputs[0])))]


@gradient("Log")
def logarithm(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g / x"""
    return [b.ops.RealDiv(grad, b.real_or_conj(op.inputs[0]))]


@gradient("Log1p")
def logarithm_of_one_more(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g / (1 + x)"""
    return [b.ops.RealDiv(grad, b.ops.AddV2(1.0, b.real_or_conj(op.inputs[0])))]


@gradient("Inv")
def inverse(b: Backward, op: Operation, grad: Tensor) -> Results:
    """-g y^2, an op of its own, which conjugates"""
    return [b.ops.InvGrad(op.outputs[0], grad)]


@gradient("Reciprocal")
def reciprocal(b: Backward, op: Operation, grad: Tensor) -> Results:
    """-g y^2, an op of its own, which conjugates"""
    return [b.ops.ReciprocalGrad(op.outputs[0], grad)]


@gradient("Sqrt")
def square_root(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g / (2 y), an op of its own, which conjugates"""
    return [b.ops.SqrtGrad(op.outputs[0], grad)]


@gradient("Rsqrt")
def reciprocal_root(b: Backward, op: Operation, grad: Tensor) -> Results:
    """-g y^3 / 2, an op of its own, which conjugates"""
    return [b.ops.RsqrtGrad(op.outputs[0], grad)]


@gradient("Square")
def square(b: Backward, op: Operation, grad: Tensor) -> Results:
    """2 g x"""
    return [b.ops.Mul(grad, b.ops.Mul(2.0, b.real_or_conj(op.inputs[0])))]


@gradient("Neg", slices=True)
def negative(b: Backward, op: Operation, grad: Gradient) -> Results:
    """-g"""
    if isinstance(grad, IndexedSlices):
        return [replace(grad, values=b.ops.Neg(grad.values))]
    return [b.ops.Neg(grad)]


@gradient("Sign")
def sign(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Zero for real numbers. A complex x / |x| turns with x: what g has across y, divided by |x|.

    (g - Re(g ȳ) y) / |x|, and zero at zero.
    """
    (x,), (y,) = op.inputs, op.outputs
    if not x.dtype.is_complex:
        return [b.zeros_like(x)]
    real = part_type(x.dtype)
    along = b.ops.Real(b.ops.Mul(grad, b.ops.Conj(y)), Tout=real)
    across = b.ops.Sub(grad, b.ops.Mul(b.ops.Cast(along, DstT=x.dtype), y))
    size = b.ops.Cast(b.ops.ComplexAbs(x, Tout=real), DstT=x.dtype)
    return [b.ops.DivNoNan(across, size)]


@gradient("Complex")
def complex_number(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Re(g), Im(g)"""
    re, im = op.inputs
    return [
        b.sum_to(b.ops.Real(grad, Tout=re.dtype), re, im),
        b.sum_to(b.ops.Imag(grad, Tout=im.dtype), im, re),
    ]


@gradient("Real")
def real_part(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g + 0i"""
    return [b.ops.Complex(grad, b.constant(0, grad.dtype), Tout=op.inputs[0].dtype)]


@gradient("Imag")
def imaginary_part(b: Backward, op: Operation, grad: Tensor) -> Results:
    """0 + gi"""
    return [b.ops.Complex(b.constant(0, grad.dtype), grad, Tout=op.inputs[0].dtype)]


@gradient("Angle")
def angle(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g i / x̄: across x, and the smaller the farther from zero."""
    x = op.inputs[0]
    turned = b.ops.Complex(b.constant(0, grad.dtype), grad, Tout=x.dtype)
    return [b.ops.RealDiv(turned, b.ops.Conj(x))]


@gradient("ComplexAbs")
def complex_size(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g x / |x|, and zero at zero"""
    x = op.inputs[0]
    scale = b.ops.DivNoNan(grad, op.outputs[0])
    return [b.ops.Mul(b.ops.Cast(scale, DstT=x.dtype), x)]


@gradient("Conj")
def conjugate(b: Backward, op: Operation, grad: Tensor) -> Results:
    """ḡ"""
    return [b.ops.Conj(grad)]


# Gradients of the gradients that are ops of their own: second derivatives.


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
