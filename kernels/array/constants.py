"""Constants, placeholders, repeated values, and values at given places of a background."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

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
    scalar,
    shape_of,
)
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.common.indices import in_range
from flowengine.kernels.registry import kernel

# Values that come from no input: constants, placeholders, and tensors of one repeated value.


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


# OneHot and SparseToDense: a constant background with values at given places.


def _one_hot_cost(indices: Value, depth: Value, on: Value, off: Value) -> float:
    return float(indices.size * max(0, int(depth)) * dtype_of(off).itemsize) / FILL_BYTES_PER_MICROSECOND


@kernel("OneHot", heavy=_one_hot_cost, fresh=True, host=("depth",))
def one_hot(xp: Any, indices: Value, depth: Value, on_value: Value, off_value: Value, *, axis: int) -> Any:
    """`on_value` where the new axis equals the index, `off_value` elsewhere.

    indices   (A..., B...) uint8, int32 or int64; one outside [0, depth) gives a row of off values
    returns   (A..., depth, B...) with depth at `axis` (-1: last)
    """
    array = to_array(indices)
    rank = array.ndim
    if not (axis == -1 or 0 <= axis <= rank):
        raise InvalidArgumentError(f"Expected axis to be -1 or between [0, {rank + 1}), but received: {axis}")
    count = scalar(depth, "depth")
    if count < 0:
        raise InvalidArgumentError(f"depth must be non-negative, got: {count}")
    for name, value in (("on_value", on_value), ("off_value", off_value)):
        if shape_of(value):
            raise InvalidArgumentError(f"{name} must be a scalar, but has shape {brackets(value.shape)}")
    if axis == -1:
        axis = rank
    before, after = array.shape[:axis], array.shape[axis:]
    shape = (*before, count, *after)
    out = filled(xp, shape, off_value, dtype_of(off_value))
    if not out.size:
        return out
    outer, inner = math.prod(before), math.prod(after)
    numbers = array.reshape(-1).astype(np.int64)
    # Element (o, i) of the indices lights element (o, index, i) of the output.
    place = numbers * inner
    if inner == 1:
        place += xp.arange(outer, dtype=np.int64) * count
    else:
        place += (
            xp.arange(outer, dtype=np.int64)[:, None] * (count * inner) + xp.arange(inner, dtype=np.int64)
        ).reshape(-1)
    flat = out.reshape(-1)
    if in_host_memory(array):
        if not in_range(numbers, count):
            place = place[(numbers >= 0) & (numbers < count)]
        flat[place] = on_value
        return out
    inside = (numbers >= 0) & (numbers < count)
    # What is outside lights a place that is cut off.
    wide = xp.concatenate([flat, flat[:1]])
    wide[xp.where(inside, place, flat.size)] = on_value
    return wide[:-1].reshape(shape)


@kernel("SparseToDense", fresh=True, host=("output_shape",))
def sparse_to_dense(
    xp: Any,
    sparse_indices: Value,
    output_shape: Array,
    sparse_values: Value,
    default_value: Value,
    *,
    validate_indices: bool,
) -> Any:
    """A dense tensor of `default_value` with the values at the indices.

    sparse_indices   (), (N,) or (N, D) int32 or int64; lexicographic order without repetition is checked
                     where `validate_indices`
    output_shape     (D,)
    sparse_values    () or (N,)
    Raises InvalidArgumentError naming the index that is outside, out of order or repeated.
    """
    indices, values = to_array(sparse_indices), to_array(sparse_values)
    if indices.ndim > 2:
        raise InvalidArgumentError(
            f"sparse_indices should be a scalar, vector, or matrix, got shape {brackets(indices.shape)}"
        )
    dims = dimensions(output_shape, "output_shape")
    matrix = indices.reshape((-1, 1)) if indices.ndim < 2 else indices
    count, depth = matrix.shape
    if depth != len(dims):
        raise InvalidArgumentError(
            f"output_shape has incorrect number of elements: {len(dims)} should be: {depth}"
        )
    if values.ndim > 1 or (values.ndim == 1 and len(values) != count):
        raise InvalidArgumentError(
            f"sparse_values has incorrect shape {brackets(values.shape)}, should be [] or [{count}]"
        )
    if shape_of(default_value):
        raise InvalidArgumentError(
            f"default_value must be a scalar, but has shape {brackets(default_value.shape)}"
        )
    out = filled(xp, dims, default_value, values.dtype)
    if not count:
        return out
    if in_host_memory(matrix):
        if not all(in_range(matrix[:, axis], size) for axis, size in enumerate(dims)):
            raise _out_of_bounds(matrix, _outside(xp, matrix, dims), dims)
    else:
        outside = _outside(xp, matrix, dims)
        refuse(outside.any(), lambda: _out_of_bounds(matrix, outside, dims))
    flat = matrix[:, 0].astype(np.int64) if depth else xp.zeros(count, np.int64)
    for axis in range(1, depth):
        flat *= dims[axis]
        flat += matrix[:, axis]
    if validate_indices and count > 1:
        steps = flat[1:] - flat[:-1]
        refuse(steps.min() <= 0, lambda: _out_of_order(matrix, steps))
    out.reshape(-1)[flat] = values
    return out


def _outside(xp: Any, matrix: Array, dims: list[int]) -> Any:
    """(N,) bool: which rows are no places in a tensor of these dimensions"""
    return ((matrix < 0) | (matrix >= xp.asarray(dims))).any(axis=1)


def _out_of_bounds(matrix: Array, outside: Array, dims: list[int]) -> InvalidArgumentError:
    wrong = int(outside.argmax())
    return InvalidArgumentError(
        f"indices[{wrong}] = {brackets(matrix[wrong].tolist())} is out of bounds: "
        f"need 0 <= index < {brackets(dims)}"
    )


def _out_of_order(matrix: Array, steps: Array) -> InvalidArgumentError:
    wrong = int((steps <= 0).argmax()) + 1
    fault = "repeated" if steps[wrong - 1] == 0 else "out of order"
    return InvalidArgumentError(f"indices[{wrong}] = {brackets(matrix[wrong].tolist())} is {fault}")
