"""Batch normalisation in its versions with gradients, and local response normalisation.

Statistics are in float32 whatever the type of the features. A large batch is walked over in blocks of
rows (`channels`), so that what is centred and squared stays in cache.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import float32, float64
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.channels import Blocks
from flowengine.kernels.common.ufuncs import float_kernel, shape_text
from flowengine.kernels.common.windows import from_channels_last, is_channels_first, to_channels_last
from flowengine.kernels.nn.activations import relu
from flowengine.kernels.registry import kernel

#: The versions that give nothing else for the gradient's sake than statistics.
_WITHOUT_RESERVED: Final = frozenset({"FusedBatchNorm", "FusedBatchNormV2"})
#: Channels up to which neighbours are summed by a matrix product.
_BAND_MAX: Final = 256


def _rows(x: Array, channels_first: bool) -> Array:
    """(N, ..., C) or (N, C, ...) as float32 (rows, C)."""
    last = to_channels_last(x, channels_first)
    return np.ascontiguousarray(last, np.float32).reshape(-1, last.shape[-1])


def _restored(rows: Array, like: Array, channels_first: bool) -> Array:
    shape = to_channels_last(like, channels_first).shape
    return from_channels_last(rows.reshape(shape), channels_first).astype(like.dtype, copy=False)


def _check(x: Array, first: bool, **vectors: Array) -> None:
    if x.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional: {shape_text(x)}")
    channels = x.shape[1 if first else -1]
    for name, vector in vectors.items():
        if vector.ndim != 1:
            raise InvalidArgumentError(f"{name} must be 1-dimensional: {shape_text(vector)}")
        if vector.shape[0] != channels:
            raise InvalidArgumentError(
                f"{name} must have as many elements as x has channels: {vector.shape[0]} vs. {channels}"
            )


def _normalized(
    rows: Array, mean: Array, variance: Array, scale: Array, offset: Array, epsilon: float
) -> Array:
    result = np.empty_like(rows)
    blocks = Blocks(*rows.shape)
    means = blocks.vector(mean)
    factors = blocks.vector(scale / np.sqrt(variance + np.float32(epsilon)))
    offsets = blocks.vector(offset)

    def work(number: int, part: slice, repeat: int) -> None:
        block = blocks.long(result, part, repeat)
        np.subtract(blocks.long(rows, part, repeat), means[repeat], out=block)
        np.multiply(block, factors[repeat], out=block)
        np.add(block, offsets[repeat], out=block)

    blocks.run(work)
    return result


def _normalized_by_itself(
    rows: Array, scale: Array, offset: Array, epsilon: float
) -> tuple[Array, Array, Array]:
    """What `_normalized` gives with the rows' own statistics; and these: mean, mean squared deviation."""
    blocks = Blocks(*rows.shape)
    share = np.float32(1) / np.float32(rows.shape[0])
    # Far from 0 the last bit of the mean shows in what is centred by it: rounded as TensorFlow rounds.
    mean = blocks.sums(lambda p, r: np.add.reduce(blocks.long(rows, p, r), 0), np.float32) * share
    means = blocks.vector(mean)
    result = np.empty_like(rows)

    def squares(part: slice, repeat: int) -> Array:
        centred = blocks.long(result, part, repeat)
        np.subtract(blocks.long(rows, part, repeat), means[repeat], out=centred)
        return _products(centred, centred)

    variance = blocks.sums(squares, np.float32) * share
    factors = blocks.vector(scale / np.sqrt(variance + np.float32(epsilon)))
    offsets = blocks.vector(offset)

    def work(number: int, part: slice, repeat: int) -> None:
        block = blocks.long(result, part, repeat)
        np.multiply(block, factors[repeat], out=block)
        np.add(block, offsets[repeat], out=block)

    blocks.run(work)
    return result, mean, variance


def _products(x: Array, y: Array) -> Array:
    """The sums of the columns of x y: products are added as they are made."""
    sums: Array = np.einsum("rx,rx->x", x, y)
    return sums


@kernel("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", fresh=True)
def fused_batch_norm(
    x: Array, scale: Array, offset: Array, mean: Array, variance: Array, *, node: Node
) -> Any:
    """Normalise each channel of (N, H, W, C) or (N, C, H, W), then scale and shift it.

    In training by the statistics of the batch, else by the given ones. Returns y; the mean and the
    (unbiased) variance; for the gradient the mean and the (biased) variance; in V3 one reserved number
    more. An empty batch has NaN for statistics.
    """
    attrs = node.attrs
    first = is_channels_first(attrs["data_format"])
    _check(x, first, scale=scale, offset=offset)
    rows = _rows(x, first)
    if attrs["is_training"]:
        for name, vector in (("estimated_mean", mean), ("estimated_variance", variance)):
            if vector.size:
                raise InvalidArgumentError(f"{name} must be empty for training{shape_text(vector)}")
        if not rows.size:
            unknown = np.full(scale.shape, np.nan, np.float32)
            outputs = (np.empty(x.shape, x.dtype), unknown, unknown.copy(), unknown.copy(), unknown.copy())
        else:
            y, batch_mean, biased = _normalized_by_itself(rows, scale, offset, attrs["epsilon"])
            count = rows.shape[0]
            unbiased = biased * np.float32(count / max(count - 1, 1))
            outputs = (_restored(y, x, first), batch_mean, unbiased, batch_mean.copy(), biased)
    else:
        _check(x, first, estimated_mean=mean, estimated_variance=variance)
        y = _normalized(rows, mean, variance, scale, offset, attrs["epsilon"])
        outputs = (_restored(y, x, first), mean.copy(), variance.copy(), mean.copy(), variance.copy())
    return outputs if node.op in _WITHOUT_RESERVED else (*outputs, np.zeros((), np.float32))


@kernel("_BatchNormRelu", fresh=True)
def batch_norm_relu(
    x: Array, scale: Array, offset: Array, mean: Array, variance: Array, *, node: Node
) -> Any:
    """`FusedBatchNormV3`, the first of its results through Relu: see `passes/claims/rectify_norms.py`."""
    y, *others = fused_batch_norm(x, scale, offset, mean, variance, node=node)
    return (relu(np, y), *others)


def _batch_norm_grad(
    gradient: Array, x: Array, scale: Array, mean: Array, variance: Array, node: Node
) -> Any:
    attrs = node.attrs
    first = is_channels_first(attrs["data_format"])
    _check(x, first, scale=scale, saved_mean=mean, saved_variance=variance)
    if gradient.shape != x.shape:
        raise InvalidArgumentError(
            f"x and y_backprop must have the same shape: {shape_text(x)} vs. {shape_text(gradient)}"
        )
    rows, upstream = _rows(x, first), _rows(gradient, first)
    inverse = np.float32(1) / np.sqrt(variance + np.float32(attrs["epsilon"]))
    blocks = Blocks(*rows.shape)
    result = np.empty_like(rows)
    means = blocks.vector(mean)
    offset_backprop = blocks.sums(lambda p, r: np.add.reduce(blocks.long(upstream, p, r), 0), np.float32)

    def products(part: slice, repeat: int) -> Array:
        centred = blocks.long(result, part, repeat)
        np.subtract(blocks.long(rows, part, repeat), means[repeat], out=centred)
        return _products(centred, blocks.long(upstream, part, repeat))

    along = blocks.sums(products, np.float32)
    scale_backprop = along * inverse
    factors = blocks.vector(scale * inverse)
    is_training = attrs["is_training"] and rows.shape[0] > 0
    if is_training:
        count = np.float32(rows.shape[0])
        mean_upstream = blocks.vector(offset_backprop / count)
        slopes = blocks.vector(along * inverse * inverse / count)

    def work(number: int, part: slice, repeat: int) -> None:
        block, arrived = blocks.long(result, part, repeat), blocks.long(upstream, part, repeat)
        if not is_training:
            np.multiply(arrived, factors[repeat], out=block)
            return
        # `block` holds the centred features.
        np.multiply(block, slopes[repeat], out=block)
        np.subtract(arrived, block, out=block)
        np.subtract(block, mean_upstream[repeat], out=block)
        np.multiply(block, factors[repeat], out=block)

    blocks.run(work)
    reserved = np.zeros((), np.float32)
    return _restored(result, x, first), scale_backprop, offset_backprop, reserved, reserved.copy()


@kernel("FusedBatchNormGrad", "FusedBatchNormGradV2", fresh=True)
def fused_batch_norm_grad(
    y_backprop: Array, x: Array, scale: Array, mean: Array, variance: Array, *, node: Node
) -> Any:
    """Gradients of x, scale and offset from the saved mean and (biased) variance."""
    return _batch_norm_grad(y_backprop, x, scale, mean, variance, node)


@kernel("FusedBatchNormGradV3", fresh=True)
def fused_batch_norm_grad_v3(
    y_backprop: Array, x: Array, scale: Array, mean: Array, variance: Array, reserved: Array, *, node: Node
) -> Any:
    """`FusedBatchNormGradV2` with a reserved input that is not needed here."""
    return _batch_norm_grad(y_backprop, x, scale, mean, variance, node)


@float_kernel("BatchNormWithGlobalNormalization", types=(float32, float64), fresh=True)
def batch_norm_with_global_normalization(
    xp: Any,
    t: Array,
    m: Array,
    v: Array,
    beta: Array,
    gamma: Array,
    *,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> Any:
    """(t - m) / sqrt(v + epsilon), times gamma where it is to be scaled, plus beta."""
    _check(t, False, mean=m, var=v, beta=beta, gamma=gamma)
    factor = 1 / xp.sqrt(v + v.dtype.type(variance_epsilon))
    if scale_after_normalization:
        factor = factor * gamma
    return (t - m) * factor + beta


@float_kernel("BatchNormWithGlobalNormalizationGrad", types=(float32, float64), fresh=True)
def batch_norm_with_global_normalization_grad(
    xp: Any,
    t: Array,
    m: Array,
    v: Array,
    gamma: Array,
    backprop: Array,
    *,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> Any:
    """Gradients of t, m, v, beta and gamma."""
    _check(t, False, mean=m, var=v, gamma=gamma)
    axes = (0, 1, 2)
    inverse = 1 / xp.sqrt(v + v.dtype.type(variance_epsilon))
    upstream = backprop * gamma if scale_after_normalization else backprop
    dx = upstream * inverse
    dm = -xp.add.reduce(dx, axis=axes)
    dv = xp.add.reduce(upstream * (t - m), axis=axes) * inverse**3 * t.dtype.type(-0.5)
    db = xp.add.reduce(backprop, axis=axes)
    along = xp.add.reduce(backprop * (t - m), axis=axes) * inverse
    dg = along if scale_after_normalization else xp.zeros_like(along)
    return dx, dm, dv, db, dg


def _banded_sum(values: Array, radius: int) -> Array:
    """Along the last axis, the sum of each element with its neighbours up to `radius` away."""
    depth = values.shape[-1]
    if depth <= _BAND_MAX:
        # A product with a matrix of ones near its diagonal: cheaper than sums of shifted channels.
        places = np.arange(depth)
        band = (np.abs(places[:, None] - places) <= radius).astype(values.dtype)
        product: Array = np.dot(values.reshape(-1, depth), band)
        return product.reshape(values.shape)
    result = values.copy()
    for distance in range(1, min(radius, depth - 1) + 1):
        result[..., distance:] += values[..., :-distance]
        result[..., :-distance] += values[..., distance:]
    return result


def _inverse_power(norm: Array, beta: float) -> Array:
    """norm ** -beta, with square roots for the exponents that networks use."""
    if beta == 0.5:
        root: Array = np.sqrt(norm)
    elif beta == 0.75:
        root = np.sqrt(norm)
        root *= np.sqrt(root)
    elif beta == 1.0:
        root = norm
    else:
        power: Array = np.power(norm, norm.dtype.type(-beta))
        return power
    inverse: Array = np.reciprocal(root)
    return inverse


def _response_norm(x: Array, radius: int, bias: float, alpha: float) -> Array:
    if x.ndim != 4:
        raise InvalidArgumentError(f"in must be 4-dimensional, not {shape_text(x)}")
    norm = _banded_sum(np.square(x), radius)
    norm *= x.dtype.type(alpha)
    norm += x.dtype.type(bias)
    return norm


@float_kernel("LRN", fresh=True)
def lrn(xp: Any, x: Array, *, depth_radius: int, bias: float, alpha: float, beta: float) -> Any:
    """x / (bias + alpha * sum of the squares of neighbouring channels) ** beta."""
    norm = _response_norm(x, depth_radius, bias, alpha)
    return xp.multiply(x, _inverse_power(norm, beta))


@float_kernel("LRNGrad", fresh=True)
def lrn_grad(
    xp: Any,
    input_grads: Array,
    input_image: Array,
    output_image: Array,
    *,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Any:
    """The gradient of `LRN`'s input from the gradient, the input and the output."""
    if not input_grads.shape == input_image.shape == output_image.shape:
        raise InvalidArgumentError(
            "input_grads, input_image, and out_image should have the same shape: "
            f"{shape_text(input_grads)}, {shape_text(input_image)}, {shape_text(output_image)}"
        )
    dtype = input_image.dtype.type
    norm = _response_norm(input_image, depth_radius, bias, alpha)
    along = _banded_sum(input_grads * output_image / norm, depth_radius)
    along *= input_image
    along *= dtype(-2.0 * alpha * beta)
    along += input_grads * _inverse_power(norm, beta)
    return along
