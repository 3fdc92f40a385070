"""The shape of a tensor as a value, and the same elements under another shape.

These run by the thousand in gradient graphs, so each is one cached look-up or one view.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import (
    FILL_BYTES_PER_MICROSECOND,
    as_array,
    brackets,
    dimensions,
    dtype_of,
    integer,
    integers,
    outputs,
    shape_of,
)
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.common.host_vectors import fixed_vector, numbers_in, vector
from flowengine.kernels.registry import kernel

# Few shapes occur in a graph, so their tensors are shared; they are read-only. Making one costs 0.4 us,
# finding it 0.06.


@lru_cache(maxsize=4096)
def _vector32(dims: tuple[int, ...]) -> Array:
    if dims and max(dims) > 0x7FFFFFFF:
        raise InvalidArgumentError(f"shape {brackets(dims)} does not fit int32; ask for out_type int64")
    return fixed_vector(dims, np.int32)


@lru_cache(maxsize=4096)
def _vector64(dims: tuple[int, ...]) -> Array:
    return fixed_vector(dims, np.int64)


@lru_cache(maxsize=4096)
def _scalar32(number: int) -> np.int32:
    if number > 0x7FFFFFFF:
        raise InvalidArgumentError(f"{number} elements do not fit int32; ask for out_type int64")
    return np.int32(number)


@kernel("Shape", device=None, types={"out_type": ["int32"]}, heavy=False, host=("output",))
def shape_int32(x: Value) -> Array:
    """The dimensions of x as an int32 vector."""
    try:
        return _vector32(x.shape)
    except AttributeError:
        return _vector32(())


@kernel("Shape", device=None, types={"out_type": ["int64"]}, heavy=False, host=("output",))
def shape_int64(x: Value) -> Array:
    """The dimensions of x as an int64 vector."""
    return _vector64(shape_of(x))


@kernel("ShapeN", device=None, types={"out_type": ["int32"]}, heavy=False, host=("output",))
def shape_n_int32(values: tuple[Value, ...]) -> Value:
    """The dimensions of each input as an int32 vector."""
    return outputs([_vector32(shape_of(v)) for v in values])


@kernel("ShapeN", device=None, types={"out_type": ["int64"]}, heavy=False, host=("output",))
def shape_n_int64(values: tuple[Value, ...]) -> Value:
    """The dimensions of each input as an int64 vector."""
    return outputs([_vector64(shape_of(v)) for v in values])


@kernel("Size", device=None, types={"out_type": ["int32"]}, heavy=False, host=("output",))
def size_int32(x: Value) -> np.int32:
    """The number of elements as an int32 scalar."""
    return _scalar32(getattr(x, "size", 1))


@kernel("Size", device=None, types={"out_type": ["int64"]}, heavy=False, host=("output",))
def size_int64(x: Value) -> np.int64:
    """The number of elements as an int64 scalar."""
    return np.int64(getattr(x, "size", 1))


@kernel("Rank", device=None, heavy=False, host=("output",))
def rank(x: Value) -> np.int32:
    """The number of dimensions as an int32 scalar."""
    return _scalar32(len(shape_of(x)))


@kernel("Reshape", device=None, heavy=False, host=("shape",))
def reshape(tensor: Value, shape: Array) -> Array:
    """The same elements in the given shape, one of whose dimensions may be -1: a view where it can be.

    Raises InvalidArgumentError where the numbers of elements differ, for a second -1 or another negative
    number.
    """
    dims = shape.tolist() if shape.ndim == 1 else integers(shape, "shape")
    try:
        if min(dims) >= -1:
            view: Array = tensor.reshape(dims)
            return view
    except (ValueError, TypeError, AttributeError):
        # An empty shape, a rank-0 string, or one of the errors below.
        pass
    return _reshape(as_array(tensor), integers(shape, "shape"))


def _reshape(tensor: Array, dims: list[int]) -> Array:
    unknown = [i for i, d in enumerate(dims) if d == -1]
    if len(unknown) > 1:
        raise InvalidArgumentError(
            f"Only one input size may be -1, not both {unknown[0]} and {unknown[1]}: {brackets(dims)}"
        )
    for i, d in enumerate(dims):
        if d < -1:
            raise InvalidArgumentError(f"Size {i} must be non-negative, not {d}")
    if unknown:
        # Sizes of 0 stand for dimensions of 0 and say nothing about the missing one: [0,6] becomes
        # [0,2,3] for [0,-1,3].
        no_zero = 0 not in dims
        known = math.prod(d for d in dims if d > 0)
        size = math.prod(d for d in tensor.shape if d or no_zero)
        if size % known:
            raise InvalidArgumentError(
                f"Input to reshape is a tensor with {tensor.size} values, but the requested shape "
                f"{brackets(dims)} requires a multiple of {known}"
            )
        dims = [size // known if d == -1 else d for d in dims]
    if math.prod(dims) != tensor.size:
        raise InvalidArgumentError(
            f"Input to reshape is a tensor with {tensor.size} values and shape {brackets(tensor.shape)}, "
            f"but the requested shape {brackets(dims)} has {math.prod(dims)}"
        )
    return tensor.reshape(dims)


@kernel("QuantizedReshape", device=None, heavy=False, host=("shape",))
def quantized_reshape(tensor: Value, shape: Array, low: Value, high: Value) -> tuple[Value, Value, Value]:
    """Reshape, with the range of the quantised values passed on."""
    return reshape(tensor, shape), low, high


@kernel("ExpandDims", device=None, heavy=False, host=("dim",))
def expand_dims(x: Value, dim: Value) -> Array:
    """x with an axis of size 1 inserted at `dim`, in [-1 - rank, rank]."""
    axis = int(dim) if dim.ndim == 0 else integer(dim, "dim")
    shape = shape_of(x)
    if axis < 0:
        axis += len(shape) + 1
    if not 0 <= axis <= len(shape):
        raise InvalidArgumentError(
            f"Tried to expand dim index {integer(dim, 'dim')} for tensor with {len(shape)} dimensions"
        )
    view: Array = as_array(x).reshape((*shape[:axis], 1, *shape[axis:]))
    return view


@lru_cache(maxsize=1024)
def _squeezed(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without the axes, each of which must be there and of size 1."""
    rank = len(shape)
    for axis in axes:
        if not -rank <= axis < rank:
            raise InvalidArgumentError(f"Tried to squeeze dim index {axis} for tensor with {rank} dimensions")
        if shape[axis] != 1:
            raise InvalidArgumentError(
                f"Can not squeeze dim[{axis % rank}], expected a dimension of 1, got {shape[axis]}"
            )
    drop = {axis % rank for axis in axes}
    return tuple(d for i, d in enumerate(shape) if i not in drop)


@kernel("Squeeze", device=None, heavy=False)
def squeeze(x: Value, *, squeeze_dims: tuple[int, ...]) -> Array:
    """x without its axes of size 1, or without the named ones, each of which must be of size 1."""
    array = as_array(x)
    if not squeeze_dims:
        return array.squeeze()
    return array.reshape(_squeezed(array.shape, squeeze_dims))


def _tile_cost(x: Value, multiples: Array) -> float:
    return float(elements_of(multiples) * x.nbytes) / FILL_BYTES_PER_MICROSECOND


@lru_cache(maxsize=1024)
def _tiling(
    multiples: bytes, count: int, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(shape of the result; the same with each repeated axis split in two; the input's shape for that).

    The split result, (m0, d0, m1, d1, ...), is filled by broadcasting in one pass. An axis that is not
    repeated needs no pair.
    """
    if count != len(shape):
        raise InvalidArgumentError(
            f"Expected multiples argument to be a vector of length {len(shape)} but got length {count}"
        )
    times = numbers_in(multiples, count)
    wide: list[int] = []
    narrow: list[int] = []
    for i, (repeat, d) in enumerate(zip(times, shape, strict=True)):
        if repeat < 0:
            raise InvalidArgumentError(f"Expected multiples[{i}] >= 0, but got {repeat}")
        if repeat != 1:
            wide.append(repeat)
            narrow.append(1)
        wide.append(d)
        narrow.append(d)
    return tuple(r * d for r, d in zip(times, shape, strict=True)), tuple(wide), tuple(narrow)


@kernel("Tile", heavy=_tile_cost, host=("multiples",))
def tile(xp: Any, x: Value, multiples: Array) -> Any:
    """x repeated `multiples[i]` times along axis i.

    Raises InvalidArgumentError where there is not one multiple a dimension or one is negative.
    """
    if multiples.ndim != 1:
        integers(multiples, "multiples")
    array = as_array(x)
    result, wide, narrow = _tiling(multiples.tobytes(), multiples.size, array.shape)
    if len(wide) == len(result):
        return array
    out = xp.empty(result, array.dtype)
    out.reshape(wide)[...] = array.reshape(narrow)
    return out


@kernel("TileGrad", host=("multiples",))
def tile_grad(xp: Any, x: Value, multiples: Array) -> Any:
    """The sum of the tiles that Tile made: its gradient."""
    array = as_array(x)
    times = integers(multiples, "multiples")
    if len(times) != array.ndim:
        raise InvalidArgumentError(
            f"Expected multiples argument to be a vector of length {array.ndim} but got length {len(times)}"
        )
    for i, (count, d) in enumerate(zip(times, array.shape, strict=True)):
        if count <= 0 or d % count:
            raise InvalidArgumentError(
                f"Expected multiples[{i}] to divide the dimension {d}, but got {count}"
            )
    wide = [n for count, d in zip(times, array.shape, strict=True) for n in (count, d // count)]
    total: Array = xp.add.reduce(array.reshape(wide), axis=tuple(range(0, len(wide), 2)), dtype=array.dtype)
    return total


def _broadcast_cost(x: Value, shape: Array) -> float:
    return float(elements_of(shape) * dtype_of(x).itemsize) / FILL_BYTES_PER_MICROSECOND


@kernel("BroadcastTo", heavy=_broadcast_cost, host=("shape",))
def broadcast_to(xp: Any, x: Value, shape: Array) -> Any:
    """x copied along new leading axes and axes of size 1 until it has the given shape.

    A copy, not a view of stride 0, which would be read-only and slow for what consumes it.
    """
    array = as_array(x)
    dims = dimensions(shape, "shape")
    if array.shape == tuple(dims):
        return array
    if array.ndim > len(dims):
        raise InvalidArgumentError(
            f"Rank of input ({array.ndim}) must be no greater than rank of output shape ({len(dims)})"
        )
    out = xp.empty(dims, array.dtype)
    try:
        out[...] = array
    except ValueError:
        raise InvalidArgumentError(
            f"Incompatible shapes: {brackets(array.shape)} cannot be broadcast to {brackets(dims)}"
        ) from None
    return out


@kernel("BroadcastArgs", device=None, heavy=False, host=("s0", "s1", "r0"))
def broadcast_args(s0: Array, s1: Array) -> Array:
    """The shape that operands of these two shapes broadcast to."""
    a, b = integers(s0, "s0"), integers(s1, "s1")
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    out = list(longer)
    for i, d in enumerate(shorter, len(longer) - len(shorter)):
        if out[i] == 1:
            out[i] = d
        elif d not in (1, out[i]):
            raise InvalidArgumentError(f"Incompatible shapes: {brackets(a)} vs. {brackets(b)}")
    return vector(out, s0.dtype)
