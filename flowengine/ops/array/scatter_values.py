"""Values written to places of a tensor, giving a new tensor."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.array.gather import BAD_INDICES
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import prefix, ranked, suffix


@define(
    "ScatterNd(indices: Tindices, updates: T, shape: Tindices) -> output: T",
    "T: type; Tindices: indextype",
    *BAD_INDICES,
)
def scatter_nd(c: ShapeContext) -> Shapes:
    """(outer..., k), (outer..., rest...), shape -> shape"""
    ranked(c, 2, 1)
    shape = c.input_as_shape(2)
    check_scatter_nd(shape, c.input(0), c.input(1))
    return [shape]


def check_scatter_nd(shape: TensorShape, indices: TensorShape, updates: TensorShape) -> None:
    """Whether updates of this shape can be scattered into a tensor at such indices."""
    if shape.dims is None or indices.dims is None or updates.dims is None:
        return
    if not indices.dims:
        raise InvalidArgumentError("indices must be at least rank 1")
    depth = indices.dims[-1]
    if depth is None:
        return
    expected = prefix(indices, -1).concatenate(suffix(shape, depth))
    if depth > len(shape.dims) or not expected.is_compatible_with(updates):
        raise InvalidArgumentError(
            f"updates of shape {updates} do not fit indices {indices} into shape {shape}: expected {expected}"
        )


@define(
    "ScatterNdNonAliasingAdd(input: T, indices: Tindices, updates: T) -> output: T",
    "T: numberorbooltype; Tindices: indextype",
    *BAD_INDICES,
)
@define(
    "TensorScatterAdd, TensorScatterMax, TensorScatterMin, TensorScatterSub, "
    "TensorScatterUpdate(tensor: T, indices: Tindices, updates: T) -> output: T",
    "T: type; Tindices: indextype",
    *BAD_INDICES,
)
def scatter_into(c: ShapeContext) -> Shapes:
    check_scatter_nd(c.input(0), c.input(1), c.input(2))
    return [c.input(0)]
