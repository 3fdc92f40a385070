"""Rows and strided slices that are written over."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Array, Value, in_host_memory, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.array.slicing import check_fits, check_vectors, refuse_spec, strided_spec
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.segment_sums import add_rows, subtract_rows
from flowengine.kernels.registry import kernel
from flowengine.kernels.state.variables import existing
from flowengine.resources.variable import Variable

# InplaceUpdate and its kin: rows of a tensor replaced, the tensor of the caller left alone.
#
# TensorFlow writes into its input, so its result depends on other uses of the input. Here the result is a
# copy.


def _checked(x: Value, i: Value, v: Value) -> tuple[Array, Array, Array]:
    """(a copy of x, row numbers wrapped into it, rows)."""
    array, rows, values = to_array(x), to_array(i), to_array(v)
    if rows.ndim == 0 and values.ndim == array.ndim - 1:
        rows, values = rows.reshape(1), values.reshape((1, *values.shape))
    if rows.ndim != 1:
        raise InvalidArgumentError(f"i must be a vector, but has shape {brackets(rows.shape)}")
    if not array.ndim or values.shape != (rows.size, *array.shape[1:]):
        raise InvalidArgumentError(
            f"v must have shape {brackets((rows.size, *array.shape[1:]))} for x of shape "
            f"{brackets(array.shape)} and {rows.size} rows, but has {brackets(values.shape)}"
        )
    if not len(array):
        rows, values = rows[:0], values[:0]
    return array.copy(order="C"), rows % max(1, len(array)), values


@kernel("InplaceUpdate", device=None, fresh=True)
def inplace_update(x: Value, i: Value, v: Value) -> Array:
    """x with row i[n] replaced by v[n], for each n in order; row numbers wrap around.

    Of an x without rows nothing is replaced.
    """
    out, rows, values = _checked(x, i, v)
    out[rows] = values
    return out


@kernel("InplaceAdd", fresh=True)
def inplace_add(xp: Any, x: Value, i: Value, v: Value) -> Any:
    """x with v[n] added to row i[n], for each n; row numbers wrap around."""
    out, rows, values = _checked(x, i, v)
    if in_host_memory(out):
        xp.add.at(out, rows, values)
    else:
        add_rows(xp, out, rows, values)
    return out


@kernel("InplaceSub", fresh=True)
def inplace_sub(xp: Any, x: Value, i: Value, v: Value) -> Any:
    """x with v[n] subtracted from row i[n], for each n; row numbers wrap around."""
    out, rows, values = _checked(x, i, v)
    subtract_rows(xp, out, rows, values)
    return out


# Assignment to a strided slice of a variable, in place.


def _assign(
    variable: Variable,
    begin: Array,
    end: Array,
    strides: Array,
    value: Any,
    masks: tuple[int, int, int, int, int],
) -> None:
    """variable[begin:end:strides] = value, which is broadcast to the slice's shape."""
    check_vectors(begin, end, strides)
    spec = strided_spec(begin.tobytes(), end.tobytes(), strides.tobytes(), begin.size, *masks)
    target = variable.mutable()
    value = to_array(value)
    try:
        # The trailing ellipsis makes the result a view also where all axes are indexed by a number.
        part = target[(*spec, ...)] if ... not in spec else target[spec]
    except IndexError:
        refuse_spec(spec, target.shape)
        raise
    if part.shape != value.shape:
        check_fits(value.shape, part.shape)
    target[spec] = value[()] if value.ndim == 0 and in_host_memory(value) else value


@kernel("ResourceStridedSliceAssign", host=("begin", "end", "strides"))
def resource_strided_slice_assign(
    xp: Any,
    ref: Any,
    begin: Array,
    end: Array,
    strides: Array,
    value: Any,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> None:
    """Set the slice that `StridedSlice` with the same arguments reads."""
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    _assign(existing(ref), begin, end, strides, value, masks)


@kernel("StridedSliceAssign", host=("begin", "end", "strides"))
def strided_slice_assign(
    xp: Any,
    ref: Variable,
    begin: Array,
    end: Array,
    strides: Array,
    value: Any,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Variable:
    """Set the slice that `StridedSlice` with the same arguments reads; returns the reference."""
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    _assign(ref, begin, end, strides, value, masks)
    return ref
