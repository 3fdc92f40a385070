"""Tensors put together and taken apart along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, Dimension, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NetworkLayer, Newer, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    add_dims,
    attr_shape,
    axis_of,
    axis_value,
    check_scalars,
    divide_dim,
    merge,
    merge_dims,
    ranked,
    ranked_at_least,
    replace_dim,
    scalar_value,
)


@define("Concat(concat_dim: int32, values: N * T) -> output: T", "N: int >= 2; T: type")
def concat_first(c: ShapeContext) -> Shapes:
    return [concatenated(c, 0, range(1, c.num_inputs))]


def concatenated(c: ShapeContext, axis_index: int, values: Sequence[int]) -> TensorShape:
    """Equal in all but one axis, along which the sizes add up."""
    axis = scalar_value(c, axis_index)
    shapes = [c.input(i) for i in values]
    rank = next((s.rank for s in shapes if s.rank is not None), None)
    if rank is None:
        return UNKNOWN_SHAPE
    if axis is None:
        # All inputs have one rank; where it is 1 nothing but the length is open.
        for index, shape in zip(values, shapes, strict=True):
            if shape.rank not in (None, rank):
                ranked(c, index, rank)
        return unknown_of_rank(rank)
    if rank == 0:
        raise InvalidArgumentError("Can't concatenate scalars (use Pack instead)")
    where = axis_of(axis, rank, "concat dimension")
    total: Dimension = 0
    others = UNKNOWN_SHAPE
    for index in values:
        shape = ranked(c, index, rank)
        total = add_dims(total, shape[where])
        rest = replace_dim(shape, where, None)
        if not others.is_compatible_with(rest):
            raise InvalidArgumentError(
                f"Dimensions of inputs should match in all but axis {where}: {[str(s) for s in shapes]}"
            )
        others = others.merge_with(rest)
    return replace_dim(others, where, total)


@define(
    "ConcatV2(values: N * T, axis: Tidx) -> output: T",
    "N: int >= 2; T: type; Tidx: indextype = int32",
    NetworkLayer(),
)
def concat_last(c: ShapeContext) -> Shapes:
    return [concatenated(c, c.num_inputs - 1, range(c.num_inputs - 1))]


@define(
    "ConcatOffset(concat_dim: int32, shape: N * shape_type) -> offset: N * shape_type",
    "N: int >= 2; shape_type: indextype = int32",
    Newer(("shape_type",)),
    NotDifferentiable(),
)
def concat_offset(c: ShapeContext) -> Shapes:
    return [ranked(c, i, 1) for i in range(1, c.num_inputs)]


define("ParallelConcat(values: N * T) -> output: T", "N: int >= 1; T: type; shape: shape", shape=attr_shape)


@define("Pack(values: N * T) -> output: T", "N: int >= 1; T: type; axis: int = 0")
def pack(c: ShapeContext) -> Shapes:
    """N tensors of one shape -> that shape with an axis of N"""
    shape = merge(c, range(c.num_inputs))
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    axis = axis_of(c.attrs["axis"], len(shape.dims) + 1)
    return [TensorShape((*shape.dims[:axis], c.num_inputs, *shape.dims[axis:]))]


@define("Unpack(value: T) -> output: num * T", "num: int >= 0; T: type; axis: int = 0")
def unpack(c: ShapeContext) -> Shapes:
    shape = c.input(0)
    if shape.dims is None:
        return [UNKNOWN_SHAPE] * c.num_outputs
    axis = axis_of(c.attrs["axis"], len(shape.dims))
    merge_dims(shape.dims[axis], c.attrs["num"], "The size of the axis and num")
    return [TensorShape(shape.dims[:axis] + shape.dims[axis + 1 :])] * c.num_outputs


@define("Split(split_dim: int32, value: T) -> output: num_split * T", "num_split: int >= 1; T: type")
def split(c: ShapeContext) -> Shapes:
    """Equal parts along one axis."""
    check_scalars(c, 0)
    axis = axis_value(c, 0)
    shape = ranked_at_least(c, 1, 1)
    count: int = c.attrs["num_split"]
    if axis is None or shape.dims is None:
        unknown = UNKNOWN_SHAPE if shape.dims is None else unknown_of_rank(len(shape.dims))
        return [unknown if count > 1 else shape] * count
    where = axis_of(axis, len(shape.dims), "split_dim")
    size = divide_dim(shape.dims[where], count, "The size of the axis that is split")
    return [replace_dim(shape, where, size)] * count


@define(
    "SplitV(value: T, size_splits: Tlen, split_dim: int32) -> output: num_split * T",
    "num_split: int >= 1; T: type; Tlen: {int8, int32, int64} = int64",
)
def split_sizes(c: ShapeContext) -> Shapes:
    """Parts of given sizes along one axis; -1 takes what is left."""
    shape = ranked_at_least(c, 0, 1)
    ranked(c, 1, 1)
    check_scalars(c, 2)
    sizes = c.input_value(1)
    axis = axis_value(c, 2)
    count = c.num_outputs
    if shape.dims is None:
        return [UNKNOWN_SHAPE] * count
    rank = len(shape.dims)
    if axis is None:
        return [unknown_of_rank(rank)] * count
    where = axis_of(axis, rank, "split_dim")
    if sizes is None:
        return [shape if count == 1 else replace_dim(shape, where, None)] * count
    parts: list[Dimension] = [int(size) for size in to_array(sizes)]
    if len(parts) != count:
        raise InvalidArgumentError(f"size_splits has {len(parts)} elements for {count} outputs")
    whole = shape.dims[where]
    known = sum(part for part in parts if part is not None and part >= 0)
    if -1 in parts:
        if whole is not None and known > whole:
            raise InvalidArgumentError(f"size_splits {parts} are more than the {whole} that there are")
        parts = [part if part != -1 else None if whole is None else whole - known for part in parts]
    elif whole is not None and known != whole:
        raise InvalidArgumentError(f"size_splits {parts} do not add up to {whole}")
    return [replace_dim(shape, where, part) for part in parts]
