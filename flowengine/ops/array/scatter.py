"""Values written to places of a tensor, and rows dealt out and put together."""

from __future__ import annotations

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.array.gather import BAD_INDICES
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, prefix, ranked, suffix, vector

# Values written to places of a tensor, giving a new tensor.


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


# Rows dealt out to several tensors, and put together again.


@define(
    "DynamicPartition(data: T, partitions: int32) -> outputs: num_partitions * T",
    "num_partitions: int >= 1; T: type",
)
def dynamic_partition(c: ShapeContext) -> Shapes:
    """data (ids..., rest...), ids -> (?, rest...) for each partition"""
    data, ids = c.input(0), c.input(1)
    if data.dims is None or ids.dims is None:
        return [UNKNOWN_SHAPE] * c.num_outputs
    rank = len(ids.dims)
    if not prefix(data, rank).is_compatible_with(ids):
        raise InvalidArgumentError(f"data.shape = {data} does not start with partitions.shape = {ids}")
    return [VECTOR.concatenate(suffix(data, rank))] * c.num_outputs


@define("DynamicStitch(indices: N * int32, data: N * T) -> merged: T", "N: int >= 1; T: type")
@define("ParallelDynamicStitch(indices: N * int32, data: N * T) -> merged: T", "N: int >= 1; T: type")
def dynamic_stitch(c: ShapeContext) -> Shapes:
    """Rows as many as the largest index needs, each of the shape that follows the indices in the data."""
    count = c.attrs["N"]
    rest = UNKNOWN_SHAPE
    largest: int | None = -1
    for i in range(count):
        indices, data = c.input(i), c.input(i + count)
        value = c.input_value(i)
        if value is None:
            largest = None
        elif largest is not None and to_array(value).size:
            largest = max(largest, int(to_array(value).max()))
        if indices.dims is None or data.dims is None:
            continue
        rank = len(indices.dims)
        if not prefix(data, rank).is_compatible_with(indices):
            raise InvalidArgumentError(f"data[{i}].shape = {data} does not start with its indices' {indices}")
        rest = rest.merge_with(suffix(data, rank))
    return [vector(None if largest is None else largest + 1).concatenate(rest)]
