"""Ragged tensors as variants, whole or one for each row."""

from __future__ import annotations

from flowengine.core.shapes import UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR


@define(
    "RaggedTensorFromVariant(encoded_ragged: variant) "
    "-> output_nested_splits: output_ragged_rank * Tsplits, output_dense_values: Tvalues",
    "input_ragged_rank: int >= -1; output_ragged_rank: int >= 0; Tvalues: type; Tsplits: indextype = int64",
)
def from_variant(c: ShapeContext) -> Shapes:
    return [*[VECTOR] * (c.num_outputs - 1), UNKNOWN_SHAPE]


define(
    "RaggedTensorToVariant(rt_nested_splits: RAGGED_RANK * Tsplits, rt_dense_values: Tvalues) "
    "-> encoded_ragged: variant",
    "RAGGED_RANK: int >= 0; Tvalues: type; Tsplits: indextype = int64; batched_input: bool",
)
define(
    "RaggedTensorToVariantGradient(encoded_ragged_grad: variant, row_splits: Tsplits, "
    "dense_values_shape: int32) -> dense_values_grad: Tvalues",
    "Tvalues: type; Tsplits: indextype = int64",
)
