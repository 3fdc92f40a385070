"""Moving elements about: concatenation, padding, tiling, transposition."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, Dimension, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    add_dims,
    axis_of,
    axis_value,
    dims_of,
    divide_dim,
    merge,
    merge_dims,
    multiply_dims,
    ranked,
    ranked_at_least,
    ranked_at_most,
    replace_dim,
    scalar_value,
)


def transpose(c: ShapeContext) -> Sequence[TensorShape]:
    """x, perm -> x with axis i of the result being axis perm[i] of x"""
    shape, length = c.input(0), ranked(c, 1, 1)[0]
    perm = c.input_value(1)
    rank = shape.rank if shape.rank is not None else length
    if rank is None:
        return [UNKNOWN_SHAPE]
    merge_dims(rank, length, "The rank and the length of perm")
    if perm is None:
        return [shape if rank <= 1 else unknown_of_rank(rank)]
    axes = [axis_of(axis, rank, "perm dim") for axis in to_array(perm)]
    if len(set(axes)) != rank:
        raise InvalidArgumentError(f"perm is no permutation of {rank} axes: {axes}")
    dims = dims_of(shape, rank)
    return [TensorShape([dims[axis] for axis in axes])]


define(
    "Transpose",
    inputs=["x: T", "perm: Tperm"],
    outputs=["y: T"],
    attrs=["T: type", "Tperm: {int32, int64} = int32"],
    shape=transpose,
)


def concat_first(c: ShapeContext) -> Sequence[TensorShape]:
    return [_concatenated(c, 0, range(1, c.num_inputs))]


def _concatenated(c: ShapeContext, axis_index: int, values: Sequence[int]) -> TensorShape:
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


define(
    "Concat",
    inputs=["concat_dim: int32", "values: N * T"],
    outputs=["output: T"],
    attrs=["N: int >= 2", "T: type"],
    shape=concat_first,
)


def concat_last(c: ShapeContext) -> Sequence[TensorShape]:
    return [_concatenated(c, c.num_inputs - 1, range(c.num_inputs - 1))]


define(
    "ConcatV2",
    inputs=["values: N * T", "axis: Tidx"],
    outputs=["output: T"],
    attrs=["N: int >= 2", "T: type", "Tidx: {int32, int64} = int32"],
    shape=concat_last,
)


def concat_offset(c: ShapeContext) -> Sequence[TensorShape]:
    return [ranked(c, i, 1) for i in range(1, c.num_inputs)]


define(
    "ConcatOffset",
    inputs=["concat_dim: int32", "shape: N * int32"],
    outputs=["offset: N * int32"],
    attrs=["N: int >= 2"],
    shape=concat_offset,
)


def parallel_concat(c: ShapeContext) -> Sequence[TensorShape]:
    return [c.attrs["shape"]]


define(
    "ParallelConcat",
    inputs=["values: N * T"],
    outputs=["output: T"],
    attrs=["N: int >= 1", "T: type", "shape: shape"],
    shape=parallel_concat,
)


def pack(c: ShapeContext) -> Sequence[TensorShape]:
    """N tensors of one shape -> that shape with an axis of N"""
    shape = merge(c, range(c.num_inputs))
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    axis = axis_of(c.attrs["axis"], len(shape.dims) + 1)
    return [TensorShape((*shape.dims[:axis], c.num_inputs, *shape.dims[axis:]))]


define(
    "Pack",
    inputs=["values: N * T"],
    outputs=["output: T"],
    attrs=["N: int >= 1", "T: type", "axis: int = 0"],
    shape=pack,
)


def unpack(c: ShapeContext) -> Sequence[TensorShape]:
    shape = c.input(0)
    if shape.dims is None:
        return [UNKNOWN_SHAPE] * c.num_outputs
    axis = axis_of(c.attrs["axis"], len(shape.dims))
    merge_dims(shape.dims[axis], c.attrs["num"], "The size of the axis and num")
    return [TensorShape(shape.dims[:axis] + shape.dims[axis + 1 :])] * c.num_outputs


define(
    "Unpack",
    inputs=["value: T"],
    outputs=["output: num * T"],
    attrs=["num: int >= 0", "T: type", "axis: int = 0"],
    shape=unpack,
)


def split(c: ShapeContext) -> Sequence[TensorShape]:
    """Equal parts along one axis."""
    axis = axis_value(c, 0)
    shape = ranked_at_least(c, 1, 1)
    count: int = c.attrs["num_split"]
    if axis is None or shape.dims is None:
        unknown = UNKNOWN_SHAPE if shape.dims is None else unknown_of_rank(len(shape.dims))
        return [unknown if count > 1 else shape] * count
    where = axis_of(axis, len(shape.dims), "split_dim")
    size = divide_dim(shape.dims[where], count, "The size of the axis that is split")
    return [replace_dim(shape, where, size)] * count


define(
    "Split",
    inputs=["split_dim: int32", "value: T"],
    outputs=["output: num_split * T"],
    attrs=["num_split: int >= 1", "T: type"],
    shape=split,
)


def split_sizes(c: ShapeContext) -> Sequence[TensorShape]:
    """Parts of given sizes along one axis; -1 takes what is left."""
    shape = ranked_at_least(c, 0, 1)
    ranked(c, 1, 1)
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


define(
    "SplitV",
    inputs=["value: T", "size_splits: Tlen", "split_dim: int32"],
    outputs=["output: num_split * T"],
    attrs=["num_split: int >= 1", "T: type", "Tlen: {int32, int64} = int64"],
    shape=split_sizes,
)


def tile(c: ShapeContext) -> Sequence[TensorShape]:
    shape, length = c.input(0), ranked(c, 1, 1)[0]
    multiples = c.input_as_shape(1)
    rank = shape.rank if shape.rank is not None else length
    if rank is None:
        return [UNKNOWN_SHAPE]
    merge_dims(rank, length, "The rank and the length of multiples")
    pairs = zip(dims_of(shape, rank), dims_of(multiples, rank), strict=True)
    return [TensorShape([multiply_dims(d, m) for d, m in pairs])]


define(
    "Tile",
    inputs=["input: T", "multiples: Tmultiples"],
    outputs=["output: T"],
    attrs=["T: type", "Tmultiples: {int32, int64} = int32"],
    shape=tile,
)
define("TileGrad", inputs=["input: T", "multiples: int32"], outputs=["output: T"], attrs=["T: type"])


def broadcast_to(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 1, 1)
    shape, target = c.input(0), c.input_as_shape(1)
    if shape.dims is not None and target.dims is not None:
        if len(shape.dims) > len(target.dims):
            raise InvalidArgumentError(f"shape {shape} has more dimensions than the target {target}")
        for own, wanted in zip(reversed(shape.dims), reversed(target.dims), strict=False):
            if own not in (None, 1) and wanted is not None and own != wanted:
                raise InvalidArgumentError(f"Incompatible shapes: {shape} vs. {target}")
    return [target]


define(
    "BroadcastTo",
    inputs=["input: T", "shape: Tidx"],
    outputs=["output: T"],
    attrs=["T: type", "Tidx: {int32, int64} = int32"],
    shape=broadcast_to,
)


def pad(c: ShapeContext) -> Sequence[TensorShape]:
    """Every axis grows by the two numbers of its row in paddings."""
    return [_padded(c, 1)]


def _padded(c: ShapeContext, sign: int) -> TensorShape:
    rows, two = dims_of(ranked(c, 1, 2), 2)
    merge_dims(two, 2, "The columns of paddings and 2")
    shape = c.input(0)
    rank = shape.rank if shape.rank is not None else rows
    if rank is None:
        return UNKNOWN_SHAPE
    merge_dims(rank, rows, "The rank and the rows of paddings")
    paddings = c.input_value(1)
    if paddings is None:
        return unknown_of_rank(rank)
    amounts = to_array(paddings).reshape(rank, 2)
    if (amounts < 0).any():
        raise InvalidArgumentError(f"Paddings must be non-negative: {amounts.tolist()}")
    pairs = zip(dims_of(shape, rank), amounts.tolist(), strict=True)
    return TensorShape([None if d is None else d + sign * (before + after) for d, (before, after) in pairs])


define(
    "Pad",
    inputs=["input: T", "paddings: Tpaddings"],
    outputs=["output: T"],
    attrs=["T: type", "Tpaddings: {int32, int64} = int32"],
    shape=pad,
)
define(
    "PadV2",
    inputs=["input: T", "paddings: Tpaddings", "constant_values: T"],
    outputs=["output: T"],
    attrs=["T: type", "Tpaddings: {int32, int64} = int32"],
    shape=pad,
)
define(
    "MirrorPad",
    inputs=["input: T", "paddings: Tpaddings"],
    outputs=["output: T"],
    attrs=["T: type", "Tpaddings: {int32, int64} = int32", "mode: {'REFLECT', 'SYMMETRIC'}"],
    shape=pad,
)


def mirror_pad_grad(c: ShapeContext) -> Sequence[TensorShape]:
    return [_padded(c, -1)]


define(
    "MirrorPadGrad",
    inputs=["input: T", "paddings: Tpaddings"],
    outputs=["output: T"],
    attrs=["T: type", "Tpaddings: {int32, int64} = int32", "mode: {'REFLECT', 'SYMMETRIC'}"],
    shape=mirror_pad_grad,
)


def reverse_flags(c: ShapeContext) -> Sequence[TensorShape]:
    """One flag for every axis."""
    shape, flags = c.input(0), ranked(c, 1, 1)
    rank = merge_dims(shape.rank, flags[0], "The rank and the number of flags")
    return [shape if shape.dims is not None or rank is None else unknown_of_rank(rank)]


define(
    "Reverse",
    inputs=["tensor: T", "dims: bool"],
    outputs=["output: T"],
    attrs=[
        (
            "T: {uint8, int8, uint16, int16, int32, int64, bool, half, float, double, complex64, "
            "complex128, string}"
        )
    ],
    shape=reverse_flags,
)


def reverse(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 1, 1)
    return [c.input(0)]


define(
    "ReverseV2",
    inputs=["tensor: T", "axis: Tidx"],
    outputs=["output: T"],
    attrs=[
        "Tidx: {int32, int64} = int32",
        (
            "T: {uint8, int8, uint16, int16, int32, int64, bool, bfloat16, half, float, double, "
            "complex64, complex128, string}"
        ),
    ],
    shape=reverse,
)


def roll(c: ShapeContext) -> Sequence[TensorShape]:
    ranked_at_most(c, 1, 1)
    ranked_at_most(c, 2, 1)
    return [ranked_at_least(c, 0, 1)]


define(
    "Roll",
    inputs=["input: T", "shift: Tshift", "axis: Taxis"],
    outputs=["output: T"],
    attrs=["T: type", "Tshift: {int32, int64}", "Taxis: {int32, int64}"],
    shape=roll,
)
