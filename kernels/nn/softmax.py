"""Softmax, its logarithm, and the cross entropies with their gradients in the same pass.

The greatest logit of a row is subtracted first, so that nothing overflows.
"""

from __future__ import annotations

from typing import Any, Final

from flowengine.core.arrays import Array, in_host_memory
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.indices import first_true
from flowengine.kernels.common.ufuncs import float_kernel, shape_text

#: Label values that an error message shows.
_LABELS_SHOWN: Final = 32


def check_rank(logits: Array) -> None:
    if logits.ndim < 1:
        raise InvalidArgumentError(f"logits must have >= 1 dimension, got {logits.ndim}")


def _shifted(xp: Any, logits: Array) -> Any:
    """Logits less the greatest of their row; a new array."""
    if logits.shape[-1] == 0:
        return logits.copy()
    greatest: Any = logits.max
    return xp.subtract(logits, greatest(-1, None, True))


@float_kernel("Softmax", fresh=True)
def softmax(xp: Any, logits: Array) -> Any:
    """exp(x) over its sum along the last axis; (..., C)."""
    check_rank(logits)
    weights = _shifted(xp, logits)
    xp.exp(weights, weights)
    return xp.divide(weights, xp.add.reduce(weights, -1, None, None, True), weights)


@float_kernel("LogSoftmax", fresh=True)
def log_softmax(xp: Any, logits: Array) -> Any:
    """x less the logarithm of the sum of exp(x) along the last axis; (..., C)."""
    check_rank(logits)
    shifted = _shifted(xp, logits)
    total = xp.add.reduce(xp.exp(shifted), -1, None, None, True)
    return xp.subtract(shifted, xp.log(total, total), shifted)


@float_kernel("SoftmaxCrossEntropyWithLogits", fresh=True)
def softmax_cross_entropy(xp: Any, features: Array, labels: Array) -> Any:
    """Cross entropy of each row's softmax with a row of probabilities, and its gradient.

    features, labels (B, C), broadcast; returns loss (B,), softmax - labels (B, C). InvalidArgumentError
    where they are no matrices or do not broadcast.
    """
    try:
        shape = xp.broadcast_shapes(features.shape, labels.shape)
    except ValueError:
        raise InvalidArgumentError(
            f"logits and labels must be broadcastable: logits_size={shape_text(features)} "
            f"labels_size={shape_text(labels)}"
        ) from None
    if len(shape) != 2:
        raise InvalidArgumentError(
            f"logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional, "
            f"not {shape_text(features)} and {shape_text(labels)}"
        )
    if shape[1] == 0:
        return xp.zeros(shape[0], features.dtype), xp.zeros(shape, features.dtype)
    logits = features if features.shape == shape else xp.broadcast_to(features, shape)
    shifted = _shifted(xp, logits)
    backprop = xp.exp(shifted)
    total = xp.add.reduce(backprop, -1, None, None, True)
    xp.divide(backprop, total, backprop)
    xp.subtract(backprop, labels, backprop)
    surprise = xp.subtract(xp.log(total), shifted, out=shifted)
    surprise *= labels
    return xp.add.reduce(surprise, axis=-1), backprop


def _label_outside(labels: Array, classes: int) -> InvalidArgumentError:
    wrong = labels[first_true((labels < 0) | (labels >= classes))]
    shown = " ".join(map(str, labels[:_LABELS_SHOWN].tolist()))
    return InvalidArgumentError(
        f"Received a label value of {wrong} which is outside the valid range of "
        f"[0, {classes}).  Label values: {shown}"
    )


@float_kernel("SparseSoftmaxCrossEntropyWithLogits", fresh=True)
def sparse_softmax_cross_entropy(xp: Any, features: Array, labels: Array) -> Any:
    """Cross entropy of each row's softmax with the class of its label, and its gradient.

    features (B, C), labels (B,) of integers in [0, C); returns loss (B,) and backprop (B, C).
    InvalidArgumentError for other shapes and for a label out of range.
    """
    check_classes(features, labels)
    count, classes = features.shape
    if count == 0:
        return xp.zeros(0, features.dtype), xp.zeros((0, classes), features.dtype)
    shifted = _shifted(xp, features)
    backprop = xp.exp(shifted)
    total = xp.add.reduce(backprop, -1)
    xp.divide(backprop, total[:, None], backprop)
    places = xp.arange(0, count * classes, classes)
    places += labels
    loss = xp.subtract(xp.log(total), shifted.reshape(-1)[places])
    backprop.reshape(-1)[places] -= backprop.dtype.type(1)
    return loss, backprop


def check_classes(features: Array, labels: Array) -> None:
    """InvalidArgumentError unless there is a label (B,) in [0, C) for each row of features (B, C)."""
    if features.ndim != 2:
        raise InvalidArgumentError(f"logits must be 2-D, but got shape {shape_text(features)}")
    if labels.ndim != 1:
        raise InvalidArgumentError(f"labels must be 1-D, but got shape {shape_text(labels)}")
    count, classes = features.shape
    if labels.shape[0] != count:
        raise InvalidArgumentError(
            "logits and labels must have the same first dimension, got logits shape "
            f"{shape_text(features)} and labels shape {shape_text(labels)}"
        )
    if classes == 0:
        raise InvalidArgumentError(
            f"Must have at least one class, but got logits shape {shape_text(features)}"
        )
    if count == 0:
        return
    if in_host_memory(labels):
        refuse(int(labels.min()) < 0 or int(labels.max()) >= classes, lambda: _label_outside(labels, classes))
    else:
        refuse(((labels < 0) | (labels >= classes)).any(), lambda: _label_outside(labels, classes))
