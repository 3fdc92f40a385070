"""Cross entropies by element or along the last axis of logits of any rank."""

from __future__ import annotations

from flowengine.graphs.tensor import Tensor


def _rows(tensor: Tensor) -> Tensor:
    """All axes but the last made one, (N, C)."""
    if tensor.shape.rank == 2:
        return tensor
    ops = tensor.graph.ops
    classes = tensor.shape[-1] if tensor.shape.dims else None
    if classes is not None:
        result: Tensor = ops.Reshape(tensor, [-1, classes])
        return result
    last = ops.Slice(ops.Shape(tensor), ops.Reshape(ops.Sub(ops.Rank(tensor), 1), [1]), [1])
    result = ops.Reshape(tensor, ops.ConcatV2([[-1], last], 0))
    return result


def cross_entropy_of_rows(labels: Tensor, logits: Tensor) -> Tensor:
    """Softmax cross entropy along the last axis: (D_1, ..., D_r, C) twice -> (D_1, ..., D_r)."""
    ops = logits.graph.ops
    losses: Tensor = ops.SoftmaxCrossEntropyWithLogits(_rows(logits), _rows(labels), name="xentropy").loss
    if logits.shape.rank == 2:
        return losses
    outer = ops.Slice(ops.Shape(logits), [0], ops.Reshape(ops.Sub(ops.Rank(logits), 1), [1]))
    result: Tensor = ops.Reshape(losses, outer)
    return result


def sparse_cross_entropy_of_rows(labels: Tensor, logits: Tensor) -> Tensor:
    """As `cross_entropy_of_rows` with classes by number: (D_1, ..., D_r) and (D_1, ..., D_r, C)."""
    ops = logits.graph.ops
    flat = labels if labels.shape.rank == 1 else ops.Reshape(labels, [-1])
    losses: Tensor = ops.SparseSoftmaxCrossEntropyWithLogits(_rows(logits), flat, name="xentropy").loss
    if labels.shape.rank == 1:
        return losses
    result: Tensor = ops.Reshape(losses, ops.Shape(labels))
    return result


def sigmoid_cross_entropy_of(labels: Tensor, logits: Tensor) -> Tensor:
    """Cross entropy of independent classes, element by element."""
    ops = logits.graph.ops
    # max(x, 0) - x*y + log(1 + exp(-|x|)): no exp of a large number.
    soft = ops.Log1p(ops.Exp(ops.Neg(ops.Abs(logits))))
    result: Tensor = ops.Add(ops.Sub(ops.Relu(logits), ops.Mul(logits, labels)), soft, name="xentropy")
    return result
