"""Tensors made larger at their edges, by a constant or by their own mirror image."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Array, Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import as_array, blank, brackets, filled, shape_of
from flowengine.kernels.common.indices import along
from flowengine.kernels.registry import kernel


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
