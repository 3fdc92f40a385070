"""Partitioning and stitching tensors; values kept across steps in a session."""

from __future__ import annotations

from flowengine.ops.registry import define

define("DeleteSessionTensor", inputs=["handle: string"], is_stateful=True)
define(
    "DynamicPartition",
    inputs=["data: T", "partitions: int32"],
    outputs=["outputs: num_partitions * T"],
    attrs=["num_partitions: int >= 1", "T: type"],
)
define(
    "DynamicStitch",
    inputs=["indices: N * int32", "data: N * T"],
    outputs=["merged: T"],
    attrs=["N: int >= 1", "T: type"],
)
define(
    "GetSessionHandle", inputs=["value: T"], outputs=["handle: string"], attrs=["T: type"], is_stateful=True
)
define(
    "GetSessionHandleV2",
    inputs=["value: T"],
    outputs=["handle: resource"],
    attrs=["T: type"],
    is_stateful=True,
)
define(
    "GetSessionTensor",
    inputs=["handle: string"],
    outputs=["value: dtype"],
    attrs=["dtype: type"],
    is_stateful=True,
)
define(
    "ParallelDynamicStitch",
    inputs=["indices: N * int32", "data: N * T"],
    outputs=["merged: T"],
    attrs=["N: int >= 1", "T: type"],
)
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
)
define(
    "Unstage",
    outputs=["values: dtypes"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
)
