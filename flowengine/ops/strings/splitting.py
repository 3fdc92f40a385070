"""Strings into parts, and parts into strings."""

from __future__ import annotations

from flowengine.core.arrays import to_array
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, axis_of, ranked, vector


@define(
    "ReduceJoin(inputs: string, reduction_indices: int32) -> output: string",
    "keep_dims: bool = false; separator: string = ''",
    NotDifferentiable(),
)
def reduce_join(c: ShapeContext) -> Shapes:
    shape, axes = c.input(0), c.input_value(1)
    if shape.dims is None or axes is None:
        return [UNKNOWN_SHAPE]
    rank = len(shape.dims)
    chosen = to_array(axes).reshape(-1)
    if not chosen.size:
        return [shape]
    reduced = {axis_of(axis, rank, "reduction dimension") for axis in chosen}
    if c.attrs["keep_dims"]:
        return [TensorShape([1 if i in reduced else d for i, d in enumerate(shape.dims)])]
    return [TensorShape([d for i, d in enumerate(shape.dims) if i not in reduced])]


@define(
    "StringSplit(input, delimiter: string) -> indices: int64, values: string, shape: int64",
    "skip_empty: bool = true",
    NotDifferentiable(),
)
@define(
    "StringSplitV2(input, sep: string) -> indices: int64, values: string, shape: int64",
    "maxsplit: int = -1",
    NotDifferentiable(),
)
def string_split(c: ShapeContext) -> Shapes:
    """Indices (n, 2), values (n), dense shape (2) of a sparse matrix"""
    ranked(c, 0, 1)
    return [TensorShape([None, 2]), VECTOR, vector(2)]
