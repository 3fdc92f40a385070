"""Operations on sets held as sparse tensors."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "DenseToDenseSetOperation",
    inputs=["set1: T", "set2: T"],
    outputs=["result_indices: int64", "result_values: T", "result_shape: int64"],
    attrs=[
        "set_operation: string",
        "validate_indices: bool = true",
        "T: {int8, int16, int32, int64, uint8, uint16, string}",
    ],
)
define(
    "DenseToSparseSetOperation",
    inputs=["set1: T", "set2_indices: int64", "set2_values: T", "set2_shape: int64"],
    outputs=["result_indices: int64", "result_values: T", "result_shape: int64"],
    attrs=[
        "set_operation: string",
        "validate_indices: bool = true",
        "T: {int8, int16, int32, int64, uint8, uint16, string}",
    ],
)
define(
    "SetSize",
    inputs=["set_indices: int64", "set_values: T", "set_shape: int64"],
    outputs=["size: int32"],
    attrs=["validate_indices: bool = true", "T: {int8, int16, int32, int64, uint8, uint16, string}"],
)
define(
    "SparseToSparseSetOperation",
    inputs=[
        "set1_indices: int64",
        "set1_values: T",
        "set1_shape: int64",
        "set2_indices: int64",
        "set2_values: T",
        "set2_shape: int64",
    ],
    outputs=["result_indices: int64", "result_values: T", "result_shape: int64"],
    attrs=[
        "set_operation: string",
        "validate_indices: bool = true",
        "T: {int8, int16, int32, int64, uint8, uint16, string}",
    ],
)
