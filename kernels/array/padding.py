"""Padding at the edges, and blocks of space moved to the batch or the depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flowengine.core.arrays import Array, Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import as_array, blank, brackets, filled, integers, shape_of
from flowengine.kernels.common.indices import along
from flowengine.kernels.registry import kernel

# Tensors made larger at their edges, by a constant or by their own mirror image.


def _pairs(paddings: Array, rank: int, shape: tuple[int, ...]) -> list[list[int]]:
    """[[before, after], ...], one pair a dimension, none negative."""
    if paddings.ndim != 2 or paddings.shape[1] != 2:
        raise InvalidArgumentError(
            f"paddings must be a matrix with 2 columns, but has shape {brackets(paddings.shape)}"
        )
    if paddings.shape[0] != rank:
        raise InvalidArgumentError(
            f"The first dimension of paddings {brackets(paddings.shape)} must be the rank of the input "
            f"{brackets(shape)}"
        )
    pairs: list[list[int]] = paddings.tolist()
    for before, after in pairs:
        if before < 0 or after < 0:
            raise InvalidArgumentError(f"Paddings must be non-negative: {before} {after}")
    return pairs


def _pad(xp: Any, array: Array, pairs: list[list[int]], value: Value | None) -> Any:
    shape = [b + d + a for d, (b, a) in zip(array.shape, pairs, strict=True)]
    out = blank(xp, shape, array.dtype) if value is None else filled(xp, shape, value, array.dtype)
    out[tuple(slice(b, b + d) for d, (b, _) in zip(array.shape, pairs, strict=True))] = array
    return out


@kernel("Pad", fresh=True, host=("paddings",))
def pad(xp: Any, x: Value, paddings: Array) -> Any:
    """x with paddings[i, 0] zeros before and paddings[i, 1] after it along axis i."""
    array = as_array(x)
    return _pad(xp, array, _pairs(paddings, array.ndim, array.shape), None)


@kernel("PadV2", fresh=True, host=("paddings",))
def pad_v2(xp: Any, x: Value, paddings: Array, constant_values: Value) -> Any:
    """Pad, with a scalar of the caller's instead of zero."""
    array = as_array(x)
    if shape_of(constant_values):
        raise InvalidArgumentError(
            f"constant_values must be a scalar, but has shape {brackets(constant_values.shape)}"
        )
    return _pad(xp, array, _pairs(paddings, array.ndim, array.shape), constant_values)


#: How many elements at the edge are left out of the mirror image.
_EDGE = {b"REFLECT": 1, b"SYMMETRIC": 0}


@kernel("MirrorPad", host=("paddings",))
def mirror_pad(xp: Any, x: Value, paddings: Array, *, mode: bytes) -> Any:
    """x with its own mirror image around it.

    REFLECT leaves the edge out of the image, so a padding must be less than its dimension; SYMMETRIC
    repeats it and a padding may be as large as the dimension. InvalidArgumentError beyond that.
    """
    array = as_array(x)
    edge = _EDGE[mode]
    for axis, (before, after) in enumerate(_pairs(paddings, array.ndim, array.shape)):
        size = array.shape[axis]
        if before > size - edge or after > size - edge:
            raise InvalidArgumentError(
                f"paddings must be {'less than' if edge else 'no greater than'} the dimension size: "
                f"{before}, {after} for dimension {axis} of size {size} ({mode.decode()})"
            )
        if before or after:
            index = xp.concatenate(
                [
                    xp.arange(before - 1 + edge, edge - 1, -1),
                    xp.arange(size),
                    xp.arange(size - 1 - edge, size - 1 - edge - after, -1),
                ]
            )
            array = along(xp, array, index, axis)
    return array


@kernel("MirrorPadGrad", host=("paddings",))
def mirror_pad_grad(xp: Any, x: Value, paddings: Array, *, mode: bytes) -> Any:
    """The gradient of MirrorPad: the image folded back and added onto what it was made of."""
    array = as_array(x)
    edge = _EDGE[mode]
    for axis, (before, after) in enumerate(_pairs(paddings, array.ndim, array.shape)):
        size = array.shape[axis] - before - after
        if before > size - edge or after > size - edge:
            raise InvalidArgumentError(
                f"paddings must be {'less than' if edge else 'no greater than'} the output dimension size: "
                f"{before}, {after} for dimension {axis} of size {size} ({mode.decode()})"
            )
        if not before and not after:
            continue
        lead = (slice(None),) * axis
        out = array[(*lead, slice(before, before + size))].copy()
        if before:
            image = array[(*lead, slice(before - 1, None, -1))]
            out[(*lead, slice(edge, edge + before))] += image
        if after:
            image = array[(*lead, slice(before + size, None))]
            target = out[(*lead, slice(size - edge - after, size - edge))]
            target += xp.flip(image, axis)
        array = out
    return array


# Blocks of space moved to the batch or the depth, and back: reshape, transpose, reshape.


def _amounts(value: Array, what: str, rows: int) -> list[list[int]]:
    """A (rows, 2) matrix of amounts that are not negative."""
    if value.shape != (rows, 2):
        raise InvalidArgumentError(f"{what} should have shape [{rows}, 2] instead of {brackets(value.shape)}")
    pairs: list[list[int]] = value.tolist()
    for before, after in pairs:
        if before < 0 or after < 0:
            raise InvalidArgumentError(f"{what} must be non-negative, but has {before}, {after}")
    return pairs


def _blocks(block_shape: Array, rank: int) -> list[int]:
    blocks = integers(block_shape, "block_shape")
    for i, block in enumerate(blocks):
        if block < 1:
            raise InvalidArgumentError(f"block_shape[{i}] = {block} must be positive")
    if rank < 1 + len(blocks):
        raise InvalidArgumentError(f"input rank should be >= {1 + len(blocks)} instead of {rank}")
    return blocks


def _space_to_batch(xp: Any, x: Array, blocks: Sequence[int], pads: Sequence[Sequence[int]]) -> Any:
    count = len(blocks)
    space = x.shape[1 : count + 1]
    padded = [b + d + a for d, (b, a) in zip(space, pads, strict=True)]
    for i, (size, block) in enumerate(zip(padded, blocks, strict=True)):
        if size % block:
            raise InvalidArgumentError(
                f"padded_shape[{i}] = {size} is not divisible by block_shape[{i}] = {block}"
            )
    batch, rest = x.shape[0], x.shape[count + 1 :]
    if padded != list(space):
        wide = blank(xp, (batch, *padded, *rest), x.dtype)
        wide[(slice(None), *(slice(b, b + d) for d, (b, _) in zip(space, pads, strict=True)))] = x
        x = wide
    smaller = [size // block for size, block in zip(padded, blocks, strict=True)]
    # (N, s1, b1, s2, b2, ..., R) -> (b1, b2, ..., N, s1, s2, ..., R)
    split = [n for pair in zip(smaller, blocks, strict=True) for n in pair]
    rank = 1 + 2 * count + len(rest)
    perm = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *range(1 + 2 * count, rank)]
    moved = x.reshape((batch, *split, *rest)).transpose(perm)
    out: Array = xp.ascontiguousarray(moved)
    return out.reshape((batch * math.prod(blocks), *smaller, *rest))


def _batch_to_space(x: Array, blocks: Sequence[int], crops: Sequence[Sequence[int]]) -> Array:
    count = len(blocks)
    factor = math.prod(blocks)
    if x.shape[0] % factor:
        raise InvalidArgumentError(
            f"Input batch dimension ({x.shape[0]}) is not divisible by product of block sizes ({factor})"
        )
    batch, space, rest = x.shape[0] // factor, x.shape[1 : count + 1], x.shape[count + 1 :]
    larger = [size * block for size, block in zip(space, blocks, strict=True)]
    for i, (size, (before, after)) in enumerate(zip(larger, crops, strict=True)):
        if before + after > size:
            raise InvalidArgumentError(f"cropped_shape[{i}] = {size - before - after} must be non-negative")
    # (b1, b2, ..., N, s1, s2, ..., R) -> (N, s1, b1, s2, b2, ..., R)
    middle = [axis for i in range(count) for axis in (count + 1 + i, i)]
    rank = 1 + 2 * count + len(rest)
    perm = [count, *middle, *range(2 * count + 1, rank)]
    moved = x.reshape((*blocks, batch, *space, *rest)).transpose(perm).reshape((batch, *larger, *rest))
    if not any(before or after for before, after in crops):
        return moved
    return moved[(slice(None), *(slice(b, size - a) for size, (b, a) in zip(larger, crops, strict=True)))]


@kernel("SpaceToBatchND", host=("block_shape", "paddings"))
def space_to_batch_nd(xp: Any, x: Array, block_shape: Array, paddings: Array) -> Any:
    """Blocks of the zero-padded space become batch entries.

    x             (N, D_1, ..., D_M, R...)
    block_shape   (M,) each B_i dividing its padded dimension
    paddings      (M, 2)
    returns       (N B_1 ... B_M, padded D_1 / B_1, ..., R...)
    """
    blocks = _blocks(block_shape, x.ndim)
    return _space_to_batch(xp, x, blocks, _amounts(paddings, "paddings", len(blocks)))


@kernel("BatchToSpaceND", device=None, host=("block_shape", "crops"))
def batch_to_space_nd(x: Array, block_shape: Array, crops: Array) -> Array:
    """The inverse of SpaceToBatchND, `crops` (M, 2) cut off at the edges."""
    blocks = _blocks(block_shape, x.ndim)
    return _batch_to_space(x, blocks, _amounts(crops, "crops", len(blocks)))


def _check_rank_4(x: Array) -> None:
    if x.ndim != 4:
        raise InvalidArgumentError(f"input rank should be: 4 instead of: {x.ndim}")


@kernel("SpaceToBatch", host=("paddings",))
def space_to_batch(xp: Any, x: Array, paddings: Array, *, block_size: int) -> Any:
    """SpaceToBatchND of (N, H, W, C) with square blocks."""
    _check_rank_4(x)
    return _space_to_batch(xp, x, [block_size] * 2, _amounts(paddings, "paddings", 2))


@kernel("BatchToSpace", device=None, host=("crops",))
def batch_to_space(x: Array, crops: Array, *, block_size: int) -> Array:
    """BatchToSpaceND of (N, H, W, C) with square blocks."""
    _check_rank_4(x)
    return _batch_to_space(x, [block_size] * 2, _amounts(crops, "crops", 2))


def _to_nhwc(x: Array, data_format: bytes) -> Array:
    """The array as (N, H, W, C) or, for NCHW_VECT_C, (N, H, W, C / 4, 4) views of it."""
    if data_format == b"NHWC":
        return x
    if data_format == b"NCHW":
        return x.transpose(0, 2, 3, 1)
    return x.transpose(0, 2, 3, 1, 4)


def _from_nhwc(xp: Any, x: Array, data_format: bytes) -> Any:
    if data_format == b"NHWC":
        return x
    return xp.ascontiguousarray(x.transpose(0, 3, 1, 2) if x.ndim == 4 else x.transpose(0, 3, 1, 2, 4))


def _check_layout(x: Array, data_format: bytes) -> None:
    rank = 5 if data_format == b"NCHW_VECT_C" else 4
    if x.ndim != rank:
        raise InvalidArgumentError(
            f"Input rank should be {rank} instead of {x.ndim} for {data_format.decode()}"
        )


@kernel("SpaceToDepth")
def space_to_depth(xp: Any, x: Array, *, block_size: int, data_format: bytes) -> Any:
    """(N, H, W, C) -> (N, H / b, W / b, C b b): each b by b block of space becomes depth."""
    _check_layout(x, data_format)
    view = _to_nhwc(x, data_format)
    vector = view.shape[4] if view.ndim == 5 else 1
    n, h, w, c = view.shape[:4]
    if h % block_size or w % block_size:
        raise InvalidArgumentError(
            f"Image width {w} and height {h} should be divisible by block_size: {block_size}"
        )
    flat = view.reshape((n, h, w, c * vector))
    rows, columns = h // block_size, w // block_size
    out = flat.reshape((n, rows, block_size, columns, block_size, c * vector)).transpose(0, 1, 3, 2, 4, 5)
    depth = c * block_size * block_size
    if view.ndim == 5:
        return _from_nhwc(xp, out.reshape((n, rows, columns, depth, vector)), data_format)
    return _from_nhwc(xp, out.reshape((n, rows, columns, depth)), data_format)


@kernel("DepthToSpace")
def depth_to_space(xp: Any, x: Array, *, block_size: int, data_format: bytes) -> Any:
    """(N, H, W, C b b) -> (N, H b, W b, C): the inverse of SpaceToDepth."""
    _check_layout(x, data_format)
    view = _to_nhwc(x, data_format)
    vector = view.shape[4] if view.ndim == 5 else 1
    n, h, w, depth = view.shape[:4]
    if depth % (block_size * block_size):
        raise InvalidArgumentError(
            f"Input depth dimension {depth} should be divisible by: {block_size * block_size}"
        )
    c = depth // (block_size * block_size)
    out = view.reshape((n, h, w, block_size, block_size, c * vector)).transpose(0, 1, 3, 2, 4, 5)
    rows, columns = h * block_size, w * block_size
    if view.ndim == 5:
        return _from_nhwc(xp, out.reshape((n, rows, columns, c, vector)), data_format)
    return _from_nhwc(xp, out.reshape((n, rows, columns, c)), data_format)
