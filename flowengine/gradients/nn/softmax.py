"""Softmax, its logarithm, and the cross entropies."""

from __future__ import annotations

from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("Softmax")
def softmax(b: Backward, op: Operation, grad: Tensor) -> Results:
    """dx = (dy - sum(dy y)) y, the sum over classes"""
    return [_through_softmax(b, op.outputs[0], grad)]


def _through_softmax(b: Backward, y: Tensor, grad: Tensor) -> Tensor:
    """The gradient by the logits, from that by their softmax."""
    mean = b.ops.Sum(b.ops.Mul(grad, y), b.constant([-1], "int32"), keep_dims=True)
    through: Tensor = b.ops.Mul(b.ops.Sub(grad, mean), y)
    return through


@gradient("LogSoftmax")
def log_softmax(b: Backward, op: Operation, grad: Tensor) -> Results:
    """dx = dy - sum(dy) exp(y), the sum over classes"""
    total = b.ops.Sum(grad, b.constant([-1], "int32"), keep_dims=True)
    return [b.ops.Sub(grad, b.ops.Mul(total, b.ops.Exp(op.outputs[0])))]


@gradient("SoftmaxCrossEntropyWithLogits", lazy=True)
def softmax_cross_entropy(
    b: Backward, op: Operation, loss: Tensor | None, backprop: Tensor | None
) -> Results:
    """loss (batch), backprop (batch, classes) -> features, labels

    The second output is the gradient of the loss by the features, softmax(features) - labels. The labels have
    a gradient by way of the loss only.
    """
    features, labels = op.inputs
    by_features = _by_logits(b, op, loss, backprop)
    parts: list[Tensor] = []
    if loss is not None:
        parts.append(b.ops.Mul(_column(b, loss), b.ops.Neg(b.ops.LogSoftmax(features))))
    if backprop is not None:
        parts.append(b.ops.Neg(backprop))
    by_labels = b.sum_to(b.ops.AddN(parts), labels, features) if parts else None
    return [None if by_features is None else b.sum_to(by_features, features, labels), by_labels]


@gradient("SparseSoftmaxCrossEntropyWithLogits", lazy=True)
def sparse_softmax_cross_entropy(
    b: Backward, op: Operation, loss: Tensor | None, backprop: Tensor | None
) -> Results:
    return [_by_logits(b, op, loss, backprop), None]


def _by_logits(b: Backward, op: Operation, loss: Tensor | None, backprop: Tensor | None) -> Tensor | None:
    """The gradient by the logits, from that of the loss and that of the loss's gradient."""
    parts: list[Tensor] = []
    if loss is not None:
        parts.append(b.ops.Mul(_column(b, loss), op.outputs[1]))
    if backprop is not None:
        parts.append(_through_softmax(b, b.ops.Softmax(op.inputs[0]), backprop))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else b.ops.Add(*parts)


def _column(b: Backward, loss: Tensor) -> Tensor:
    """(batch) -> (batch, 1)"""
    column: Tensor = b.ops.ExpandDims(loss, b.constant(-1, "int32"))
    return column
