"""Rows dealt out to several tensors, and put together again."""

from __future__ import annotations

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, prefix, suffix, vector


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
