"""Gradients of activations, biases, softmax and the cross entropies."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import same
from flowengine.gradients.values import Gradient, IndexedSlices, Results
from flowengine.graphs.tensor import Operation, Tensor

# Activations and their gradients, biases, the halved sum of squares.


@gradient("Relu")
def relu(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The output is positive where the input is, so the input need not be kept."""
    return [b.ops.ReluGrad(grad, op.outputs[0])]


@gradient("Relu6")
def relu_6(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.Relu6Grad(grad, op.outputs[0])]


@gradient("LeakyRelu")
def leaky_relu(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.LeakyReluGrad(grad, op.inputs[0], **same(op, "alpha"))]


@gradient("Elu")
def elu(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.EluGrad(grad, op.outputs[0])]


@gradient("Selu")
def selu(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.SeluGrad(grad, op.outputs[0])]


@gradient("Softplus")
def softplus(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.SoftplusGrad(grad, op.inputs[0])]


@gradient("Softsign")
def softsign(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.SoftsignGrad(grad, op.inputs[0])]


@gradient("ReluGrad")
def relu_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Linear in the gradient; a step in the features, so flat almost everywhere."""
    features = op.inputs[1]
    return [b.ops.ReluGrad(grad, features), b.zeros_like(features)]


@gradient("Relu6Grad")
def relu_6_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    features = op.inputs[1]
    return [b.ops.Relu6Grad(grad, features), b.zeros_like(features)]


@gradient("LeakyReluGrad")
def leaky_relu_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    features = op.inputs[1]
    return [b.ops.LeakyReluGrad(grad, features, **same(op, "alpha")), b.zeros_like(features)]


@gradient("EluGrad")
def elu_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """dy (y + 1) where y < 0, else dy"""
    return [b.ops.EluGrad(grad, op.inputs[1]), _where_negative(b, op, grad)]


@gradient("SeluGrad")
def selu_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """dy (y + scale alpha) where y < 0, else dy scale"""
    return [b.ops.SeluGrad(grad, op.inputs[1]), _where_negative(b, op, grad)]


def _where_negative(b: Backward, op: Operation, grad: Tensor) -> Tensor:
    """The gradient by the outputs: on the negative side they are added to a constant, dy their factor."""
    dy, y = op.inputs
    slope: Tensor = b.ops.Mul(grad, dy)
    negative = b.ops.Less(y, b.constant(0, y.dtype))
    chosen: Tensor = b.ops.Select(negative, slope, b.zeros_like(y))
    return chosen


@gradient("SoftplusGrad")
def softplus_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """dy s(x), where s is the logistic function and s'(x) = s(x) s(-x), small on both sides"""
    dy, x = op.inputs
    slope = b.ops.Mul(b.ops.Sigmoid(x), b.ops.Sigmoid(b.ops.Neg(x)))
    return [b.ops.SoftplusGrad(grad, x), b.ops.Mul(b.ops.Mul(grad, dy), slope)]


@gradient("SoftsignGrad")
def softsign_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """dy / (1 + |x|)^2, whose slope in x is -2 sign(x) / (1 + |x|) times itself"""
    dy, x = op.inputs
    by_dy = b.ops.SoftsignGrad(grad, x)
    steepness = b.ops.RealDiv(
        b.ops.Mul(b.constant(-2, x.dtype), b.ops.Sign(x)), b.ops.Add(b.ops.Abs(x), b.constant(1, x.dtype))
    )
    return [by_dy, b.ops.Mul(b.ops.Mul(by_dy, dy), steepness)]


@gradient("BiasAdd", slices=True)
def bias_add(b: Backward, op: Operation, grad: Gradient) -> Results:
    """g, and its sum over all but the channels, in which rows without a gradient do not count"""
    values = grad.values if isinstance(grad, IndexedSlices) else grad
    return [grad, b.ops.BiasAddGrad(values, **same(op, "data_format"))]


@gradient("BiasAddV1", slices=True)
def bias_add_v1(b: Backward, op: Operation, grad: Gradient) -> Results:
    """As of `BiasAdd`, with the channels last"""
    return [grad, b.ops.BiasAddGrad(grad.values if isinstance(grad, IndexedSlices) else grad)]


@gradient("BiasAddGrad")
def bias_add_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The sum over all but the channels: each channel's gradient at each of its places."""
    zeros = b.zeros_like(op.inputs[0])
    return [b.ops.BiasAdd(zeros, grad, **same(op, "data_format"))]


@gradient("L2Loss")
def l2_loss(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.Mul(op.inputs[0], grad)]


# Softmax, its logarithm, and the cross entropies.


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
