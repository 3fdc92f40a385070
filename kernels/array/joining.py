"""Tensors put together and taken apart along an axis: concat, pack, split, unpack."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.buffers import empty
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import (
    as_array,
    brackets,
    integer,
    integers,
    outputs,
    resolve_axis,
    scalar,
    shape_of,
)
from flowengine.kernels.common.parallel import cores, slices, spread
from flowengine.kernels.registry import kernel

#: Elements of the first input from which the others are looked at.
_LOOKED_AT: Final = 1 << 14


@kernel("ConcatV2", host=("axis",))
def concat_v2(xp: Any, values: tuple[Array, ...], axis: Value) -> Array:
    """The inputs one after another along an axis; their other dimensions must agree."""
    joined: Array | None
    try:
        if xp is np and type(values[0]) is np.ndarray and values[0].size >= _LOOKED_AT:
            joined = _joined_in_parts(values, int(axis))
            if joined is not None:
                return joined
        joined = xp.concatenate(values, int(axis))
        return joined
    except (ValueError, TypeError, IndexError):
        _check_concat(values, axis)
        raise


#: Elements from which a result is put together by every core, some rows at a time.
_LARGE: Final = 1 << 18
#: Bytes of the rows that are put together before the next. What they are written to is in the second cache
#: then from the first table's columns to the last's: 12 MB take 1.0 ms instead of 1.4.
_BLOCK_BYTES: Final = 1 << 19
#: Into how many parts each core's share is divided, so that none waits long for another.
_PARTS_OF_CORE: Final = 2


def _joined_in_parts(values: tuple[Array, ...], axis: int) -> Array | None:
    """Large arrays joined along an axis that is not their first; None for others, and where shapes differ."""
    first = values[0]
    rank, dtype = first.ndim, first.dtype
    axis += rank if axis < 0 else 0
    size = 0
    for value in values:
        if value.ndim != rank or value.dtype != dtype:
            return None
        size += value.size
    if size < _LARGE or not 0 < axis < rank or dtype.hasobject:
        return None
    lead, rest = first.shape[:axis], first.shape[axis + 1 :]
    if any(v.shape[:axis] != lead or v.shape[axis + 1 :] != rest for v in values):
        return None
    if not all(type(v) is np.ndarray and v.flags.c_contiguous for v in values):
        return None
    rows = math.prod(lead)
    shape = (*lead, sum(v.shape[axis] for v in values), *rest)
    result = empty(shape, dtype)
    join_rows([v.reshape(rows, -1) for v in values], result.reshape(rows, -1))
    return result


def join_rows(tables: Sequence[Array], out: Array) -> None:
    """The rows of C-contiguous tables (R, C_i) one after another, in `out` (R, sum of C_i); by every core."""
    rows = len(out)
    block = max(1, _BLOCK_BYTES // max(1, out.shape[1] * out.itemsize))
    count = cores() if out.size >= _LARGE else 1
    if count == 1:
        _join_blocks(tables, out, block)
        return
    parts = slices(rows, max(block, -(-rows // (_PARTS_OF_CORE * count))))

    def join(number: int) -> None:
        part = parts[number]
        _join_blocks([taken[part] for taken in tables], out[part], block)

    spread(join, len(parts))


def _join_blocks(tables: Sequence[Array], out: Array, block: int) -> None:
    if len(out) <= block:
        np.concatenate(tables, 1, out=out)
        return
    for part in slices(len(out), block):
        np.concatenate([taken[part] for taken in tables], 1, out=out[part])


@kernel("Concat", host=("concat_dim",))
def concat(xp: Any, concat_dim: Value, values: tuple[Array, ...]) -> Array:
    """ConcatV2 with the axis first."""
    return concat_v2(xp, values, concat_dim)


def _check_concat(values: Sequence[Value], axis: Value) -> None:
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
def parallel_concat(xp: Any, values: tuple[Array, ...]) -> Array:
    """Inputs whose first dimension is 1, one after another along it."""
    for i, value in enumerate(values):
        if not value.ndim or value.shape[0] != 1:
            raise InvalidArgumentError(
                f"values[{i}] must have a first dimension of 1, but has shape {brackets(value.shape)}"
            )
    return concat_v2(xp, values, np.int32(0))


@kernel("ConcatOffset", heavy=False, host=("concat_dim", "shape", "offset"))
def concat_offset(concat_dim: Value, shapes: tuple[Array, ...]) -> Value:
    """Where each of the tensors with these shapes begins in their concatenation, as int32 vectors."""
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
        out = np.zeros(rank, np.int32)
        out[axis] = offset
        offset += each[axis]
        result.append(out)
    return outputs(result)


#: From here on the result is made to own its memory, so that handing it out needs no copy.
_OWN_BYTES: Final = 65536


@kernel("Pack")
def pack(xp: Any, values: tuple[Value, ...], *, axis: int) -> Array:
    """Inputs of one shape stacked along a new axis."""
    first = values[0]
    shape = shape_of(first)
    if not shape:
        return _pack_scalars(values, axis)
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


def _pack_scalars(values: Sequence[Value], axis: int) -> Array:
    if axis not in (0, -1):
        raise InvalidArgumentError(f"axis = {axis} is not in [-1, 1)")
    first = values[0]
    if isinstance(first, np.ndarray | np.generic) and not first.dtype.hasobject:
        try:
            return np.array(values)
        except ValueError:
            _refuse_pack(values)
    if any(shape_of(v) for v in values):
        _refuse_pack(values)
    out = np.empty(len(values), object)
    for i, value in enumerate(values):
        out[i] = value[()] if isinstance(value, np.ndarray) else value
    return out


def _refuse_pack(values: Sequence[Value]) -> None:
    shapes = [shape_of(v) for v in values]
    other = next(i for i, s in enumerate(shapes) if s != shapes[0])
    raise InvalidArgumentError(
        f"Shapes of all inputs must match: values[0].shape = {brackets(shapes[0])} "
        f"!= values[{other}].shape = {brackets(shapes[other])}"
    )


@kernel("Unpack", heavy=False)
def unpack(value: Value, *, num: int, axis: int) -> Value:
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
        array = array.swapaxes(0, axis) if rank == 2 else np.moveaxis(array, axis, 0)
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


@kernel("Split", heavy=False, host=("split_dim",))
def split(split_dim: Value, value: Array, *, num_split: int) -> Value:
    """`num_split` equal parts along an axis, as views."""
    if type(value) is not np.ndarray:
        value = as_array(value)
    axis = integer(split_dim, "split_dim") if split_dim.ndim else int(split_dim)
    parts = _even_parts(value.shape, axis, num_split)
    return tuple([value[part] for part in parts]) if num_split > 1 else value[parts[0]]


@kernel("SplitV", heavy=False, host=("size_splits", "split_dim"))
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
