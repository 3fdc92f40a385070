"""Assignment to a strided slice of a variable, in place."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Array, in_host_memory, to_array
from flowengine.kernels.array.slicing import check_fits, check_vectors, refuse_spec, strided_spec
from flowengine.kernels.registry import kernel
from flowengine.kernels.state.resource_variables import existing
from flowengine.resources.variable import Variable


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
