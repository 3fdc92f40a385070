"""Gradients of elementwise arithmetic of two tensors and more, division and remainders."""

from __future__ import annotations

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import real_only
from flowengine.gradients.values import Gradient, Results
from flowengine.graphs.tensor import Operation, Tensor

# Gradients of elementwise arithmetic of two tensors and more.
#
# `g` in an equation is the gradient of the output, a bar over a letter the complex conjugate. Where an
# argument
# was broadcast, what goes back to it is summed to its shape.


def _pair(b: Backward, op: Operation, of_x: Tensor, of_y: Tensor) -> Results:
    """Sum two gradients to the shapes of the two inputs of an op that broadcasts."""
    x, y = op.inputs
    return [b.sum_to(of_x, x, y), b.sum_to(of_y, y, x)]


@gradient("Add", "AddV2")
def add(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g and g"""
    return _pair(b, op, grad, grad)


@gradient("Sub")
def subtract(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g and -g, which is negated when it has been summed."""
    x, y = op.inputs
    return [b.sum_to(grad, x, y), b.ops.Neg(b.sum_to(grad, y, x))]


@gradient("Mul")
def multiply(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g ȳ and g x̄"""
    x, y = op.inputs
    return _pair(b, op, b.ops.Mul(grad, b.real_or_conj(y)), b.ops.Mul(b.real_or_conj(x), grad))


@gradient("MulNoNan")
def multiply_without_nan(b: Backward, op: Operation, grad: Tensor) -> Results:
    """As of a product; nothing comes from a factor that a zero y hides."""
    x, y = op.inputs
    return _pair(b, op, b.ops.MulNoNan(grad, b.real_or_conj(y)), b.ops.MulNoNan(b.real_or_conj(x), grad))


@gradient("Pow")
def power(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g y x^(y - 1) and g z log(x), with the logarithm of what is not positive taken as zero"""
    x, y = (b.real_or_conj(each) for each in op.inputs)
    less = b.ops.Sub(y, b.constant(1, y.dtype))
    of_x = b.ops.Mul(b.ops.Mul(grad, y), b.ops.Pow(x, less))
    zero, one = b.constant(0, x.dtype), b.constant(1, x.dtype)
    has_log = (b.ops.NotEqual if x.dtype.is_complex else b.ops.Greater)(x, zero)
    log = b.ops.SelectV2(has_log, b.ops.Log(b.ops.SelectV2(has_log, x, one)), zero)
    of_y = b.ops.Mul(b.ops.Mul(grad, b.real_or_conj(op.outputs[0])), log)
    return _pair(b, op, of_x, of_y)


@gradient("Maximum")
def maximum(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g to the larger one, to x where they are equal"""
    return _chosen(b, op, b.ops.GreaterEqual(*op.inputs), grad)


@gradient("Minimum")
def minimum(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g to the smaller one, to x where they are equal"""
    return _chosen(b, op, b.ops.LessEqual(*op.inputs), grad)


def _chosen(b: Backward, op: Operation, is_x: Tensor, grad: Tensor) -> Results:
    zero = b.constant(0, grad.dtype)
    return _pair(b, op, b.ops.SelectV2(is_x, grad, zero), b.ops.SelectV2(is_x, zero, grad))


@gradient("SquaredDifference")
def squared_difference(b: Backward, op: Operation, grad: Tensor) -> Results:
    """2 g (x - y) and its negative; of complex numbers the real part of g counts, since |x - y|^2 is real."""
    x, y = op.inputs
    twice = b.ops.Mul(2.0, real_only(b, grad))
    of_x = b.ops.Mul(twice, b.ops.Sub(x, y))
    return [b.sum_to(of_x, x, y), b.ops.Neg(b.sum_to(of_x, y, x))]


@gradient("Atan2")
def angle_of_two(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g x / (x^2 + y^2) and -g y / (x^2 + y^2)"""
    y, x = op.inputs
    scaled = b.ops.RealDiv(grad, b.ops.AddV2(b.ops.Square(x), b.ops.Square(y)))
    return _pair(b, op, b.ops.Mul(x, scaled), b.ops.Mul(b.ops.Neg(y), scaled))


@gradient("NextAfter")
def next_after(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g and zero"""
    start, towards = op.inputs
    return [b.sum_to(grad, start, towards), b.zeros_like(towards)]


@gradient("Xlogy")
def times_logarithm(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g log(y) and g x / y, zero where x is zero"""
    x, y = (b.real_or_conj(each) for each in op.inputs)
    slope = b.ops.Xlogy(_is_not_zero(b, x), y)
    return _pair(b, op, b.ops.Mul(grad, slope), b.ops.Mul(grad, b.ops.Xdivy(x, y)))


@gradient("Xlog1py")
def times_logarithm_of_one_more(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g log(1 + y) and g x / (1 + y), zero where x is zero"""
    x, y = (b.real_or_conj(each) for each in op.inputs)
    slope = b.ops.Xlog1py(_is_not_zero(b, x), y)
    above = b.ops.AddV2(1.0, y)
    # Xdivy has no bfloat16.
    quotient = (b.ops.RealDiv if _is(x, dtypes.bfloat16) else b.ops.Xdivy)(x, above)
    return _pair(b, op, b.ops.Mul(grad, slope), b.ops.Mul(grad, quotient))


@gradient("Xdivy")
def divided_unless_zero(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g / y and -g x / y^2, zero where x is zero"""
    x, y = (b.real_or_conj(each) for each in op.inputs)
    slope = b.ops.Xdivy(_is_not_zero(b, x), y)
    of_y = b.ops.Mul(grad, b.ops.Xdivy(b.ops.Neg(x), b.ops.Square(y)))
    return _pair(b, op, b.ops.Mul(grad, slope), of_y)


def _is(tensor: Tensor, dtype: DType) -> bool:
    return tensor.dtype.base is dtype


def _is_not_zero(b: Backward, x: Tensor) -> Tensor:
    """One where x is not zero, else zero, in its type."""
    result: Tensor = b.ops.Cast(b.ops.NotEqual(x, b.constant(0, x.dtype)), DstT=x.dtype.base)
    return result


@gradient("AddN", "AccumulateNV2", slices=True)
def add_all(b: Backward, op: Operation, grad: Gradient) -> Results:
    """g for each"""
    return [grad] * len(op.inputs)


@gradient("ClipByValue")
def clip(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g to t within the bounds, to a bound where t is beyond it; bounds the wrong way round give the lower"""
    t, low, high = op.inputs
    zero = b.constant(0, grad.dtype)
    is_below = b.ops.Less(b.ops.Minimum(t, high), low)
    is_above = b.ops.LogicalAnd(b.ops.Greater(t, high), b.ops.LogicalNot(is_below))
    is_beyond = b.ops.LogicalOr(is_below, is_above)
    return [
        b.ops.SelectV2(is_beyond, zero, grad),
        b.sum_to(b.ops.SelectV2(is_below, grad, zero), low, t),
        b.sum_to(b.ops.SelectV2(is_above, grad, zero), high, t),
    ]


@gradient("Select")
def select(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g to what was chosen; a condition of one dimension chooses rows."""
    condition = op.inputs[0]
    zeros = b.zeros_like(op.inputs[1])
    return [None, b.ops.Select(condition, grad, zeros), b.ops.Select(condition, zeros, grad)]


@gradient("SelectV2")
def select_broadcast(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g to what was chosen, summed where that was broadcast"""
    condition, t, e = op.inputs
    zero, whole = b.constant(0, grad.dtype), op.outputs[0]
    return [
        None,
        b.sum_to(b.ops.SelectV2(condition, grad, zero), t, whole),
        b.sum_to(b.ops.SelectV2(condition, zero, grad), e, whole),
    ]


# Gradients of division and remainders.


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
