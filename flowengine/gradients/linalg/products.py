"""Gradients of products of matrices."""

from __future__ import annotations

from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("MatMul")
def mat_mul(b: Backward, op: Operation, grad: Tensor) -> Results:
    """grad y^T and x^T grad, each factor transposed as the product had it; complex ones conjugated."""
    x, y = (b.real_or_conj(each) for each in op.inputs)
    multiply = b.ops.MatMul
    turned_x, turned_y = op.get_attr("transpose_a"), op.get_attr("transpose_b")
    if not turned_x and not turned_y:
        return [multiply(grad, y, transpose_b=True), multiply(x, grad, transpose_a=True)]
    if not turned_x:
        return [multiply(grad, y), multiply(grad, x, transpose_a=True)]
    if not turned_y:
        return [multiply(y, grad, transpose_b=True), multiply(x, grad)]
    return [
        multiply(y, grad, transpose_a=True, transpose_b=True),
        multiply(grad, x, transpose_a=True, transpose_b=True),
    ]
