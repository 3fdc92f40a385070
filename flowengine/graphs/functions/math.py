"""Elementwise arithmetic: one number in, one number out.

`x` and `y`, or all of `inputs`, are tensors, variables or values that become constants: numbers of any type
unless a function says otherwise. Two arguments are of one type and broadcast, and the result has their type
and the broadcast shape.

>>> graph = fe.Graph()
>>> def show(*tensors):
...     for value in fe.testing.evaluate(graph, [each.name for each in tensors]):
...         print(np.round(value.astype(float), 3).tolist())
>>> x, y = graph.constant([-1.5, 0.0, 2.5]), graph.constant([2.0, 0.0, -1.0])
>>> show(fe.abs(x), fe.negative(x), fe.sign(x), fe.square(x))
[1.5, 0.0, 2.5]
[1.5, -0.0, -2.5]
[-1.0, 0.0, 1.0]
[2.25, 0.0, 6.25]
>>> show(fe.round(x), fe.rint(x), fe.floor(x), fe.ceil(x))
[-2.0, 0.0, 2.0]
[-2.0, 0.0, 2.0]
[-2.0, 0.0, 2.0]
[-1.0, 0.0, 3.0]
>>> show(fe.add(x, y), fe.subtract(x, y), fe.multiply(x, y), fe.maximum(x, y), fe.minimum(x, y))
[0.5, 0.0, 1.5]
[-3.5, 0.0, 3.5]
[-3.0, 0.0, -2.5]
[2.0, 0.0, 2.5]
[-1.5, 0.0, -1.0]
>>> show(fe.squared_difference(x, y), fe.add_n([x, y, y]), fe.div_no_nan(x, y), fe.multiply_no_nan(x, y))
[12.25, 0.0, 12.25]
[2.5, 0.0, 0.5]
[-0.75, 0.0, -2.5]
[-3.0, 0.0, -2.5]
>>> z = graph.constant([0.25, 1.0])
>>> show(fe.sqrt(z), fe.rsqrt(z), fe.reciprocal(z), fe.sigmoid(z))
[0.5, 1.0]
[2.0, 1.0]
[4.0, 1.0]
[0.562, 0.731]
>>> show(fe.log(z), fe.log1p(z), fe.exp(z), fe.expm1(z))
[-1.386, 0.0]
[0.223, 0.693]
[1.284, 2.718]
[0.284, 1.718]
>>> show(fe.sin(z), fe.cos(z), fe.tan(z), fe.asin(z), fe.acos(z), fe.atan(z), fe.atan2(z, z))
[0.247, 0.841]
[0.969, 0.54]
[0.255, 1.557]
[0.253, 1.571]
[1.318, 0.0]
[0.245, 0.785]
[0.785, 0.785]
>>> show(fe.sinh(z), fe.cosh(z), fe.tanh(z), fe.asinh(z), fe.acosh(1.0 + z), fe.atanh(z / 2.0))
[0.253, 1.175]
[1.031, 1.543]
[0.245, 0.762]
[0.247, 0.881]
[0.693, 1.317]
[0.126, 0.549]
>>> show(fe.where(fe.is_nan(x / y)), fe.where(fe.is_inf(y / x)), fe.where(fe.is_finite(x / y)))
[[1.0]]
[]
[[0.0], [2.0]]
>>> n, two = graph.constant([7, -7]), graph.constant(2)
>>> show(fe.floordiv(n, two), fe.mod(n, two), fe.divide(n, two), fe.truediv(n, two), fe.pow(n, two))
[3.0, -4.0]
[1.0, 1.0]
[3.5, -3.5]
[3.5, -3.5]
[49.0, 49.0]
>>> show(fe.cast(x, "int32"), fe.cumsum(x), fe.cumprod(n, reverse=True))
[-1.0, 0.0, 2.0]
[-1.5, -1.5, 1.0]
[-49.0, -7.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowengine.core.dtypes import as_dtype
from flowengine.graphs.conversion import TensorLike, graph_of
from flowengine.graphs.functions.support import one, tensor_of
from flowengine.graphs.operators import magnitude, quotient
from flowengine.graphs.tensor import Tensor


def abs(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the magnitude of each element: of the same type, real for a complex one."""
    return magnitude(graph_of(x), x, name)


def negative(x: TensorLike, name: str | None = None) -> Tensor:
    """Each element with the other sign. Real or complex numbers, the result of the same type and shape."""
    return one("Neg", x, name=name)


def sign(x: TensorLike, name: str | None = None) -> Tensor:
    """-1, 0 or 1 as an element is negative, zero or positive; x / |x| for complex numbers."""
    return one("Sign", x, name=name)


def reciprocal(x: TensorLike, name: str | None = None) -> Tensor:
    """1 / x. Real or complex numbers, the result of the same type and shape."""
    return one("Reciprocal", x, name=name)


def square(x: TensorLike, name: str | None = None) -> Tensor:
    """x * x. Real or complex numbers, the result of the same type and shape."""
    return one("Square", x, name=name)


def sqrt(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the square root; NaN for negative real numbers.

    Floating point or complex, the result of the same type and shape.
    """
    return one("Sqrt", x, name=name)


def rsqrt(x: TensorLike, name: str | None = None) -> Tensor:
    """1 / sqrt(x). Floating point or complex, the result of the same type and shape."""
    return one("Rsqrt", x, name=name)


def exp(x: TensorLike, name: str | None = None) -> Tensor:
    """e to the power of each element. Floating point or complex, the result of the same type and shape."""
    return one("Exp", x, name=name)


def expm1(x: TensorLike, name: str | None = None) -> Tensor:
    """exp(x) - 1, exact where x is near 0.

    Floating point or complex, the result of the same type and shape.
    """
    return one("Expm1", x, name=name)


def log(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the natural logarithm; -inf at 0, NaN below.

    Floating point or complex, the result of the same type and shape.
    """
    return one("Log", x, name=name)


def log1p(x: TensorLike, name: str | None = None) -> Tensor:
    """log(1 + x), exact where x is near 0.

    Floating point or complex, the result of the same type and shape.
    """
    return one("Log1p", x, name=name)


def sin(x: TensorLike, name: str | None = None) -> Tensor:
    """The sine of angles in radians. Floating point or complex, the result of the same type and shape."""
    return one("Sin", x, name=name)


def cos(x: TensorLike, name: str | None = None) -> Tensor:
    """The cosine of angles in radians. Floating point or complex, the result of the same type and shape."""
    return one("Cos", x, name=name)


def tan(x: TensorLike, name: str | None = None) -> Tensor:
    """The tangent of angles in radians. Floating point or complex, the result of the same type and shape."""
    return one("Tan", x, name=name)


def asin(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the angle whose sine is x. Floating point or complex, the result of the same type and shape."""
    return one("Asin", x, name=name)


def acos(x: TensorLike, name: str | None = None) -> Tensor:
    """The angle whose cosine is x. Floating point or complex, the result of the same type and shape."""
    return one("Acos", x, name=name)


def atan(x: TensorLike, name: str | None = None) -> Tensor:
    """The angle whose tangent is x. Floating point or complex, the result of the same type and shape."""
    return one("Atan", x, name=name)


def sinh(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the hyperbolic sine. Floating point or complex, the result of the same type and shape."""
    return one("Sinh", x, name=name)


def cosh(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the hyperbolic cosine. Floating point or complex, the result of the same type and shape."""
    return one("Cosh", x, name=name)


def tanh(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the hyperbolic tangent. Floating point or complex, the result of the same type and shape."""
    return one("Tanh", x, name=name)


def asinh(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the inverse of the hyperbolic sine.

    Floating point or complex, the result of the same type and shape.
    """
    return one("Asinh", x, name=name)


def acosh(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the inverse of the hyperbolic cosine.

    Floating point or complex, the result of the same type and shape.
    """
    return one("Acosh", x, name=name)


def atanh(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the inverse of the hyperbolic tangent.

    Floating point or complex, the result of the same type and shape.
    """
    return one("Atanh", x, name=name)


def sigmoid(x: TensorLike, name: str | None = None) -> Tensor:
    """1 / (1 + exp(-x)). Floating point or complex, the result of the same type and shape."""
    return one("Sigmoid", x, name=name)


def ceil(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the smallest whole number not below x. Floating point, the result of the same type and shape."""
    return one("Ceil", x, name=name)


def floor(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the largest whole number not above x. Floating point, the result of the same type and shape."""
    return one("Floor", x, name=name)


def rint(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the nearest whole number, the even one of two.

    Floating point, the result of the same type and shape.
    """
    return one("Rint", x, name=name)


def round(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the nearest whole number, the even one of two.

    Real or complex numbers, the result of the same type and shape.
    """
    return one("Round", x, name=name)


def is_nan(x: TensorLike, name: str | None = None) -> Tensor:
    """Whether each element is NaN: bool of the same shape. Floating point."""
    return one("IsNan", x, name=name)


def is_inf(x: TensorLike, name: str | None = None) -> Tensor:
    """Whether each element is infinite: bool of the same shape. Floating point."""
    return one("IsInf", x, name=name)


def is_finite(x: TensorLike, name: str | None = None) -> Tensor:
    """Whether each element is neither infinite nor NaN: bool of the same shape. Floating point."""
    return one("IsFinite", x, name=name)


def subtract(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """x - y. Both of one type; shapes broadcast."""
    return one("Sub", x, y, name=name)


def multiply(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """x * y. Both of one type; shapes broadcast."""
    return one("Mul", x, y, name=name)


def floordiv(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """x / y rounded down. Both of one type; shapes broadcast."""
    return one("FloorDiv", x, y, name=name)


def mod(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return the remainder of floordiv, of y's sign. Both of one type; shapes broadcast."""
    return one("FloorMod", x, y, name=name)


def div_no_nan(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """x / y, and 0 where y is 0. Floating point or complex; shapes broadcast."""
    return one("DivNoNan", x, y, name=name)


def multiply_no_nan(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """x * y, and 0 where y is 0, whatever x is. Floating point or complex; shapes broadcast."""
    return one("MulNoNan", x, y, name=name)


def maximum(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return the larger of each two; NaN if one is. Both of one type; shapes broadcast."""
    return one("Maximum", x, y, name=name)


def minimum(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return the smaller of each two; NaN if one is. Both of one type; shapes broadcast."""
    return one("Minimum", x, y, name=name)


def squared_difference(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """(x - y) squared, of the conjugate for complex numbers. Both of one type; shapes broadcast."""
    return one("SquaredDifference", x, y, name=name)


def pow(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """x to the power of y. Both of one type; shapes broadcast."""
    return one("Pow", x, y, name=name)


def atan2(y: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """Return the angle of the point (x, y) from the x axis, -pi to pi. Floating point; shapes broadcast."""
    return one("Atan2", y, x, name=name)


def add(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """x + y, for strings one behind the other. Both of one type; shapes broadcast."""
    return one("Add", x, y, name=name)


def add_n(inputs: Sequence[TensorLike], name: str | None = None) -> Tensor:
    """Return the sum of tensors of one type and shape; the tensor itself where there is one."""
    return one("AddN", list(inputs), name=name)


def divide(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Divide x by y as Python 3 does: integers give float64, those of up to 16 bits float32.

    Shapes broadcast.
    """
    return quotient(graph_of(x, y), x, y, name or "truediv")


truediv = divide


def cast(x: TensorLike, dtype: Any, name: str | None = None) -> Tensor:
    """Convert x to `dtype`; return the tensor itself if it has that type.

    A float becomes an integer by truncation, a complex number a real one by dropping the imaginary part.
    """
    tensor = tensor_of(x)
    wanted = as_dtype(dtype).base
    return tensor if tensor.dtype.base is wanted else one("Cast", tensor, DstT=wanted, name=name)


def cumsum(
    x: TensorLike,
    axis: TensorLike = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return sums of the elements so far along an axis; with `exclusive` without the element itself.

    Of x's shape.
    """
    return one("Cumsum", x, axis, exclusive=exclusive, reverse=reverse, name=name)


def cumprod(
    x: TensorLike,
    axis: TensorLike = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return products of the elements so far along an axis; with `exclusive` without the element itself.

    Of x's shape.
    """
    return one("Cumprod", x, axis, exclusive=exclusive, reverse=reverse, name=name)


__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "add_n",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cast",
    "ceil",
    "cos",
    "cosh",
    "cumprod",
    "cumsum",
    "div_no_nan",
    "divide",
    "exp",
    "expm1",
    "floor",
    "floordiv",
    "is_finite",
    "is_inf",
    "is_nan",
    "log",
    "log1p",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "multiply_no_nan",
    "negative",
    "pow",
    "reciprocal",
    "rint",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "squared_difference",
    "subtract",
    "tan",
    "tanh",
    "truediv",
]
