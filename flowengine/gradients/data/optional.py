"""Gradients of values that may not be there: an optional of the gradients of its components."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("OptionalFromValue")
def from_value(b: Backward, op: Operation, grad: Tensor) -> Results:
    results: Results = b.ops.OptionalGetValue(
        grad,
        output_types=[each.dtype.base for each in op.inputs],
        output_shapes=[each.shape for each in op.inputs],
    )
    return results


@gradient("OptionalGetValue")
def get_value(b: Backward, op: Operation, *grads: Tensor | None) -> Results:
    given = [
        b.ops.ZerosLike(output) if each is None else each
        for output, each in zip(op.outputs, grads, strict=True)
    ]
    return [b.ops.OptionalFromValue(given)]
