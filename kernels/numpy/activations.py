"""Activations, their gradients and biases of large tensors: in blocks that stay in cache, on every core.

The logistic function of small layers, too, with what NumPy would look up and convert at each call kept.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.core.dtypes import float32, float64
from flowengine.kernels.common.blockwise import CLIP_MIN, blockwise, in_blocks, is_large, scratch
from flowengine.kernels.common.ufuncs import float_kernel
from flowengine.kernels.math.unary import sigmoid as plain_sigmoid
from flowengine.kernels.nn import activations as plain
from flowengine.kernels.nn.activations import check_same
from flowengine.kernels.numpy.channels import Blocks
from flowengine.kernels.registry import kernel

#: Elements from which a bias is added by every core, and how long a row must be for NumPy's loop over rows.
_SPREAD_MIN: Final = 1 << 16
_LONG_ROW: Final = 32


_negative, _exp, _add, _divide = np.negative, np.exp, np.add, np.divide


@functools.cache
def _one(dtype: np.dtype[Any]) -> Array:
    """1 of rank 0: NumPy takes half a microsecond to convert a Python number."""
    return np.ones((), dtype)


@kernel("Sigmoid", types={"T": [float32, float64]}, device="CPU", fresh=True)
def sigmoid(x: Array) -> Any:
    """1 / (1 + exp(-x)); a large negative x gives 0 through the infinity of exp."""
    if type(x) is not np.ndarray or not x.ndim:
        return plain_sigmoid(np, x)
    # Networks of small layers ask often: what is looked up and converted costs as much as the sums.
    y, one = _negative(x), _one(x.dtype)
    _exp(y, y)
    _add(y, one, y)
    # The same bits as `reciprocal`, a little sooner.
    return _divide(one, y, y)


@kernel("Relu", device="CPU", fresh=True)
def relu(features: Array) -> Any:
    """max(x, 0); NaN stays."""
    if not is_large(features) or features.dtype.kind != "f":
        return plain.relu(np, features)
    dtype = features.dtype.type
    result = empty(features.shape, features.dtype)
    infinite = dtype(np.inf)
    blockwise(lambda x, y: np.clip(x, dtype(0), infinite, y), features, result)
    return result


@float_kernel("Elu", device="CPU", fresh=True)
def elu(xp: Any, features: Array) -> Any:
    """x where it is not negative, else exp(x) - 1."""
    return in_blocks(lambda x: relu(x) + plain.elu_below(xp, x), features)


@float_kernel("Selu", device="CPU", fresh=True)
def selu(xp: Any, features: Array) -> Any:
    """The self-normalising exponential unit."""
    scale = features.dtype.type(plain.SELU_SCALE)
    return in_blocks(lambda x: scale * relu(x) + plain.selu_below(xp, x), features)


@float_kernel("Softplus", device="CPU", fresh=True)
def softplus(xp: Any, features: Array) -> Any:
    """log(1 + exp(x)), without overflow."""
    return in_blocks(lambda x: relu(x) + plain.softplus_rest(xp, x), features)


@kernel("ReluGrad", device="CPU", fresh=True)
def relu_grad(gradients: Array, features: Array) -> Any:
    """The gradient times whether the feature (or the output) is positive."""
    check_same(gradients, features)
    if not is_large(gradients, features):
        return np.multiply(gradients, np.greater(features, 0))
    result = empty(gradients.shape, gradients.dtype)
    blockwise(_relu_grad_block, gradients, features, result)
    return result


def _relu_grad_block(gradients: Array, features: Array, result: Array) -> None:
    positive = scratch("mask", features.size, np.bool_)
    np.greater(features, 0, positive)
    np.multiply(gradients, positive, result)


@kernel("Relu6", device="CPU", fresh=True)
def relu6(features: Array) -> Any:
    """min(max(x, 0), 6)."""
    if not is_large(features):
        return plain.relu6(np, features)
    dtype = features.dtype.type
    result = empty(features.shape, features.dtype)
    blockwise(lambda x, y: np.clip(x, dtype(0), dtype(6), y), features, result)
    return result


@kernel("BiasAdd", device="CPU", fresh=True)
def bias_add(value: Array, bias: Array, *, data_format: bytes) -> Any:
    """Add a vector along the channel axis: the last, or the second in NCHW."""
    if value.ndim > 1 and bias.shape == value.shape[-1:] and data_format == b"NHWC":
        size = value.size
        if size < CLIP_MIN or (size < _SPREAD_MIN and bias.size >= _LONG_ROW):
            return np.add(value, bias)
        if value.flags.c_contiguous:
            return _with_bias(value, bias)
    return plain.bias_add(np, value, bias, data_format=data_format)


@kernel("BiasAddV1", device="CPU", fresh=True)
def bias_add_v1(value: Array, bias: Array) -> Any:
    """Add a vector along the last axis."""
    return bias_add(value, bias, data_format=b"NHWC")


def _with_bias(value: Array, bias: Array) -> Array:
    """value (..., C), C-contiguous, plus bias (C,)."""
    result = empty(value.shape, value.dtype)
    rows, sums = value.reshape(-1, bias.size), result.reshape(-1, bias.size)
    blocks = Blocks(*rows.shape)
    vectors = blocks.vector(bias)
    blocks.run(
        lambda _, part, repeat: np.add(
            blocks.long(rows, part, repeat), vectors[repeat], blocks.long(sums, part, repeat)
        )
    )
    return result
