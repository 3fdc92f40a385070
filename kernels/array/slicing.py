"""Slice, StridedSlice and its gradient.

The vectors that describe a slice are nearly always the same from step to step, so what they say is kept
under their bytes; what remains is one NumPy indexing of views.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import EllipsisType
from typing import Any, TypeAlias

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import (
    as_array,
    blank,
    brackets,
    dimensions,
    dtype_of,
    element,
    shape_of,
)
from flowengine.kernels.common.host_vectors import numbers_in
from flowengine.kernels.registry import kernel

Spec: TypeAlias = tuple[int | slice | EllipsisType | None, ...]


@lru_cache(maxsize=8192)
def _slice_spec(begin: bytes, size: bytes, count: int, shape: tuple[int, ...]) -> tuple[slice, ...]:
    if len(begin) != len(size) or count != len(shape):
        raise InvalidArgumentError(
            f"Expected begin and size arguments to be vectors of size {len(shape)} (the rank of the "
            f"input), but begin has {count} elements and {len(begin)} bytes, size {len(size)} bytes"
        )
    spec = []
    for i, (start, length, dim) in enumerate(
        zip(numbers_in(begin, count), numbers_in(size, count), shape, strict=True)
    ):
        if not 0 <= start <= dim:
            raise InvalidArgumentError(f"Expected begin[{i}] in [0, {dim}], but got {start}")
        if length == -1:
            length = dim - start
        if not 0 <= length <= dim - start:
            raise InvalidArgumentError(f"Expected size[{i}] in [0, {dim - start}], but got {length}")
        spec.append(slice(start, start + length))
    return tuple(spec)


@kernel("Slice", device=None, heavy=False, host=("begin", "size"))
def slice_(x: Value, begin: Array, size: Array) -> Array:
    """The part of x that starts at `begin` and has shape `size` (-1: to the end), as a view."""
    if begin.ndim != 1 or size.ndim != 1:
        raise InvalidArgumentError(
            f"Expected begin and size to be vectors, but got shapes {brackets(begin.shape)} "
            f"and {brackets(size.shape)}"
        )
    array = as_array(x)
    return array[_slice_spec(begin.tobytes(), size.tobytes(), begin.size, array.shape)]


@lru_cache(maxsize=4096)
def strided_spec(
    begin: bytes,
    end: bytes,
    strides: bytes,
    count: int,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Spec:
    """Convert the vectors and masks to a NumPy index.

    Clamping and negative indices agree with Python's slices, for strides of both signs. On one position
    an ellipsis wins over a new axis, a new axis over a shrunk one; a shrunk axis ignores the other masks.
    """
    if not len(begin) == len(end) == len(strides):
        raise InvalidArgumentError("Expected begin, end and strides to be vectors of equal size")
    if ellipsis_mask & (ellipsis_mask - 1):
        raise InvalidArgumentError("Multiple ellipses in slice spec not allowed")
    spec: list[int | slice | EllipsisType | None] = []
    starts, stops, steps = numbers_in(begin, count), numbers_in(end, count), numbers_in(strides, count)
    for i in range(count):
        bit = 1 << i
        if ellipsis_mask & bit:
            spec.append(Ellipsis)
        elif new_axis_mask & bit:
            spec.append(None)
        elif steps[i] == 0:
            raise InvalidArgumentError(f"strides[{i}] must be non-zero")
        elif shrink_axis_mask & bit:
            if steps[i] < 0:
                raise InvalidArgumentError(
                    f"only stride 1 allowed on non-range indexing, but strides[{i}] is {steps[i]}"
                )
            spec.append(starts[i])
        else:
            start = None if begin_mask & bit else starts[i]
            stop = None if end_mask & bit else stops[i]
            spec.append(slice(start, stop, steps[i]))
    return tuple(spec)


@kernel("StridedSlice", device=None, heavy=False, host=("begin", "end", "strides"))
def strided_slice(
    x: Value,
    begin: Array,
    end: Array,
    strides: Array,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Value:
    """Python's extended slicing: bit i of a mask speaks of position i of begin, end and strides. A view.

    Raises InvalidArgumentError for an index outside of its dimension, more positions than dimensions,
    a stride of 0, or vectors of different lengths.
    """
    spec = strided_spec(
        begin.tobytes(),
        end.tobytes(),
        strides.tobytes(),
        begin.size,
        begin_mask,
        end_mask,
        ellipsis_mask,
        new_axis_mask,
        shrink_axis_mask,
    )
    try:
        return x[spec]
    except IndexError:
        refuse_spec(spec, x.shape)
        raise
    except TypeError:
        # bytes, a handle or a variant: rank 0.
        return to_array(x)[spec]


def refuse_spec(spec: Spec, shape: tuple[int, ...]) -> None:
    """Raise the InvalidArgumentError that explains why the index does not fit the shape."""
    used = [s for s in spec if s is not None and s is not Ellipsis]
    if len(used) > len(shape):
        raise InvalidArgumentError(
            f"Index out of range using input dim {len(shape)}; input has only {len(shape)} dims"
        )
    axis = 0
    for s in spec:
        if s is Ellipsis:
            axis += len(shape) - len(used)
        elif s is not None:
            if isinstance(s, int) and not -shape[axis] <= s < shape[axis]:
                raise InvalidArgumentError(
                    f"slice index {s} of dimension {axis} out of bounds: its size is {shape[axis]}"
                )
            axis += 1


def check_vectors(*given: Array) -> None:
    """InvalidArgumentError where begin, end or strides is no vector."""
    if any(each.ndim != 1 for each in given):
        shapes = ", ".join(brackets(each.shape) for each in given)
        raise InvalidArgumentError(f"begin, end and strides must be vectors, but have shapes {shapes}")


def check_fits(dims: Sequence[int], region: Sequence[int]) -> None:
    """InvalidArgumentError where a value does not broadcast to a slice; dimensions of 1 may lead it."""
    extra = max(0, len(dims) - len(region))
    pairs = zip(dims[::-1], region[::-1], strict=False)
    if any(d != 1 for d in dims[:extra]) or any(d not in (1, size) for d, size in pairs):
        raise InvalidArgumentError(
            f"a value of shape {brackets(dims)} cannot be broadcast to a slice of shape {brackets(region)}"
        )


@kernel("StridedSliceGrad", fresh=True, host=("shape", "begin", "end", "strides"))
def strided_slice_grad(
    xp: Any,
    shape: Array,
    begin: Array,
    end: Array,
    strides: Array,
    dy: Value,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Any:
    """Zeros of the given shape with dy where the slice would read."""
    check_vectors(begin, end, strides)
    spec = strided_spec(
        begin.tobytes(),
        end.tobytes(),
        strides.tobytes(),
        begin.size,
        begin_mask,
        end_mask,
        ellipsis_mask,
        new_axis_mask,
        shrink_axis_mask,
    )
    out = blank(xp, dimensions(shape, "shape"), dtype_of(dy))
    try:
        region = shape_of(out[spec])
    except IndexError:
        refuse_spec(spec, out.shape)
        raise
    if region != shape_of(dy):
        raise InvalidArgumentError(
            f"shape of dy was {brackets(shape_of(dy))} instead of {brackets(region)}, the shape of the slice"
        )
    out[spec] = element(dy)
    return out


@kernel("TensorStridedSliceUpdate", device=None, fresh=True, host=("begin", "end", "strides"))
def tensor_strided_slice_update(
    x: Value,
    begin: Array,
    end: Array,
    strides: Array,
    value: Value,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Array:
    """A copy of x with the slice replaced by a value, which is broadcast to its shape."""
    check_vectors(begin, end, strides)
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    spec = strided_spec(begin.tobytes(), end.tobytes(), strides.tobytes(), begin.size, *masks)
    out = to_array(x).copy(order="C")
    try:
        region = shape_of(out[spec])
    except IndexError:
        refuse_spec(spec, out.shape)
        raise
    check_fits(shape_of(value), region)
    out[spec] = element(value)
    return out
