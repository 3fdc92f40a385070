"""Where values stand in sorted rows, and what flat positions mean in a shape."""

from __future__ import annotations

from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import ranked, vector


@define(
    "LowerBound(sorted_inputs, values: T) -> output: out_type",
    "T: type; out_type: indextype = int32",
    NotDifferentiable(),
)
@define(
    "UpperBound(sorted_inputs, values: T) -> output: out_type",
    "T: type; out_type: indextype = int32",
    NotDifferentiable(),
)
def search_sorted(c: ShapeContext) -> Shapes:
    ranked(c, 0, 2)
    return [ranked(c, 1, 2)]


@define("UnravelIndex(indices, dims: Tidx) -> output: Tidx", "Tidx: indextype = int32", NotDifferentiable())
def unravel(c: ShapeContext) -> Shapes:
    """Indices -> one row of coordinates for each dimension"""
    indices, count = c.input(0), ranked(c, 1, 1)[0]
    if indices.dims is None:
        return [UNKNOWN_SHAPE]
    if not indices.dims:
        return [vector(count)]
    return [TensorShape([count, indices.num_elements()])]
