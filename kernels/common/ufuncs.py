"""Ways to register elementwise kernels: a bare ufunc, and narrow floats computed through float32.

A small ufunc costs 0.3 us, a Python function around it 0.05 us more: where an op is exactly a ufunc, the
bound kernel is the ufunc itself. (CuPy arrays take NumPy's ufuncs over through `__array_ufunc__`.) Its
ValueError for shapes that do not broadcast is worded by the executor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, cast

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.blockwise import blockwise, scratch
from flowengine.kernels.registry import kernel

KernelFunction = TypeVar("KernelFunction", bound=Callable[..., Any])

#: Floats that NumPy computes slowly or that lose too much when every step is rounded.
NARROW: Final = (dtypes.float16, dtypes.bfloat16)
INTEGERS: Final = tuple(d for d in dtypes.ALL if d.is_integer or d.is_quantized)
FLOATS: Final = tuple(d for d in dtypes.ALL if d.is_floating)
COMPLEX: Final = (dtypes.complex64, dtypes.complex128)


def register_ufunc(
    op: str,
    ufunc: Callable[..., Any],
    *,
    types: Iterable[Any] | None = None,
    attr: str = "T",
    inline: str | None = None,
) -> None:
    """Make a function of arrays alone, without attributes, the kernel of an op as it is.

    `inline` says the same of NumPy scalars: see `Kernel`.
    """
    kernel(op, types=None if types is None else {attr: types}, fresh=True, inline=inline)(ufunc)


_NARROW_NUMPY: Final = frozenset(d.as_numpy_dtype for d in NARROW)
_FLOAT32: Final = np.dtype(np.float32)


def widened(function: KernelFunction) -> KernelFunction:
    """The kernel computed in float32 on half or bfloat16 inputs, each float32 result rounded once."""

    @functools.wraps(function)
    def through_float32(xp: Any, *inputs: Any, **attrs: Any) -> Any:
        narrow: Any = None
        wide = []
        for value in inputs:
            dtype = getattr(value, "dtype", None)
            if dtype in _NARROW_NUMPY:
                narrow = dtype
                wide.append(value.astype(_FLOAT32))
            else:
                wide.append(value)
        result = function(xp, *wide, **attrs)
        if isinstance(result, tuple):
            return tuple(_narrowed(r, narrow) for r in result)
        return _narrowed(result, narrow)

    return cast(KernelFunction, through_float32)


def _narrowed(value: Any, dtype: Any) -> Any:
    return value.astype(dtype) if dtype is not None and value.dtype == _FLOAT32 else value


def float_kernel(
    *ops: str, attr: str = "T", types: Iterable[DType] | None = None, **options: Any
) -> Callable[[KernelFunction], KernelFunction]:
    """`@kernel(...)` for a computation of floats that serves half and bfloat16 through float32."""

    def register(function: KernelFunction) -> KernelFunction:
        kernel(*ops, types={attr: NARROW}, **options)(widened(function))
        kernel(*ops, types=None if types is None else {attr: types}, **options)(function)
        return function

    return register


#: Elements from which choosing by bit patterns beats NumPy's branches.
_BLEND_MIN: Final = 2048
_INTEGER_OF_SIZE: Final[dict[int, np.dtype[Any]]] = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def blend(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y, of one type; all broadcast.

    NumPy's `where` branches at each element and costs five times as much on a condition without pattern;
    large arrays of 4 or 8 bytes an element are mixed by their bits instead.
    """
    if condition.size < _BLEND_MIN:
        return np.where(condition, x, y)
    integer = _INTEGER_OF_SIZE.get(x.dtype.itemsize)
    if (
        integer is None
        or x.dtype.hasobject
        or not x.shape == y.shape == condition.shape
        or not (x.flags.c_contiguous and y.flags.c_contiguous)
    ):
        return np.where(condition, x, y)
    chosen = np.ascontiguousarray(condition).view(np.int8)
    result = np.empty_like(x)

    def mix(chosen: Any, x: Any, y: Any, out: Any) -> None:
        mask = scratch("mask", chosen.size, integer)
        np.negative(chosen, mask, casting="unsafe", dtype=integer)
        # y ^ ((x ^ y) & mask): the bits of x where the mask is all ones.
        np.bitwise_xor(x, y, out)
        np.bitwise_and(out, mask, out)
        np.bitwise_xor(out, y, out)

    blockwise(mix, chosen, x.view(integer), y.view(integer), result.view(integer))
    return result


def shape_text(value: Any) -> str:
    """A shape as TensorFlow's messages write it: `[2,3]`."""
    return "[" + ",".join(map(str, np.shape(value))) + "]"


def incompatible_shapes(x: Any, y: Any) -> InvalidArgumentError:
    """The error of two shapes that do not broadcast."""
    return InvalidArgumentError(f"Incompatible shapes: {shape_text(x)} vs. {shape_text(y)}")


def check_broadcast(x: Any, y: Any) -> None:
    """InvalidArgumentError unless the shapes broadcast; for a path where something failed already."""
    try:
        np.broadcast_shapes(np.shape(x), np.shape(y))
    except ValueError:
        raise incompatible_shapes(x, y) from None


def scalar_of(value: Any) -> Any:
    """The NumPy scalar in a one-element array (or the scalar itself)."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def as_result(value: Any) -> Array:
    """An ndarray for in-place work on a ufunc's result, which is a scalar where all inputs have rank 0."""
    return np.asarray(value)
