"""Gradients of quantisation and its opposite in one, for inference and for training."""

from __future__ import annotations

from typing import Final

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import same
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

# Quantisation and its opposite in one: rounding is taken for the identity.


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


# Quantisation and its opposite in one, for training.
#
# Rounding is taken for the identity: a gradient passes to the inputs within the range, and to the bound
# beyond
# which an input lies.

#: How fine the steps are.
STEPS: Final = ("num_bits", "narrow_range")


@gradient("FakeQuantWithMinMaxArgs")
def fixed_range(b: Backward, op: Operation, grad: Tensor) -> Results:
    how = same(op, "min", "max", *STEPS)
    return [b.ops.FakeQuantWithMinMaxArgsGradient(grad, op.inputs[0], **how)]


@gradient("FakeQuantWithMinMaxArgsGradient")
def fixed_range_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    inputs = op.inputs[1]
    how = same(op, "min", "max", *STEPS)
    return [b.ops.FakeQuantWithMinMaxArgsGradient(grad, inputs, **how), b.zeros_like(inputs)]


@gradient("FakeQuantWithMinMaxVars")
def given_range(b: Backward, op: Operation, grad: Tensor) -> Results:
    return list(b.ops.FakeQuantWithMinMaxVarsGradient(grad, *op.inputs, **same(op, *STEPS)))


@gradient("FakeQuantWithMinMaxVarsPerChannel")
def channel_ranges(b: Backward, op: Operation, grad: Tensor) -> Results:
    return list(b.ops.FakeQuantWithMinMaxVarsPerChannelGradient(grad, *op.inputs, **same(op, *STEPS)))


@gradient("FakeQuantWithMinMaxVarsGradient")
def given_range_grad(b: Backward, op: Operation, inputs: Tensor, low: Tensor, high: Tensor) -> Results:
    gradients, x, least, most = op.inputs
    ones = b.ops.OnesLike(gradients)
    inside = b.ops.FakeQuantWithMinMaxVarsGradient(ones, x, least, most, **same(op, *STEPS))[0]
    return _by_gradients(b, op, inside, inputs, low, high)


@gradient("FakeQuantWithMinMaxVarsPerChannelGradient")
def channel_ranges_grad(b: Backward, op: Operation, inputs: Tensor, low: Tensor, high: Tensor) -> Results:
    gradients, x, least, most = op.inputs
    ones = b.ops.OnesLike(gradients)
    inside = b.ops.FakeQuantWithMinMaxVarsPerChannelGradient(ones, x, least, most, **same(op, *STEPS))[0]
    return _by_gradients(b, op, inside, inputs, low, high)


def _by_gradients(
    b: Backward, op: Operation, inside: Tensor, inputs: Tensor, low: Tensor, high: Tensor
) -> Results:
    """Each element went to one of three results; its gradient comes from there, and nothing else matters.

    The ends of the range are moved a little, so that zero is one of the steps. An element outside lies beyond
    that end which is on its side of the middle.
    """
    _, x, least, most = op.inputs
    middle = b.ops.Mul(b.ops.Add(least, most), b.constant(0.5, "float32"))
    is_low = b.ops.Cast(b.ops.Less(x, middle), DstT="float32")
    beyond = b.ops.Add(b.ops.Mul(is_low, low), b.ops.Mul(b.ops.Sub(b.ops.OnesLike(is_low), is_low), high))
    outside = b.ops.Sub(b.ops.OnesLike(inside), inside)
    by_gradients = b.ops.Add(b.ops.Mul(inside, inputs), b.ops.Mul(outside, beyond))
    return [by_gradients, b.zeros_like(x), b.zeros_like(least), b.zeros_like(most)]
