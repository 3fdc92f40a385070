"""Division and remainders: true, floored, truncated, and those that forgive a zero divisor.

Integers divided by zero are an InvalidArgumentError, or as in TensorFlow an InternalError where the op is
called truncated; the smallest integer divided by -1
wraps. Floats follow IEEE 754.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, in_host_memory
from flowengine.core.errors import InternalError, InvalidArgumentError, OpError
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.ufuncs import INTEGERS, register_ufunc
from flowengine.kernels.registry import kernel

#: Elements from which a remainder by one number is made of a quotient by it.
_SCALAR_DIVISOR_MIN: Final = 256


def _by_zero() -> OpError:
    return InvalidArgumentError("Integer division by zero")


def _by_zero_truncated() -> OpError:
    """What the ops called truncated say: TensorFlow's class."""
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
