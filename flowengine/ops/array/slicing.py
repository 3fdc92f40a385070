"""Slices, and the gradient of a strided one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, Dimension, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, merge_dims, ranked, unchanged

#: How the numbers of a strided slice are read, a bit for each.
MASKS: Final = "begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask: int = 0"


@define("Slice(input: T, begin, size: Index) -> output: T", "T: type; Index: indextype")
def slice_of(c: ShapeContext) -> Shapes:
    """input, begin, size -> size, where -1 means all that follows begin"""
    shape = c.input(0)
    length = merge_dims(ranked(c, 1, 1)[0], ranked(c, 2, 1)[0], "The lengths of begin and size")
    rank = shape.rank if shape.rank is not None else length
    if rank is None:
        return [UNKNOWN_SHAPE]
    merge_dims(rank, length, "The rank and the length of begin")
    begin, size = c.input_value(1), c.input_value(2)
    # A size that is not constant as a whole may be known in part; what is known of it is no -1.
    partial = dims_of(c.input_as_shape(2), rank)
    dims: list[Dimension] = []
    for axis, d in enumerate(dims_of(shape, rank)):
        start = None if begin is None else int(to_array(begin)[axis])
        if size is None:
            dims.append(partial[axis])
        else:
            dims.append(_sliced(axis, d, start, int(to_array(size)[axis])))
    return [TensorShape(dims)]


def _sliced(axis: int, d: Dimension, start: int | None, count: int) -> Dimension:
    if count == -1:
        rest = None if d is None or start is None else d - start
        if rest is not None and rest < 0:
            raise InvalidArgumentError(f"begin[{axis}] = {start} is beyond the dimension of {d}")
        return rest
    if count < 0 or (start is not None and (start < 0 or (d is not None and start + count > d))):
        raise InvalidArgumentError(
            f"begin[{axis}] = {start} and size[{axis}] = {count} do not lie within the dimension of {d}"
        )
    return count


@define(
    "StridedSlice(input: T, begin, end, strides: Index) -> output: T", "T: type; Index: shortindextype", MASKS
)
def strided_slice(c: ShapeContext) -> Shapes:
    """input[begin:end:strides] with the masks of Python's syntax"""
    return [_strided(c, c.input(0))]


def _strided(c: ShapeContext, shape: TensorShape) -> TensorShape:
    begin, end, strides = ([*_constant_or_open(c, i)] for i in (1, 2, 3))
    count = max(len(begin), len(end), len(strides))
    lengths = {ranked(c, i, 1)[0] for i in (1, 2, 3)} - {None}
    if len(lengths) > 1:
        raise InvalidArgumentError(
            f"begin, end and strides differ in length: {sorted(filter(None, lengths))}"
        )
    if shape.dims is None or not lengths:
        return UNKNOWN_SHAPE
    count = lengths.pop() or 0
    begin, end, strides = (part or [None] * count for part in (begin, end, strides))
    ellipsis, new, shrink = (c.attrs[f"{m}_mask"] for m in ("ellipsis", "new_axis", "shrink_axis"))
    taken = sum(
        1 for i in range(count) if not (new >> i & 1 and not ellipsis >> i & 1) and not ellipsis >> i & 1
    )
    rank = len(shape.dims)
    if taken > rank:
        raise InvalidArgumentError(f"Index out of range using input dim {rank}; input has only {rank} dims")
    dims: list[Dimension] = []
    axis = 0
    seen_ellipsis = False
    for i in range(count):
        bit = 1 << i
        if ellipsis & bit:
            if seen_ellipsis:
                raise InvalidArgumentError("Multiple ellipses in slice spec not allowed")
            seen_ellipsis = True
            rest = rank - taken
            dims.extend(shape.dims[axis : axis + rest])
            axis += rest
        elif new & bit:
            dims.append(1)
        elif shrink & bit:
            _check_index(begin[i], shape.dims[axis], axis)
            axis += 1
        else:
            dims.append(
                sliced_length(
                    shape.dims[axis],
                    begin[i],
                    end[i],
                    strides[i],
                    bool(c.attrs["begin_mask"] & bit),
                    bool(c.attrs["end_mask"] & bit),
                )
            )
            axis += 1
    return TensorShape([*dims, *shape.dims[axis:]])


def _constant_or_open(c: ShapeContext, index: int) -> Sequence[int | None]:
    value = c.input_value(index)
    return [] if value is None else [int(v) for v in to_array(value).reshape(-1)]


def _check_index(index: int | None, size: Dimension, axis: int) -> None:
    if index is not None and size is not None and not -size <= index < size:
        raise InvalidArgumentError(f"slice index {index} of dimension {axis} out of bounds.")


def sliced_length(
    size: Dimension,
    begin: int | None,
    end: int | None,
    stride: int | None,
    from_start: bool = False,
    to_end: bool = False,
) -> Dimension:
    """len(range(size)[begin:end:stride]); None where that is not known."""
    if stride == 0:
        raise InvalidArgumentError("strides[i] must be non-zero")
    if stride is None:
        return None
    if size is not None:
        if (begin is None and not from_start) or (end is None and not to_end):
            return None
        start = None if from_start else begin
        return len(range(size)[start : None if to_end else end : stride])
    return None


@define(
    "StridedSliceGrad(shape, begin, end, strides: Index, dy: T) -> output: T",
    "T: type; Index: indextype",
    MASKS,
)
def strided_slice_grad(c: ShapeContext) -> Shapes:
    ranked(c, 0, 1)
    return [c.input_as_shape(0)]


define(
    "TensorStridedSliceUpdate(input: T, begin, end, strides: Index, value: T) -> output: T",
    "T: type; Index: indextype",
    MASKS,
    shape=unchanged,
)
