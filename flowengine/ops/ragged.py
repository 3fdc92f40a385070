"""Ragged tensors."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, ranked_at_least, replace_dim, vector, vectors

define(
    "RaggedRange",
    inputs=["starts: T", "limits: T", "deltas: T"],
    outputs=["rt_nested_splits: Tsplits", "rt_dense_values: T"],
    attrs=["T: {bfloat16, float, double, int32, int64} = int32", "Tsplits: {int32, int64} = int64"],
    shape=vectors,
)


def ragged_to_sparse(c: ShapeContext) -> Sequence[TensorShape]:
    values = ranked_at_least(c, c.num_inputs - 1, 1)
    rank = None if values.rank is None else values.rank + c.attrs["RAGGED_RANK"]
    return [TensorShape([None, rank]), VECTOR, vector(rank)]


define(
    "RaggedTensorToSparse",
    inputs=["rt_nested_splits: RAGGED_RANK * Tsplits", "rt_dense_values: T"],
    outputs=["sparse_indices: int64", "sparse_values: T", "sparse_dense_shape: int64"],
    attrs=["RAGGED_RANK: int >= 1", "T: type", "Tsplits: {int32, int64} = int64"],
    shape=ragged_to_sparse,
)


def from_variant(c: ShapeContext) -> Sequence[TensorShape]:
    return [*[VECTOR] * (c.num_outputs - 1), UNKNOWN_SHAPE]


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
    shape=from_variant,
)


def ragged_gather(c: ShapeContext) -> Sequence[TensorShape]:
    """Splits, and values of which only the rows differ in number."""
    values = ranked_at_least(c, c.attrs["PARAMS_RAGGED_RANK"], 1)
    return [*[VECTOR] * (c.num_outputs - 1), replace_dim(values, 0, None)]


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
    shape=ragged_gather,
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
