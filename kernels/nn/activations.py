"""Activations and their gradients, biases, and the halved sum of squares.

A gradient op takes the gradient that arrives and either the features (what went in) or the outputs (what
came out), as its arguments' names say.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.blockwise import CLIP_MIN
from flowengine.kernels.common.ufuncs import blend, float_kernel, shape_text
from flowengine.kernels.common.windows import is_channels_first
from flowengine.kernels.registry import kernel

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
    """What `Elu` adds to `Relu`."""
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
    """What `Selu` adds to the scaled `Relu`."""
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
    """What `Softplus` adds to `Relu`."""
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
