"""Tensors made larger at their edges."""

from __future__ import annotations

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, merge_dims, ranked


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
