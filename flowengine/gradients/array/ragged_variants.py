"""Gradients of rows of different length as variants."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.errors import GradientValueError
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("RaggedTensorToVariant")
def to_variant(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The values of g put behind each other, an op of its own"""
    *splits, values = op.inputs
    row_splits = splits[0] if splits else b.constant(0, op.get_attr("Tsplits"))
    result = b.ops.RaggedTensorToVariantGradient(grad, row_splits, b.shape(values), Tvalues=values.dtype.base)
    return [*[None] * len(splits), result]


@gradient("RaggedTensorToVariantGradient")
def to_variant_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g as variants, one a row, or one of all where there are no rows"""
    row_splits = op.inputs[1]
    has_rows = row_splits.shape.rank != 0
    result = b.ops.RaggedTensorToVariant(
        [row_splits] if has_rows else [], grad, batched_input=has_rows, Tsplits=op.get_attr("Tsplits")
    )
    return [result, None, None]


@gradient("RaggedTensorFromVariant", lazy=True)
def from_variant(b: Backward, op: Operation, *grads: Tensor | None) -> Results:
    """g, its values as variants in the same way"""
    grad = grads[-1]
    if grad is None:
        return [None]
    rank = op.inputs[0].shape.rank
    if rank is not None and rank > 1:
        raise GradientValueError(
            f"'{op.name}' takes variants of rank {rank}; its gradient can be made for a scalar or a vector"
        )
    is_batched = rank == 1 if rank is not None else op.get_attr("output_ragged_rank") > 0
    return [
        b.ops.RaggedTensorToVariant(
            list(op.outputs[:-1]), grad, batched_input=is_batched, Tsplits=op.get_attr("Tsplits")
        )
    ]
