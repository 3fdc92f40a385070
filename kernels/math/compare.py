"""Comparisons and logic of two tensors, broadcast: bool results."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, is_tensor, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.ufuncs import register_ufunc, shape_text
from flowengine.kernels.registry import kernel

register_ufunc("Less", np.less, inline="{0} < {1}")
register_ufunc("LessEqual", np.less_equal, inline="{0} <= {1}")
register_ufunc("Greater", np.greater, inline="{0} > {1}")
register_ufunc("GreaterEqual", np.greater_equal, inline="{0} >= {1}")
register_ufunc("LogicalAnd", np.logical_and, inline="{0} & {1}")
register_ufunc("LogicalOr", np.logical_or, inline="{0} | {1}")

#: Shapes that do not broadcast are simply unequal where the node says that they are no error.
_LENIENT: Final = "incompatible_shape_error"


@kernel("Equal", device="CPU", types={"T": [dtypes.string]}, fresh=True)
def equal_strings(x: Any, y: Any, *, incompatible_shape_error: bool) -> Any:
    return _compare(np.equal, to_array(x), to_array(y), incompatible_shape_error, False)


@kernel("NotEqual", device="CPU", types={"T": [dtypes.string]}, fresh=True)
def not_equal_strings(x: Any, y: Any, *, incompatible_shape_error: bool) -> Any:
    return _compare(np.not_equal, to_array(x), to_array(y), incompatible_shape_error, True)


@kernel("Equal", supports=lambda attrs: not attrs.get(_LENIENT, True), fresh=True)
def equal_lenient(xp: Any, x: Array, y: Array) -> Any:
    """x == y; a scalar False where the shapes do not broadcast."""
    return _compare(xp.equal, x, y, False, False)


@kernel("NotEqual", supports=lambda attrs: not attrs.get(_LENIENT, True), fresh=True)
def not_equal_lenient(xp: Any, x: Array, y: Array) -> Any:
    """x != y; a scalar True where the shapes do not broadcast."""
    return _compare(xp.not_equal, x, y, False, True)


register_ufunc("Equal", np.equal, inline="{0} == {1}")
register_ufunc("NotEqual", np.not_equal, inline="{0} != {1}")


def _compare(ufunc: Any, x: Array, y: Array, strict: bool, otherwise: bool) -> Any:
    try:
        result = ufunc(x, y)
    except ValueError:
        if strict:
            raise
        return np.bool_(otherwise)
    # Object arrays of rank 0 come back as Python's bool.
    return result if is_tensor(result) else np.bool_(result)


@kernel("ApproximateEqual", fresh=True)
def approximate_equal(xp: Any, x: Array, y: Array, *, tolerance: float) -> Any:
    """|x - y| <= tolerance, for one shape; InvalidArgumentError where the shapes differ."""
    if x.shape != y.shape:
        raise InvalidArgumentError(
            f"x and y must be of the same shape. x shape: {shape_text(x)}. y shape: {shape_text(y)}"
        )
    # Of integers only what is strictly nearer counts, with the tolerance cut to a whole number.
    near = xp.less if x.dtype.kind in "iu" else xp.less_equal
    return near(xp.absolute(xp.subtract(x, y)), x.dtype.type(tolerance))


@kernel("CompareAndBitpack", fresh=True)
def compare_and_bitpack(xp: Any, x: Array, threshold: Array) -> Any:
    """(..., 8 N) -> (..., N) bytes: a bit for each element above the threshold, the first one the highest.

    Of booleans the elements themselves are the bits.
    """
    if x.ndim < 1:
        raise InvalidArgumentError("Input should be at least a vector, but saw a scalar.")
    if threshold.ndim:
        raise InvalidArgumentError(f"Compare must be a scalar, but saw shape: {shape_text(threshold)}")
    if x.shape[-1] % 8:
        raise InvalidArgumentError(
            f"Inner dimension of input should be divisible by 8, but saw shape: {shape_text(x)}"
        )
    above = x if x.dtype.kind == "b" else xp.greater(x, threshold)
    return xp.packbits(above.reshape(-1)).reshape((*x.shape[:-1], x.shape[-1] // 8))
