"""Gradients of gamma numbers by their shape parameter, with what was drawn kept as it was."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("RandomGamma", "StatelessRandomGammaV2", "StatelessRandomGammaV3")
def gamma(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g times the derivative of each sample, an op of its own, summed over the samples of one parameter"""
    alpha, sample = op.inputs[-1], op.outputs[0]
    product = b.ops.Mul(grad, b.ops.RandomGammaGrad(alpha, sample))
    return [*[None] * (len(op.inputs) - 1), b.sum_to(product, alpha, sample)]
