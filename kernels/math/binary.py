"""Elementwise arithmetic of two tensors and more, division and remainders."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, in_host_memory, to_array
from flowengine.core.errors import InternalError, InvalidArgumentError, OpError
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.ufuncs import (
    INTEGERS,
    blend,
    float_kernel,
    incompatible_shapes,
    register_ufunc,
    shape_text,
)
from flowengine.kernels.registry import kernel

# Elementwise arithmetic of two tensors, broadcast: sums, products, powers, extremes, selection.
#
# Integers wrap. Division and remainders are in `math_division`, comparisons in `math_compare`.


@kernel("Add", "AddV2", device="CPU", types={"T": [dtypes.string]}, fresh=True)
def add_strings(x: Any, y: Any) -> Any:
    """Concatenation, broadcast."""
    if isinstance(x, bytes) and isinstance(y, bytes):
        return x + y
    return np.add(to_array(x), to_array(y), dtype=object)


register_ufunc("Add", np.add, inline="{0} + {1}")
register_ufunc("AddV2", np.add, inline="{0} + {1}")
register_ufunc("Sub", np.subtract, inline="{0} - {1}")
register_ufunc("Mul", np.multiply, inline="{0} * {1}")
register_ufunc("BitwiseAnd", np.bitwise_and, inline="{0} & {1}")
register_ufunc("BitwiseOr", np.bitwise_or, inline="{0} | {1}")
register_ufunc("BitwiseXor", np.bitwise_xor, inline="{0} ^ {1}")


def _negative_power() -> InvalidArgumentError:
    return InvalidArgumentError("Integers to negative integer powers are not allowed")


@kernel("Pow", types={"T": INTEGERS}, fresh=True)
def pow_integer(xp: Any, x: Array, y: Array) -> Any:
    """x to the y-th, wrapped to the width; InvalidArgumentError for a negative exponent."""
    refuse((y < 0).any(), _negative_power)
    return xp.power(x, y)


register_ufunc("Pow", np.power)
register_ufunc("Atan2", np.arctan2)
register_ufunc("NextAfter", np.nextafter)


@kernel("Maximum", types={"T": INTEGERS}, fresh=True, inline="{1} if {0} < {1} else {0}")
def maximum_integer(xp: Any, x: Array, y: Array) -> Any:
    return xp.maximum(x, y)


@kernel("Minimum", types={"T": INTEGERS}, fresh=True, inline="{1} if {1} < {0} else {0}")
def minimum_integer(xp: Any, x: Array, y: Array) -> Any:
    return xp.minimum(x, y)


@kernel("Maximum", fresh=True)
def maximum(xp: Any, x: Array, y: Array) -> Any:
    """y where x < y, else x: a NaN in x stays, a NaN in y loses."""
    return xp.where(x < y, y, x)


@kernel("Minimum", fresh=True)
def minimum(xp: Any, x: Array, y: Array) -> Any:
    """y where y < x, else x: a NaN in x stays, a NaN in y loses."""
    return xp.where(y < x, y, x)


@kernel("SquaredDifference", fresh=True)
def squared_difference(xp: Any, x: Array, y: Array) -> Any:
    """(x - y)^2; for complex numbers |x - y|^2, with a zero imaginary part."""
    difference = xp.subtract(x, y)
    if difference.dtype.kind == "c":
        return xp.multiply(difference, xp.conjugate(difference))
    return xp.square(difference)


@kernel("MulNoNan", fresh=True)
def mul_no_nan(xp: Any, x: Array, y: Array) -> Any:
    """x y, and 0 where y is 0 whatever x is."""
    product = xp.asarray(xp.multiply(x, y))
    xp.copyto(product, product.dtype.type(0), where=xp.equal(y, 0))
    return product


@float_kernel("Xlogy", fresh=True)
def xlogy(xp: Any, x: Array, y: Array) -> Any:
    """x log(y), and 0 where x is 0 whatever y is."""
    product = xp.asarray(xp.multiply(x, xp.log(y)))
    xp.copyto(product, product.dtype.type(0), where=xp.equal(x, 0))
    return product


@float_kernel("Xlog1py", fresh=True)
def xlog1py(xp: Any, x: Array, y: Array) -> Any:
    """x log(1 + y), and 0 where x is 0 whatever y is."""
    product = xp.asarray(xp.multiply(x, xp.log1p(y)))
    xp.copyto(product, product.dtype.type(0), where=xp.equal(x, 0))
    return product


@float_kernel("Xdivy", fresh=True)
def xdivy(xp: Any, x: Array, y: Array) -> Any:
    """x / y, and 0 where x is 0 whatever y is."""
    quotient = xp.asarray(xp.divide(x, y))
    xp.copyto(quotient, quotient.dtype.type(0), where=xp.equal(x, 0))
    return quotient


@kernel("LeftShift", fresh=True)
def left_shift(xp: Any, x: Array, y: Array) -> Any:
    """x << y with y held between 0 and the width less one."""
    return xp.left_shift(x, _shift(xp, x, y))


@kernel("RightShift", fresh=True)
def right_shift(xp: Any, x: Array, y: Array) -> Any:
    """x >> y with y held between 0 and the width less one; signed numbers keep their sign."""
    return xp.right_shift(x, _shift(xp, x, y))


def _shift(xp: Any, x: Array, y: Array) -> Any:
    bits = x.dtype.itemsize * 8 - 1
    return xp.minimum(xp.maximum(y, y.dtype.type(0)), y.dtype.type(bits))


@kernel("ClipByValue", fresh=True)
def clip_by_value(xp: Any, t: Array, low: Array, high: Array) -> Any:
    """t held between two limits, each a scalar or of t's shape; InvalidArgumentError for other shapes.

    Where the limits are in the wrong order, the lower one counts.
    """
    for name, limit in (("clip_value_min", low), ("clip_value_max", high)):
        if limit.ndim and limit.shape != t.shape:
            raise InvalidArgumentError(
                f"{name} must be a scalar or have the shape of t: {shape_text(limit)} vs. {shape_text(t)}"
            )
    return xp.maximum(xp.minimum(t, high), low)


#: So many summands are added by one reduction, if they have no more elements than this in all.
_MANY: Final = 8
_SIDE_BY_SIDE: Final = 1 << 16


@kernel("AddN", "AccumulateNV2", fresh=True)
def add_n(xp: Any, inputs: tuple[Any, ...]) -> Any:
    """The sum of tensors of one shape; InvalidArgumentError where the shapes differ."""
    first = inputs[0]
    try:
        shape = first.shape
    except AttributeError:
        # Variants, such as lists of tensors, say themselves what their sum is.
        return functools.reduce(operator.add, inputs)
    if len(inputs) == 2 and inputs[1].shape == shape:
        return xp.add(first, inputs[1])
    if not hasattr(first, "ndim"):
        # Variants with a shape of their own: sparse matrices.
        return functools.reduce(operator.add, inputs)
    for index, value in enumerate(inputs):
        if value.shape != shape:
            raise InvalidArgumentError(
                "Inputs to operation must have the same size and shape. "
                f"Input 0: {shape_text(first)} != input {index}: {shape_text(value)}"
            )
    if len(inputs) == 1:
        return first.copy()
    if (
        len(inputs) >= _MANY
        and shape
        and first.size * len(inputs) <= _SIDE_BY_SIDE
        and first.dtype.kind in "fiu"
    ):
        # Put side by side, they are one call instead of one each.
        return xp.add.reduce(xp.concatenate(inputs).reshape(len(inputs), *shape), 0, first.dtype)
    total = xp.add(first, inputs[1])
    if shape == ():
        for value in inputs[2:]:
            total = xp.add(total, value)
        return total
    for value in inputs[2:]:
        xp.add(total, value, total)
    return total


@kernel("SelectV2", fresh=True)
def select_v2(xp: Any, condition: Array, t: Any, e: Any) -> Any:
    """t where the condition holds, else e; all three broadcast."""
    return blend(xp, condition, to_array(t), to_array(e))


#: So many rows are looked at one by one before they are chosen.
_FEW_ROWS: Final = 64


@kernel("Select")
def select(xp: Any, condition: Array, t: Any, e: Any) -> Any:
    """t where the condition holds, else e.

    The condition is a scalar (one of them passes whole), a vector along the first axis of t and e, or has
    their shape. InvalidArgumentError for anything else.
    """
    if condition.ndim == 0:
        if getattr(t, "shape", ()) != getattr(e, "shape", ()):
            raise incompatible_shapes(t, e)
        if in_host_memory(condition):
            return t if condition else e
        return xp.where(condition, t, e)
    then, other = to_array(t), to_array(e)
    if then.shape != other.shape:
        raise InvalidArgumentError(
            f"'then' and 'else' must have the same size. but received: {shape_text(then)} vs. "
            f"{shape_text(other)}"
        )
    if condition.shape != then.shape:
        if condition.ndim != 1:
            raise InvalidArgumentError(
                "'cond' must be a scalar, a vector or have the shape of 'then', but saw "
                f"{shape_text(condition)} vs. {shape_text(then)}"
            )
        if then.ndim == 0:
            raise InvalidArgumentError("'then' must be at least a vector, but saw shape: []")
        if then.shape[0] != condition.shape[0]:
            raise InvalidArgumentError(
                "Number of batches of 'then' must match size of 'cond', but saw: "
                f"{then.shape[0]} vs. {condition.shape[0]}"
            )
        if condition.size <= _FEW_ROWS and in_host_memory(condition):
            # Most often all rows come from one side: that of the sequences that have not ended, for one.
            chosen = condition.tolist()
            if False not in chosen:
                return t
            if True not in chosen:
                return e
        if then.ndim == 2:
            condition = condition[:, None]
        else:
            condition = condition.reshape((-1,) + (1,) * (then.ndim - 1))
    return blend(xp, condition, then, other)


# Division and remainders: true, floored, truncated, and those that forgive a zero divisor.
#
# Integers divided by zero are an InvalidArgumentError, or as in TensorFlow an InternalError where the op is
# called truncated; the smallest integer divided by -1
# wraps. Floats follow IEEE 754.

#: Elements from which a remainder by one number is made of a quotient by it.
_SCALAR_DIVISOR_MIN: Final = 256


def _by_zero() -> OpError:
    return InvalidArgumentError("Integer division by zero")


def _by_zero_truncated() -> OpError:
    """Return the error of the ops called truncated, of TensorFlow's class."""
    return InternalError("Integer division by zero")


def _check_divisor(x: Array, y: Array, error: Callable[[], OpError] = _by_zero) -> None:
    if not in_host_memory(y):
        if x.size:
            refuse((y == 0).any(), error)
    # A scalar's truth costs a tenth of a reduction. Of nothing, even 0 is a divisor.
    elif not (y if y.ndim == 0 else y.all()) and x.size:
        raise error()


def _truncated(xp: Any, x: Array, y: Array) -> Any:
    """Integer quotient rounded towards zero."""
    if x.dtype.kind == "u":
        return xp.floor_divide(x, y)
    # The remainder of the dividend's sign leaves an exact division.
    return xp.floor_divide(xp.subtract(x, xp.fmod(x, y)), y)


@kernel("Div", "RealDiv", types={"T": INTEGERS}, fresh=True)
def div_integer(xp: Any, x: Array, y: Array) -> Any:
    _check_divisor(x, y)
    return _truncated(xp, x, y)


@kernel("TruncateDiv", types={"T": INTEGERS}, fresh=True)
def truncate_div_integer(xp: Any, x: Array, y: Array) -> Any:
    _check_divisor(x, y, _by_zero_truncated)
    return _truncated(xp, x, y)


register_ufunc("Div", np.divide, inline="{0} / {1}")
register_ufunc("RealDiv", np.divide, inline="{0} / {1}")
# Of floats the quotient stays as it is: only integers are truncated.
register_ufunc("TruncateDiv", np.divide, inline="{0} / {1}")


@kernel("FloorDiv", types={"T": INTEGERS}, fresh=True, inline="{0} // {1} if {1} else {f}({0}, {1})")
def floor_div_integer(xp: Any, x: Array, y: Array) -> Any:
    """Integer quotient rounded down."""
    _check_divisor(x, y)
    return xp.floor_divide(x, y)


@kernel("FloorDiv", fresh=True)
def floor_div(xp: Any, x: Array, y: Array) -> Any:
    """floor(x / y): infinite for a zero divisor, where NumPy's floor_divide would say NaN."""
    quotient = xp.divide(x, y)
    return xp.floor(quotient)


@kernel("Mod", types={"T": INTEGERS}, fresh=True)
def mod_integer(xp: Any, x: Array, y: Array) -> Any:
    """The remainder with the sign of x."""
    _check_divisor(x, y)
    return xp.fmod(x, y)


@kernel("TruncateMod", types={"T": INTEGERS}, fresh=True)
def truncate_mod_integer(xp: Any, x: Array, y: Array) -> Any:
    """The remainder with the sign of x."""
    _check_divisor(x, y, _by_zero_truncated)
    return xp.fmod(x, y)


register_ufunc("Mod", np.fmod)
register_ufunc("TruncateMod", np.fmod)


@kernel("FloorMod", types={"T": INTEGERS}, fresh=True, inline="{0} % {1} if {1} else {f}({0}, {1})")
def floor_mod_integer(xp: Any, x: Array, y: Array) -> Any:
    """The remainder with the sign of y."""
    _check_divisor(x, y)
    if y.ndim == 0 and x.size >= _SCALAR_DIVISOR_MIN:
        # NumPy divides by one number without dividing; its remainder does not.
        quotient = xp.floor_divide(x, y)
        xp.multiply(quotient, y, quotient)
        return xp.subtract(x, quotient, quotient)
    return xp.remainder(x, y)


@kernel("FloorMod", fresh=True)
def floor_mod(xp: Any, x: Array, y: Array) -> Any:
    """fmod(x, y), moved by y where it is not 0 and has not y's sign."""
    truncated = xp.fmod(x, y)
    other_side = xp.logical_and(
        xp.not_equal(truncated, 0), xp.not_equal(xp.less(truncated, 0), xp.less(y, 0))
    )
    return xp.where(other_side, xp.add(truncated, y), truncated)


@kernel("DivNoNan", fresh=True)
def div_no_nan(xp: Any, x: Array, y: Array) -> Any:
    """x / y, and 0 where y is 0."""
    quotient = xp.asarray(xp.divide(x, y))
    xp.copyto(quotient, quotient.dtype.type(0), where=xp.equal(y, 0))
    return quotient
