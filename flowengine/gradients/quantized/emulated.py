"""Quantisation and its opposite in one: rounding is taken for the identity."""

from __future__ import annotations

from flowengine.gradients.attributes import same
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("QuantizeAndDequantize", "QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3")
def rounded(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The gradient passes, outside of the range too; the range has none."""
    return [grad, *[None] * (len(op.inputs) - 1)]


@gradient("QuantizeAndDequantizeV4")
def rounded_v4(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Within the range the gradient passes, beyond it there is none."""
    return list(b.ops.QuantizeAndDequantizeV4Grad(grad, *op.inputs, **same(op, "axis")))


@gradient("QuantizeAndDequantizeV4Grad")
def rounded_v4_grad(b: Backward, op: Operation, inputs: Tensor, *ends: Tensor) -> Results:
    """The op is a mask of its first input; the range got zeros."""
    _, x, least, most = op.inputs
    masked = b.ops.QuantizeAndDequantizeV4Grad(inputs, x, least, most, **same(op, "axis"))[0]
    return [masked, b.zeros_like(x), b.zeros_like(least), b.zeros_like(most)]
