"""Activations, biases, softmax and the cross entropies."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, in_host_memory
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.blockwise import CLIP_MIN
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.indices import first_true
from flowengine.kernels.common.ufuncs import blend, float_kernel, shape_text
from flowengine.kernels.common.windows import is_channels_first
from flowengine.kernels.registry import kernel

# Activations and their gradients, biases, and the halved sum of squares.
#
# A gradient op takes the gradient that arrives and either the features (what went in) or the outputs (what
# came out), as its arguments' names say.

#: Scale and the product of scale and alpha of the self-normalising unit, to double precision.
SELU_SCALE: Final = 1.0507009873554804934193349852946
_SELU_SCALE_ALPHA: Final = 1.7580993408473768599402175208123


@kernel("Relu", fresh=True)
def relu(xp: Any, features: Array) -> Any:
    """max(x, 0); NaN stays."""
    dtype = features.dtype.type
    if features.size >= CLIP_MIN and features.dtype.kind == "f":
        return xp.clip(features, dtype(0), dtype(np.inf))
    return xp.maximum(features, dtype(0))


@kernel("ReluGrad", fresh=True)
def relu_grad(xp: Any, gradients: Array, features: Array) -> Any:
    """The gradient times whether the feature (or the output) is positive."""
    check_same(gradients, features)
    return xp.multiply(gradients, xp.greater(features, 0))


@kernel("Relu6", fresh=True)
def relu6(xp: Any, features: Array) -> Any:
    """min(max(x, 0), 6)."""
    dtype = features.dtype.type
    if features.size >= CLIP_MIN:
        return xp.clip(features, dtype(0), dtype(6))
    return xp.minimum(xp.maximum(features, dtype(0)), dtype(6))


@kernel("Relu6Grad", fresh=True)
def relu6_grad(xp: Any, gradients: Array, features: Array) -> Any:
    """The gradient times whether 0 < feature < 6."""
    check_same(gradients, features)
    inside = xp.logical_and(features > 0, features < 6)
    return xp.multiply(gradients, inside)


def _negative_part(xp: Any, x: Array) -> Any:
    """min(x, 0); NaN stays."""
    dtype = x.dtype.type
    if x.size >= CLIP_MIN:
        return xp.clip(x, dtype(-np.inf), dtype(0))
    return xp.minimum(x, dtype(0))


@float_kernel("LeakyRelu", fresh=True)
def leaky_relu(xp: Any, features: Array, *, alpha: float) -> Any:
    """x where it is positive, else alpha x."""
    leak = xp.multiply(features, features.dtype.type(alpha))
    return xp.maximum(features, leak) if alpha <= 1 else xp.minimum(features, leak)


@float_kernel("LeakyReluGrad", fresh=True)
def leaky_relu_grad(xp: Any, gradients: Array, features: Array, *, alpha: float) -> Any:
    check_same(gradients, features)
    return blend(xp, features > 0, gradients, gradients * gradients.dtype.type(alpha))


@float_kernel("Elu", fresh=True)
def elu(xp: Any, features: Array) -> Any:
    """x where it is not negative, else exp(x) - 1."""
    return relu(xp, features) + elu_below(xp, features)


def elu_below(xp: Any, features: Array) -> Any:
    """Compute the term that `Elu` adds to `Relu`."""
    return xp.expm1(_negative_part(xp, features))


@float_kernel("EluGrad", fresh=True)
def elu_grad(xp: Any, gradients: Array, outputs: Array) -> Any:
    check_same(gradients, outputs)
    slope = _negative_part(xp, outputs) + outputs.dtype.type(1)
    return blend(xp, xp.isnan(outputs), gradients, gradients * slope)


@float_kernel("Selu", fresh=True)
def selu(xp: Any, features: Array) -> Any:
    """The self-normalising exponential unit."""
    return features.dtype.type(SELU_SCALE) * relu(xp, features) + selu_below(xp, features)


def selu_below(xp: Any, features: Array) -> Any:
    """Compute the term that `Selu` adds to the scaled `Relu`."""
    return features.dtype.type(_SELU_SCALE_ALPHA) * elu_below(xp, features)


@float_kernel("SeluGrad", fresh=True)
def selu_grad(xp: Any, gradients: Array, outputs: Array) -> Any:
    check_same(gradients, outputs)
    dtype = outputs.dtype.type
    return blend(
        xp, outputs < 0, gradients * (outputs + dtype(_SELU_SCALE_ALPHA)), gradients * dtype(SELU_SCALE)
    )


@float_kernel("Softplus", fresh=True)
def softplus(xp: Any, features: Array) -> Any:
    """log(1 + exp(x)), without overflow."""
    # max(x, 0) + log(1 + exp(-|x|)): what is left of the exponential never overflows.
    return relu(xp, features) + softplus_rest(xp, features)


def softplus_rest(xp: Any, features: Array) -> Any:
    """Compute the term that `Softplus` adds to `Relu`."""
    return xp.log1p(xp.exp(xp.negative(xp.absolute(features))))


@float_kernel("SoftplusGrad", fresh=True)
def softplus_grad(xp: Any, gradients: Array, features: Array) -> Any:
    check_same(gradients, features)
    return gradients / (xp.exp(-features) + features.dtype.type(1))


@float_kernel("Softsign", fresh=True)
def softsign(xp: Any, features: Array) -> Any:
    """x / (1 + |x|)."""
    return features / (xp.absolute(features) + features.dtype.type(1))


@float_kernel("SoftsignGrad", fresh=True)
def softsign_grad(xp: Any, gradients: Array, features: Array) -> Any:
    check_same(gradients, features)
    return gradients / xp.square(xp.absolute(features) + features.dtype.type(1))


def check_same(gradients: Array, other: Array) -> None:
    if gradients.shape != other.shape:
        raise InvalidArgumentError(
            f"Inputs to operation must have the same shape: {shape_text(gradients)} vs. {shape_text(other)}"
        )


@kernel("BiasAdd", fresh=True)
def bias_add(xp: Any, value: Array, bias: Array, *, data_format: bytes) -> Any:
    """Add a vector along the channel axis: the last, or the second in NCHW.

    InvalidArgumentError where the bias is no vector or not as long as the channel axis.
    """
    if value.ndim > 1 and bias.shape == value.shape[-1:] and data_format == b"NHWC":
        return xp.add(value, bias)
    first = is_channels_first(data_format)
    if value.ndim < 2:
        raise InvalidArgumentError(f"Input tensor must be at least 2D: {shape_text(value)}")
    if bias.ndim != 1:
        raise InvalidArgumentError(f"Biases must be 1D: {shape_text(bias)}")
    axis = 1 if first else value.ndim - 1
    if bias.shape[0] != value.shape[axis]:
        raise InvalidArgumentError(
            "Must provide as many biases as the last dimension of the input tensor: "
            f"{shape_text(bias)} vs. {shape_text(value)}"
        )
    return xp.add(value, bias.reshape((-1,) + (1,) * (value.ndim - 1 - axis)))


@kernel("BiasAddV1", fresh=True)
def bias_add_v1(xp: Any, value: Array, bias: Array) -> Any:
    """Add a vector along the last axis."""
    return bias_add(xp, value, bias, data_format=b"NHWC")


@kernel("BiasAddGrad", fresh=True)
def bias_add_grad(xp: Any, out_backprop: Array, *, data_format: bytes) -> Any:
    """The gradient summed over all axes but the channels'."""
    if out_backprop.ndim == 2 and out_backprop.size < CLIP_MIN and out_backprop.dtype == np.float32:
        return xp.add.reduce(out_backprop, 0)
    if out_backprop.ndim < 2:
        raise InvalidArgumentError(f"Input tensor must be at least 2D: {shape_text(out_backprop)}")
    dtype = out_backprop.dtype
    wide = np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype
    if is_channels_first(data_format) and out_backprop.ndim > 2:
        axes = tuple(a for a in range(out_backprop.ndim) if a != 1)
        total = xp.add.reduce(out_backprop, axis=axes, dtype=wide)
    elif dtype == np.float32 and out_backprop.size > 4096 and out_backprop.flags.c_contiguous:
        # Column sums as a product with ones: BLAS keeps several rows in flight.
        rows = out_backprop.reshape(-1, out_backprop.shape[-1])
        total = xp.dot(xp.ones(rows.shape[0], dtype), rows)
    else:
        rows = out_backprop.reshape(-1, out_backprop.shape[-1]) if out_backprop.size else out_backprop
        total = xp.add.reduce(rows, axis=tuple(range(rows.ndim - 1)), dtype=wide)
    return total if wide is dtype else total.astype(dtype)


@float_kernel("L2Loss", fresh=True)
def l2_loss(xp: Any, t: Array) -> Any:
    """Half the sum of squares."""
    flat = t if t.ndim == 1 else t.reshape(-1)
    return flat.dot(flat) * t.dtype.type(0.5)


# Softmax, its logarithm, and the cross entropies with their gradients in the same pass.
#
# The greatest logit of a row is subtracted first, so that nothing overflows.

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
