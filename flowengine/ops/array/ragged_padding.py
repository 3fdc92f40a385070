"""Ragged tensors as dense ones, rows filled up with a default."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "RaggedTensorToTensor(shape: Tshape, values, default_value: T, "
    "row_partition_tensors: num_row_partition_tensors * Tindex) -> result: T",
    "T: type; Tindex, Tshape: {int64, int32}; num_row_partition_tensors: int >= 1",
    "row_partition_types: list(string)",
)
