"""Partitioning and stitching tensors; values kept across steps in a session."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, prefix, ranked, scalars, suffix, vector


def dynamic_partition(c: ShapeContext) -> Sequence[TensorShape]:
    """data (ids..., rest...), ids -> (?, rest...) for each partition"""
    data, ids = c.input(0), c.input(1)
    if data.dims is None or ids.dims is None:
        return [UNKNOWN_SHAPE] * c.num_outputs
    rank = len(ids.dims)
    if not prefix(data, rank).is_compatible_with(ids):
        raise InvalidArgumentError(f"data.shape = {data} does not start with partitions.shape = {ids}")
    return [VECTOR.concatenate(suffix(data, rank))] * c.num_outputs


define(
    "DynamicPartition",
    inputs=["data: T", "partitions: int32"],
    outputs=["outputs: num_partitions * T"],
    attrs=["num_partitions: int >= 1", "T: type"],
    shape=dynamic_partition,
)


def dynamic_stitch(c: ShapeContext) -> Sequence[TensorShape]:
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


define(
    "DynamicStitch",
    inputs=["indices: N * int32", "data: N * T"],
    outputs=["merged: T"],
    attrs=["N: int >= 1", "T: type"],
    shape=dynamic_stitch,
)
define(
    "ParallelDynamicStitch",
    inputs=["indices: N * int32", "data: N * T"],
    outputs=["merged: T"],
    attrs=["N: int >= 1", "T: type"],
    shape=dynamic_stitch,
)
define(
    "GetSessionHandle",
    inputs=["value: T"],
    outputs=["handle: string"],
    attrs=["T: type"],
    is_stateful=True,
    shape=scalars,
)
define(
    "GetSessionHandleV2",
    inputs=["value: T"],
    outputs=["handle: resource"],
    attrs=["T: type"],
    is_stateful=True,
    shape=scalars,
)
define("DeleteSessionTensor", inputs=["handle: string"], is_stateful=True)


def session_tensor(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 0, 0)
    return [UNKNOWN_SHAPE]


define(
    "GetSessionTensor",
    inputs=["handle: string"],
    outputs=["value: dtype"],
    attrs=["dtype: type"],
    is_stateful=True,
    shape=session_tensor,
)


def record_input(c: ShapeContext) -> Sequence[TensorShape]:
    return [vector(c.attrs["batch_size"])]


define(
    "RecordInput",
    outputs=["records: string"],
    attrs=[
        "file_pattern: string",
        "file_random_seed: int = 301",
        "file_shuffle_shift_ratio: float = 0.0",
        "file_buffer_size: int = 10000",
        "file_parallelism: int = 16",
        "batch_size: int = 32",
        'compression_type: string = ""',
    ],
    is_stateful=True,
    shape=record_input,
)
