"""Batch normalisation in its versions with gradients, and local response normalisation.

Statistics are in float32 whatever the type of the features. `norms` does the arithmetic on rows (rows, C):
`Normalization` for any array module, what `kernels/numpy` has, in blocks, for NumPy's.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import float32, float64
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.ufuncs import float_kernel, shape_text
from flowengine.kernels.common.windows import from_channels_last, is_channels_first, to_channels_last
from flowengine.kernels.registry import kernel

#: The versions that give nothing else for the gradient's sake than statistics.
_WITHOUT_RESERVED: Final = frozenset({"FusedBatchNorm", "FusedBatchNormV2"})
#: Channels up to which neighbours are summed by a matrix product.
_BAND_MAX: Final = 256


def _rows(xp: Any, x: Array, channels_first: bool) -> Any:
    """(N, ..., C) or (N, C, ...) as float32 (rows, C)."""
    last = to_channels_last(x, channels_first)
    return xp.ascontiguousarray(last, np.float32).reshape(-1, last.shape[-1])


def _restored(xp: Any, rows: Array, like: Array, channels_first: bool) -> Any:
    shape = to_channels_last(like, channels_first).shape
    return from_channels_last(xp, rows.reshape(shape), channels_first).astype(like.dtype, copy=False)


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


class Normalization:
    """The arithmetic of batch normalisation on float32 rows (rows, C) by arrays of `xp`."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp

    def normalized(
        self, rows: Array, mean: Array, variance: Array, scale: Array, offset: Array, epsilon: float
    ) -> Any:
        """Rows centred by a mean, scaled by a variance, then scaled and shifted."""
        factor = scale / self._xp.sqrt(variance + np.float32(epsilon))
        return (rows - mean) * factor + offset

    def normalized_by_itself(
        self, rows: Array, scale: Array, offset: Array, epsilon: float
    ) -> tuple[Any, Any, Any]:
        """Apply `normalized` with the rows' own mean and mean squared deviation; return these two as well."""
        share = np.float32(1) / np.float32(rows.shape[0])
        mean = rows.sum(0) * share
        variance = self._xp.square(rows - mean).sum(0) * share
        return self.normalized(rows, mean, variance, scale, offset, epsilon), mean, variance

    def gradients(
        self,
        rows: Array,
        upstream: Array,
        scale: Array,
        mean: Array,
        variance: Array,
        epsilon: float,
        is_training: bool,
    ) -> tuple[Any, Any, Any]:
        """The gradients of the rows, of scale and of offset."""
        inverse = np.float32(1) / self._xp.sqrt(variance + np.float32(epsilon))
        centred = rows - mean
        offset_backprop = upstream.sum(0)
        along = (centred * upstream).sum(0)
        result = upstream
        if is_training:
            count = np.float32(rows.shape[0])
            slopes = along * inverse * inverse / count
            result = upstream - centred * slopes - offset_backprop / count
        return result * (scale * inverse), along * inverse, offset_backprop


def batch_normalized(
    xp: Any, norms: Any, x: Array, scale: Array, offset: Array, mean: Array, variance: Array, node: Node
) -> Any:
    """Normalise each channel of (N, H, W, C) or (N, C, H, W), then scale and shift it.

    In training by the statistics of the batch, else by the given ones. Returns y; the mean and the
    (unbiased) variance; for the gradient the mean and the (biased) variance; in V3 one reserved number
    more. An empty batch has NaN for mean and variance, given ones or not.

    With an `exponential_avg_factor` f below 1, which graphs of TensorFlow 2 may have, mean and variance are
    moving ones: 1 - f of the given ones and f of those of the batch; y and what the gradient gets are as
    without it.
    """
    attrs = node.attrs
    first = is_channels_first(attrs["data_format"])
    _check(x, first, scale=scale, offset=offset)
    rows = _rows(xp, x, first)
    is_training = attrs["is_training"]
    factor = np.float32(attrs.get("exponential_avg_factor", 1.0))
    if is_training and factor == 1:
        for name, vector in (("estimated_mean", mean), ("estimated_variance", variance)):
            if vector.size and vector.shape != scale.shape:
                raise InvalidArgumentError(f"{name} must be empty for training{shape_text(vector)}")
    else:
        _check(x, first, estimated_mean=mean, estimated_variance=variance)
    if not rows.size:
        outputs = _of_nothing(xp, x, scale, is_training)
    elif is_training:
        y, batch_mean, biased = norms.normalized_by_itself(rows, scale, offset, attrs["epsilon"])
        count = rows.shape[0]
        unbiased = biased * np.float32(count / max(count - 1, 1))
        moving = (batch_mean.copy(), unbiased)
        if factor != 1:
            pairs = zip(moving, (mean, variance), strict=True)
            moving = tuple(new * factor + old * (np.float32(1) - factor) for new, old in pairs)
        outputs = (_restored(xp, y, x, first), *moving, batch_mean, biased)
    else:
        y = norms.normalized(rows, mean, variance, scale, offset, attrs["epsilon"])
        outputs = (_restored(xp, y, x, first), mean.copy(), variance.copy(), mean.copy(), variance.copy())
    return outputs if node.op in _WITHOUT_RESERVED else (*outputs, xp.zeros((), np.float32))


def _of_nothing(xp: Any, x: Array, scale: Array, is_training: bool) -> tuple[Any, ...]:
    """The results for an empty batch; what the gradient gets is NaN after training, else 0."""
    unknown = xp.full(scale.shape, np.nan, np.float32)
    kept = unknown if is_training else xp.zeros(scale.shape, np.float32)
    return xp.empty(x.shape, x.dtype), unknown, unknown.copy(), kept.copy(), kept.copy()


@kernel("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", fresh=True)
def fused_batch_norm(
    xp: Any, x: Array, scale: Array, offset: Array, mean: Array, variance: Array, *, node: Node
) -> Any:
    """Normalise each channel of (N, H, W, C) or (N, C, H, W), then scale and shift it."""
    return batch_normalized(xp, Normalization(xp), x, scale, offset, mean, variance, node)


def batch_gradients(
    xp: Any,
    norms: Any,
    gradient: Array,
    x: Array,
    scale: Array,
    mean: Array,
    variance: Array,
    node: Node,
) -> Any:
    """Gradients of x, scale and offset from the saved mean and (biased) variance."""
    attrs = node.attrs
    first = is_channels_first(attrs["data_format"])
    _check(x, first, scale=scale, saved_mean=mean, saved_variance=variance)
    if gradient.shape != x.shape:
        raise InvalidArgumentError(
            f"x and y_backprop must have the same shape: {shape_text(x)} vs. {shape_text(gradient)}"
        )
    rows, upstream = _rows(xp, x, first), _rows(xp, gradient, first)
    if rows.size:
        result, scale_backprop, offset_backprop = norms.gradients(
            rows, upstream, scale, mean, variance, attrs["epsilon"], attrs["is_training"]
        )
        result = _restored(xp, result, x, first)
    else:
        # Statistics of an empty batch are NaN, the sums that they take part in are 0 for all that.
        result, scale_backprop = xp.empty(x.shape, x.dtype), xp.zeros(scale.shape, np.float32)
        offset_backprop = scale_backprop.copy()
    reserved = xp.zeros((), np.float32)
    return result, scale_backprop, offset_backprop, reserved, reserved.copy()


@kernel("FusedBatchNormGrad", "FusedBatchNormGradV2", fresh=True)
def fused_batch_norm_grad(
    xp: Any, y_backprop: Array, x: Array, scale: Array, mean: Array, variance: Array, *, node: Node
) -> Any:
    """Gradients of x, scale and offset from the saved mean and (biased) variance."""
    return batch_gradients(xp, Normalization(xp), y_backprop, x, scale, mean, variance, node)


@kernel("FusedBatchNormGradV3", fresh=True)
def fused_batch_norm_grad_v3(
    xp: Any,
    y_backprop: Array,
    x: Array,
    scale: Array,
    mean: Array,
    variance: Array,
    reserved: Array,
    *,
    node: Node,
) -> Any:
    """`FusedBatchNormGradV2` with a reserved input that is not needed here."""
    return batch_gradients(xp, Normalization(xp), y_backprop, x, scale, mean, variance, node)


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


def _banded_sum(xp: Any, values: Array, radius: int) -> Any:
    """Along the last axis, the sum of each element with its neighbours up to `radius` away."""
    depth = values.shape[-1]
    if depth <= _BAND_MAX:
        # A product with a matrix of ones near its diagonal: cheaper than sums of shifted channels.
        places = xp.arange(depth)
        band = (xp.abs(places[:, None] - places) <= radius).astype(values.dtype)
        product: Array = xp.dot(values.reshape(-1, depth), band)
        return product.reshape(values.shape)
    result = values.copy()
    for distance in range(1, min(radius, depth - 1) + 1):
        result[..., distance:] += values[..., :-distance]
        result[..., :-distance] += values[..., distance:]
    return result


def _inverse_power(xp: Any, norm: Array, beta: float) -> Any:
    """norm ** -beta, with square roots for the exponents that networks use."""
    if beta == 0.5:
        root: Array = xp.sqrt(norm)
    elif beta == 0.75:
        root = xp.sqrt(norm)
        root *= xp.sqrt(root)
    elif beta == 1.0:
        root = norm
    else:
        power: Array = xp.power(norm, norm.dtype.type(-beta))
        return power
    inverse: Array = xp.reciprocal(root)
    return inverse


def _response_norm(xp: Any, x: Array, radius: int, bias: float, alpha: float) -> Any:
    if x.ndim != 4:
        raise InvalidArgumentError(f"in must be 4-dimensional, not {shape_text(x)}")
    norm = _banded_sum(xp, xp.square(x), radius)
    norm *= x.dtype.type(alpha)
    norm += x.dtype.type(bias)
    return norm


@float_kernel("LRN", fresh=True)
def lrn(xp: Any, x: Array, *, depth_radius: int, bias: float, alpha: float, beta: float) -> Any:
    """x / (bias + alpha * sum of the squares of neighbouring channels) ** beta."""
    norm = _response_norm(xp, x, depth_radius, bias, alpha)
    return xp.multiply(x, _inverse_power(xp, norm, beta))


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
    norm = _response_norm(xp, input_image, depth_radius, bias, alpha)
    along = _banded_sum(xp, input_grads * output_image / norm, depth_radius)
    along *= input_image
    along *= dtype(-2.0 * alpha * beta)
    along += input_grads * _inverse_power(xp, norm, beta)
    return along
