"""Ragged tensors."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "RaggedGather",
    inputs=[
        "params_nested_splits: PARAMS_RAGGED_RANK * Tsplits",
        "params_dense_values: Tvalues",
        "indices: Tindices",
    ],
    outputs=["output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits", "output_dense_values: Tvalues"],
    attrs=[
        "Tvalues: type",
        "Tindices: {int32, int64}",
        "Tsplits: {int32, int64} = int64",
        "PARAMS_RAGGED_RANK: int >= 1",
        "OUTPUT_RAGGED_RANK: int >= 0",
    ],
)
define(
    "RaggedRange",
    inputs=["starts: T", "limits: T", "deltas: T"],
    outputs=["rt_nested_splits: Tsplits", "rt_dense_values: T"],
    attrs=["T: {bfloat16, float, double, int32, int64} = int32", "Tsplits: {int32, int64} = int64"],
)
define(
    "RaggedTensorFromVariant",
    inputs=["encoded_ragged: variant"],
    outputs=["output_nested_splits: output_ragged_rank * Tsplits", "output_dense_values: Tvalues"],
    attrs=[
        "input_ragged_rank: int >= -1",
        "output_ragged_rank: int >= 1",
        "Tvalues: type",
        "Tsplits: {int32, int64}",
    ],
)
define(
    "RaggedTensorToSparse",
    inputs=["rt_nested_splits: RAGGED_RANK * Tsplits", "rt_dense_values: T"],
    outputs=["sparse_indices: int64", "sparse_values: T", "sparse_dense_shape: int64"],
    attrs=["RAGGED_RANK: int >= 1", "T: type", "Tsplits: {int32, int64} = int64"],
)
define(
    "RaggedTensorToTensor",
    inputs=[
        "shape: Tshape",
        "values: T",
        "default_value: T",
        "row_partition_tensors: num_row_partition_tensors * Tindex",
    ],
    outputs=["result: T"],
    attrs=[
        "T: type",
        "Tindex: {int64, int32}",
        "Tshape: {int64, int32}",
        "num_row_partition_tensors: int >= 1",
        "row_partition_types: list(string)",
    ],
)
define(
    "RaggedTensorToVariant",
    inputs=["rt_nested_splits: RAGGED_RANK * Tsplits", "rt_dense_values: Tvalues"],
    outputs=["encoded_ragged: variant"],
    attrs=["RAGGED_RANK: int >= 1", "Tvalues: type", "Tsplits: {int32, int64}", "batched_input: bool"],
)
