"""Padding at the edges, and blocks of space moved to the batch or the depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, Dimension, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, divide_dim, merge_dims, multiply_dims, pairs_value, ranked

# Tensors made larger at their edges.


@define("Pad(input: T, paddings: Tpaddings) -> output: T", "T: type; Tpaddings: indextype = int32")
@define(
    "PadV2(input: T, paddings: Tpaddings, constant_values: T) -> output: T",
    "T: type; Tpaddings: indextype = int32",
)
@define(
    "MirrorPad(input: T, paddings: Tpaddings) -> output: T",
    "T: type; Tpaddings: indextype = int32; mode: {'REFLECT', 'SYMMETRIC'}",
)
def pad(c: ShapeContext) -> Shapes:
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


@define(
    "MirrorPadGrad(input: T, paddings: Tpaddings) -> output: T",
    "T: type; Tpaddings: indextype = int32; mode: {'REFLECT', 'SYMMETRIC'}",
)
def mirror_pad_grad(c: ShapeContext) -> Shapes:
    return [_padded(c, -1)]


# Blocks of space moved to the batch or the depth, and back.


@define(
    "SpaceToDepth(input: T) -> output: T",
    "T: type; block_size: int >= 2; data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
)
def space_to_depth(c: ShapeContext) -> Shapes:
    """(N, H, W, C) -> (N, H / b, W / b, C * b * b)"""
    block: int = c.attrs["block_size"]
    n, h, w, depth, vect = _image_dims(c)
    h, w = divide_dim(h, block, "The height"), divide_dim(w, block, "The width")
    return [_image_shape(c, n, h, w, multiply_dims(depth, block * block), vect)]


def _image_dims(c: ShapeContext) -> tuple[Dimension, Dimension, Dimension, Dimension, Dimension]:
    """Batch, height, width, channels and, in the vectorised layout, channels a vector."""
    data_format = c.attrs["data_format"]
    if data_format == b"NCHW_VECT_C":
        n, depth, h, w, vect = dims_of(ranked(c, 0, 5), 5)
        return n, h, w, depth, vect
    dims = dims_of(ranked(c, 0, 4), 4)
    if data_format == b"NCHW":
        return dims[0], dims[2], dims[3], dims[1], None
    return dims[0], dims[1], dims[2], dims[3], None


def _image_shape(
    c: ShapeContext, n: Dimension, h: Dimension, w: Dimension, depth: Dimension, vect: Dimension
) -> TensorShape:
    data_format = c.attrs["data_format"]
    if data_format == b"NCHW_VECT_C":
        return TensorShape([n, depth, h, w, vect])
    return TensorShape([n, depth, h, w] if data_format == b"NCHW" else [n, h, w, depth])


@define(
    "DepthToSpace(input: T) -> output: T",
    "T: type; block_size: int >= 2; data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
)
def depth_to_space(c: ShapeContext) -> Shapes:
    """(N, H, W, C) -> (N, H * b, W * b, C / (b * b))"""
    block: int = c.attrs["block_size"]
    n, h, w, depth, vect = _image_dims(c)
    depth = divide_dim(depth, block * block, "The depth")
    return [_image_shape(c, n, multiply_dims(h, block), multiply_dims(w, block), depth, vect)]


@define(
    "SpaceToBatch(input: T, paddings: Tpaddings) -> output: T",
    "T: type; Tpaddings: indextype = int32; block_size: int >= 2",
)
def space_to_batch(c: ShapeContext) -> Shapes:
    block: int = c.attrs["block_size"]
    return [_to_batch(ranked(c, 0, 4), [block, block], pairs_value(c, 1, 2), 2)]


def _to_batch(
    shape: TensorShape, blocks: Sequence[int], paddings: Sequence[tuple[int, int]] | None, count: int
) -> TensorShape:
    """(N, s..., rest) -> (N * blocks, (s + padding) / block ..., rest)"""
    if shape.dims is None:
        return UNKNOWN_SHAPE
    if len(shape.dims) < count + 1:
        raise InvalidArgumentError(f"shape {shape} has fewer than {count + 1} dimensions")
    dims: list[Dimension] = [multiply_dims(shape.dims[0], math.prod(blocks))]
    for axis in range(count):
        d = shape.dims[axis + 1]
        if paddings is None or d is None:
            dims.append(None)
            continue
        before, after = paddings[axis]
        if before < 0 or after < 0:
            raise InvalidArgumentError(f"paddings cannot be negative: {list(paddings)}")
        dims.append(divide_dim(d + before + after, blocks[axis], "A padded dimension"))
    return TensorShape([*dims, *shape.dims[count + 1 :]])


@define(
    "SpaceToBatchND(input: T, block_shape: Tblock_shape, paddings: Tpaddings) -> output: T",
    "T: type; Tblock_shape, Tpaddings: indextype = int32",
)
def space_to_batch_nd(c: ShapeContext) -> Shapes:
    ranked(c, 1, 1)
    blocks = c.input_value(1)
    shape = c.input(0)
    if blocks is None:
        return [UNKNOWN_SHAPE if shape.dims is None else _open_blocks(c, shape)]
    sizes = _block_sizes(blocks)
    return [_to_batch(shape, sizes, pairs_value(c, 2, len(sizes)), len(sizes))]


def _block_sizes(blocks: Any) -> list[int]:
    sizes = [int(b) for b in to_array(blocks).reshape(-1)]
    if any(size < 1 for size in sizes):
        raise InvalidArgumentError(f"block_shape must be positive, but is {sizes}")
    return sizes


def _open_blocks(c: ShapeContext, shape: TensorShape) -> TensorShape:
    """Unknown block sizes leave only the dimensions behind them as they are."""
    assert shape.dims is not None
    count = ranked(c, 1, 1)[0]
    if count is None:
        return unknown_of_rank(len(shape.dims))
    if len(shape.dims) < count + 1:
        raise InvalidArgumentError(f"shape {shape} has fewer than {count + 1} dimensions")
    return TensorShape([*[None] * (count + 1), *shape.dims[count + 1 :]])


@define(
    "BatchToSpace(input: T, crops: Tidx) -> output: T",
    "T: type; block_size: int >= 2; Tidx: indextype = int32",
)
def batch_to_space(c: ShapeContext) -> Shapes:
    block: int = c.attrs["block_size"]
    return [_to_space(ranked(c, 0, 4), [block, block], pairs_value(c, 1, 2), 2)]


def _to_space(
    shape: TensorShape, blocks: Sequence[int], crops: Sequence[tuple[int, int]] | None, count: int
) -> TensorShape:
    """(N, s..., rest) -> (N / blocks, s * block - crops ..., rest)"""
    if shape.dims is None:
        return UNKNOWN_SHAPE
    if len(shape.dims) < count + 1:
        raise InvalidArgumentError(f"shape {shape} has fewer than {count + 1} dimensions")
    dims: list[Dimension] = [divide_dim(shape.dims[0], math.prod(blocks), "The batch")]
    for axis in range(count):
        d = shape.dims[axis + 1]
        if crops is None or d is None:
            dims.append(None)
            continue
        before, after = crops[axis]
        size = d * blocks[axis] - before - after
        if before < 0 or after < 0 or size < 0:
            raise InvalidArgumentError(f"crops {list(crops)} do not fit shape {shape}")
        dims.append(size)
    return TensorShape([*dims, *shape.dims[count + 1 :]])


@define(
    "BatchToSpaceND(input: T, block_shape: Tblock_shape, crops: Tcrops) -> output: T",
    "T: type; Tblock_shape, Tcrops: indextype = int32",
)
def batch_to_space_nd(c: ShapeContext) -> Shapes:
    ranked(c, 1, 1)
    blocks = c.input_value(1)
    shape = c.input(0)
    if blocks is None:
        return [UNKNOWN_SHAPE if shape.dims is None else _open_blocks(c, shape)]
    sizes = _block_sizes(blocks)
    return [_to_space(shape, sizes, pairs_value(c, 2, len(sizes)), len(sizes))]
