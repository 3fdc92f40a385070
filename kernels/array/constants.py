"""Values that come from no input: constants, placeholders, and tensors of one repeated value."""

from __future__ import annotations

import math
from typing import Any

from flowengine.core.arrays import Array, Value, in_host_memory, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import (
    FILL_BYTES_PER_MICROSECOND,
    blank,
    brackets,
    dimensions,
    dtype_of,
    filled,
    has_dtype,
    shape_of,
)
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.registry import kernel


@kernel("Const", device="CPU", heavy=False)
def const(*, value: TensorAttr) -> Value:
    """The tensor in the attribute `value`: the same read-only object each time."""
    return value.value()


@kernel("Placeholder", "PlaceholderV2", device=None, heavy=False, host=("output",))
def placeholder(*, node: Node) -> Value:
    """Fail: a placeholder that a step reaches must be fed."""
    shape = node.attrs.get("shape")
    dtype: DType = node.attrs["dtype"]
    known = "" if shape is None or shape.dims is None else f" and shape {shape}"
    raise InvalidArgumentError(
        f"You must feed a value for placeholder tensor '{node.name}' with dtype {dtype.name}{known}"
    )


@kernel("PlaceholderWithDefault", device=None, heavy=False)
def placeholder_with_default(default: Value) -> Value:
    """The default, where nothing is fed."""
    return default


@kernel("FakeParam", heavy=False)
def fake_param(xp: Any, *, dtype: DType, shape: Any) -> Any:
    """A stand-in for an output of the branch not taken; never read. Unknown dimensions are 0."""
    dims = () if shape.dims is None else tuple(d or 0 for d in shape.dims)
    return blank(xp, dims, dtype.as_numpy_dtype)


def _fill_cost(dims: Value, value: Value) -> float:
    """As if every element had 8 bytes: asked before each call, so it looks at nothing else."""
    return elements_of(dims) * (8 / FILL_BYTES_PER_MICROSECOND)


#: From this many elements asking whether a value is zero costs less than what calloc saves.
_CALLOC_ELEMENTS = 4096


def _is_zero(value: Value) -> bool:
    """Whether a scalar has no bit set; one in a device's memory is not looked at."""
    return in_host_memory(value) and not any(value.tobytes())


@kernel("Fill", heavy=_fill_cost, fresh=True, host=("dims",))
def fill(xp: Any, dims: Array, value: Value) -> Any:
    """A tensor of shape `dims` (int32 or int64 vector) with the scalar `value` everywhere.

    Raises InvalidArgumentError where dims is no vector or is negative, or value is no scalar.
    """
    shape = dims.tolist() if dims.ndim == 1 else dimensions(dims, "dims")
    if shape and min(shape) < 0:
        shape = dimensions(dims, "dims")
    if shape_of(value):
        raise InvalidArgumentError(f"value must be a scalar, but has shape {brackets(value.shape)}")
    dtype = dtype_of(value)
    if not dtype.hasobject and math.prod(shape) >= _CALLOC_ELEMENTS and _is_zero(value):
        return xp.zeros(shape, dtype)
    return filled(xp, shape, value, dtype)


@kernel("Empty", heavy=False, fresh=True, host=("shape",))
def empty(xp: Any, shape: Array, *, dtype: DType, init: bool) -> Any:
    """Memory of this shape, always zeroed: it is lazily so, and keeps runs repeatable."""
    return blank(xp, dimensions(shape, "shape"), dtype.as_numpy_dtype)


@kernel("ZerosLike", fresh=True)
def zeros_like(xp: Any, x: Value) -> Value:
    """Zeros, false or empty strings in the shape of x; of a variant, what it says is its zero."""
    if not has_dtype(x):
        return b"" if isinstance(x, bytes) else x.zeros_like()
    if x.dtype.hasobject:
        return _object_zeros(xp, to_array(x))
    return xp.zeros(x.shape, x.dtype)


def _object_zeros(xp: Any, x: Array) -> Any:
    out = xp.empty(x.shape, object)
    for index, element in enumerate(x.flat):
        out.flat[index] = b"" if isinstance(element, bytes) else element.zeros_like()
    return out


@kernel("OnesLike", fresh=True)
def ones_like(xp: Any, x: Value) -> Any:
    """Ones in the shape and type of x."""
    return filled(xp, x.shape, 1, x.dtype)
