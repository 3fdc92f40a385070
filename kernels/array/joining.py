"""Tensors put together and taken apart along an axis: concat, pack, split, unpack."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value, in_host_memory, is_tensor, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import (
    as_array,
    brackets,
    element,
    integer,
    integers,
    outputs,
    resolve_axis,
    scalar,
    shape_of,
)
from flowengine.kernels.common.host_vectors import one_number
from flowengine.kernels.registry import kernel


@kernel("ConcatV2", host=("axis",))
def concat_v2(xp: Any, values: tuple[Array, ...], axis: Value) -> Any:
    """The inputs one after another along an axis; their other dimensions must agree."""
    try:
        return xp.concatenate(values, int(axis))
    except (ValueError, TypeError, IndexError):
        check_concat(values, axis)
        raise


@kernel("Concat", host=("concat_dim",))
def concat(xp: Any, concat_dim: Value, values: tuple[Array, ...]) -> Any:
    """ConcatV2 with the axis first."""
    return concat_v2(xp, values, concat_dim)


def check_concat(values: Sequence[Value], axis: Value) -> None:
    """Raise the InvalidArgumentError that explains why these cannot be joined."""
    number = integer(axis, "axis")
    shapes = [shape_of(v) for v in values]
    rank = len(shapes[0])
    if not -rank <= number < rank:
        raise InvalidArgumentError(
            f"Expected concatenating dimension in the range [{-rank}, {rank}), but got {number}"
        )
    number %= rank
    for i, shape in enumerate(shapes):
        if len(shape) != rank:
            raise InvalidArgumentError(
                f"Ranks of all input tensors should match: shape[0] = {brackets(shapes[0])} "
                f"vs. shape[{i}] = {brackets(shape)}"
            )
        for j in range(rank):
            if j != number and shape[j] != shapes[0][j]:
                raise InvalidArgumentError(
                    f"Dimensions of inputs should match along axis {j}: shape[0] = {brackets(shapes[0])} "
                    f"vs. shape[{i}] = {brackets(shape)}"
                )


@kernel("ParallelConcat")
def parallel_concat(xp: Any, values: tuple[Array, ...]) -> Any:
    """Inputs whose first dimension is 1, one after another along it."""
    for i, value in enumerate(values):
        if not value.ndim or value.shape[0] != 1:
            raise InvalidArgumentError(
                f"values[{i}] must have a first dimension of 1, but has shape {brackets(value.shape)}"
            )
    return concat_v2(xp, values, np.int32(0))


@kernel("ConcatOffset", device=None, heavy=False, host=("concat_dim", "shape", "offset"))
def concat_offset(concat_dim: Value, shapes: tuple[Array, ...]) -> Value:
    """Return each tensor's offset in the concatenation of these shapes, in the shapes' type."""
    dims = [integers(s, f"shape[{i}]") for i, s in enumerate(shapes)]
    rank = len(dims[0])
    axis = resolve_axis(scalar(concat_dim, "concat_dim"), rank, "concat_dim")
    offset = 0
    result: list[Array] = []
    for i, each in enumerate(dims):
        if len(each) != rank:
            raise InvalidArgumentError(f"input {i} should contain {rank} elements, but got {len(each)}")
        for j in range(rank):
            if j != axis and each[j] != dims[0][j]:
                raise InvalidArgumentError(
                    f"All dimensions except {axis} must match: input {i} is {brackets(each)}, "
                    f"input 0 is {brackets(dims[0])}"
                )
        result.append(one_number(rank, axis, offset, to_array(shapes[i]).dtype))
        offset += each[axis]
    return outputs(result)


#: From here on the result is made to own its memory, so that handing it out needs no copy.
_OWN_BYTES: Final = 65536


@kernel("Pack")
def pack(xp: Any, values: tuple[Value, ...], *, axis: int) -> Any:
    """Inputs of one shape stacked along a new axis."""
    first = values[0]
    shape = shape_of(first)
    if not shape:
        return _pack_scalars(xp, values, axis)
    for value in values:
        if shape_of(value) != shape:
            _refuse_pack(values)
    rank = len(shape)
    if not -rank - 1 <= axis <= rank:
        raise InvalidArgumentError(f"axis = {axis} is not in [{-rank - 1}, {rank + 1})")
    if axis < 0:
        axis += rank + 1
    # Stacking before axis a is joining along a, read under another shape; numpy.stack takes twice as long.
    joined: Array
    if axis == rank:
        joined = xp.concatenate([v.reshape((*shape, 1)) for v in values], axis)
        return joined
    count = len(values)
    if first.nbytes * count >= _OWN_BYTES:
        out: Array = xp.empty((*shape[:axis], count, *shape[axis:]), first.dtype)
        xp.concatenate(
            values, axis, out=out.reshape((*shape[:axis], count * shape[axis], *shape[axis + 1 :]))
        )
        return out
    joined = xp.concatenate(values, axis)
    return joined.reshape((*shape[:axis], count, *shape[axis:]))


def _pack_scalars(xp: Any, values: Sequence[Value], axis: int) -> Any:
    if axis not in (0, -1):
        raise InvalidArgumentError(f"axis = {axis} is not in [-1, 1)")
    first = values[0]
    if is_tensor(first) and not first.dtype.hasobject:
        try:
            return xp.array(values) if in_host_memory(first) else xp.stack(values)
        except ValueError:
            _refuse_pack(values)
    if any(shape_of(v) for v in values):
        _refuse_pack(values)
    out = xp.empty(len(values), object)
    for i, value in enumerate(values):
        out[i] = element(value)
    return out


def _refuse_pack(values: Sequence[Value]) -> None:
    shapes = [shape_of(v) for v in values]
    other = next(i for i, s in enumerate(shapes) if s != shapes[0])
    raise InvalidArgumentError(
        f"Shapes of all inputs must match: values[0].shape = {brackets(shapes[0])} "
        f"!= values[{other}].shape = {brackets(shapes[other])}"
    )


@kernel("Unpack", heavy=False)
def unpack(xp: Any, value: Value, *, num: int, axis: int) -> Value:
    """The `num` slices along an axis, as views; the dimension must be `num`."""
    array = to_array(value)
    rank = array.ndim
    if not -rank <= axis < rank:
        raise InvalidArgumentError(f"axis = {axis} is not in [{-rank}, {rank})")
    if array.shape[axis] != num:
        raise InvalidArgumentError(
            f"Input shape axis {axis % rank} must equal {num}, got shape {brackets(array.shape)}"
        )
    if axis % rank:
        array = array.swapaxes(0, axis) if rank == 2 else xp.moveaxis(array, axis, 0)
    return outputs(tuple(array))


@lru_cache(maxsize=1024)
def _even_parts(shape: tuple[int, ...], axis: int, count: int) -> tuple[tuple[slice, ...], ...]:
    """The index of each of `count` equal parts along an axis."""
    rank = len(shape)
    if not -rank <= axis < rank:
        raise InvalidArgumentError(f"split_dim = {axis} is not in [{-rank}, {rank})")
    axis %= rank
    size = shape[axis]
    if size % count:
        raise InvalidArgumentError(
            "Number of ways to split should evenly divide the split dimension, but got split_dim "
            f"{axis} (size = {size}) and num_split {count}"
        )
    return _part_indices(axis, [size // count] * count)


@kernel("Split", device=None, heavy=False, host=("split_dim",))
def split(split_dim: Value, value: Array, *, num_split: int) -> Value:
    """`num_split` equal parts along an axis, as views."""
    value = as_array(value)
    axis = integer(split_dim, "split_dim") if split_dim.ndim else int(split_dim)
    parts = _even_parts(value.shape, axis, num_split)
    return tuple([value[part] for part in parts]) if num_split > 1 else value[parts[0]]


@kernel("SplitV", device=None, heavy=False, host=("size_splits", "split_dim"))
def split_v(value: Array, size_splits: Array, split_dim: Value, *, num_split: int) -> Value:
    """Parts of the given sizes along an axis, as views; one size may be -1: what remains."""
    array = as_array(value)
    rank = array.ndim
    axis = integer(split_dim, "split_dim")
    if not -rank <= axis < rank:
        raise InvalidArgumentError(f"split_dim = {axis} is not in [{-rank}, {rank})")
    axis %= rank
    sizes = integers(size_splits, "size_splits")
    if len(sizes) != num_split:
        raise InvalidArgumentError(
            f"size_splits must have num_split = {num_split} elements, but has {len(sizes)}"
        )
    total = array.shape[axis]
    unknown = [i for i, s in enumerate(sizes) if s == -1]
    if len(unknown) > 1:
        raise InvalidArgumentError(f"There can only be one -1 in size_splits: {brackets(sizes)}")
    known = sum(s for s in sizes if s != -1)
    if known > total or (not unknown and known != total) or any(s < -1 for s in sizes):
        raise InvalidArgumentError(
            f"Sizes {brackets(sizes)} do not add up to the size {total} of split_dim {axis}"
        )
    if unknown:
        sizes[unknown[0]] = total - known
    return outputs([array[part] for part in _part_indices(axis, sizes)])


def _part_indices(axis: int, sizes: Sequence[int]) -> tuple[tuple[slice, ...], ...]:
    """The index of each of consecutive parts of these sizes along an axis."""
    before = (slice(None),) * axis
    parts = []
    start = 0
    for size in sizes:
        parts.append((*before, slice(start, start + size)))
        start += size
    return tuple(parts)
