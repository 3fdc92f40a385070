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
from flowengine.core.arrays import is_numpy
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.blockwise import BLEND_MIN, blend_by_bits
from flowengine.kernels.registry import kernel

KernelFunction = TypeVar("KernelFunction", bound=Callable[..., Any])

#: Floats that NumPy computes slowly or that lose too much when every step is rounded.
NARROW: Final = (dtypes.float16, dtypes.bfloat16)
INTEGERS: Final = tuple(d for d in dtypes.COMPUTED if d.is_integer or d.is_quantized)
FLOATS: Final = tuple(d for d in dtypes.COMPUTED if d.is_floating)
COMPLEX: Final = (dtypes.complex64, dtypes.complex128)


def register_ufunc(
    op: str,
    ufunc: Callable[..., Any],
    *,
    types: Iterable[Any] | None = None,
    attr: str = "T",
    inline: str | None = None,
) -> None:
    """Register a function of arrays, without attributes, as the kernel of an op.

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


def blend(xp: Any, condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y, of one type; all broadcast."""
    if is_numpy(xp) and condition.size >= BLEND_MIN:
        return blend_by_bits(condition, x, y)
    return xp.where(condition, x, y)


def shape_text(value: Any) -> str:
    """A shape as TensorFlow's messages write it: `[2,3]`."""
    return "[" + ",".join(map(str, getattr(value, "shape", ()))) + "]"


def incompatible_shapes(x: Any, y: Any) -> InvalidArgumentError:
    """The error of two shapes that do not broadcast."""
    return InvalidArgumentError(f"Incompatible shapes: {shape_text(x)} vs. {shape_text(y)}")
