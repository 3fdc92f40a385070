"""Activations, poolings and normalisations of quantised tensors. Ranges are kept in host memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.indices import along
from flowengine.kernels.common.interpolation import linear
from flowengine.kernels.common.windows import windows
from flowengine.kernels.image.resizing import mixed, output_size
from flowengine.kernels.quantized import codes
from flowengine.kernels.quantized.conversion import first, scalar
from flowengine.kernels.registry import kernel

_FEATURES: Final = ("min_features", "max_features", "min_activations", "max_activations")


def _keeps_type(attrs: Mapping[str, Any]) -> bool:
    """Codes stay as they are: of another type they would be other numbers."""
    return bool(attrs["out_type"] == attrs["Tinput"])


@kernel("QuantizedRelu", supports=_keeps_type, host=_FEATURES, fresh=True)
def quantized_relu(xp: Any, features: Array, min_features: Any, max_features: Any, *, Tinput: DType) -> Any:
    """Codes not below that of 0."""
    low, high = scalar(min_features, "min_features"), scalar(max_features, "max_features")
    zero = features.dtype.type(codes.code(0.0, low, high, Tinput.base))
    return xp.maximum(features, zero), low, high


@kernel("QuantizedRelu6", supports=_keeps_type, host=_FEATURES, fresh=True)
def quantized_relu6(xp: Any, features: Array, min_features: Any, max_features: Any, *, Tinput: DType) -> Any:
    """Codes not below that of 0, nor above that of 6."""
    low, high = scalar(min_features, "min_features"), scalar(max_features, "max_features")
    zero, six = (features.dtype.type(codes.code(v, low, high, Tinput.base)) for v in (0.0, 6.0))
    return xp.minimum(xp.maximum(features, zero), six), low, high


@kernel("QuantizedReluX", supports=_keeps_type, host=(*_FEATURES, "max_value"), fresh=True)
def quantized_relu_x(
    xp: Any, features: Array, max_value: Any, min_features: Any, max_features: Any, *, Tinput: DType
) -> Any:
    """Codes not below that of 0, nor above that of a number."""
    low, high = scalar(min_features, "min_features"), scalar(max_features, "max_features")
    ends = (0.0, float(scalar(max_value, "max_value")))
    zero, most = (features.dtype.type(codes.code(v, low, high, Tinput.base)) for v in ends)
    return xp.minimum(xp.maximum(features, zero), most), low, high


#: A sum's range is that many times as wide as those of what is added, so that many can be added.
_ROOM: Final = np.float32(1 << 17)


@kernel(
    "QuantizedBiasAdd",
    fresh=True,
    host=("min_input", "max_input", "min_bias", "max_bias", "min_out", "max_out"),
)
def quantized_bias_add(
    xp: Any,
    x: Array,
    bias: Array,
    min_input: Any,
    max_input: Any,
    min_bias: Any,
    max_bias: Any,
    *,
    T1: DType,
    T2: DType,
    out_type: DType,
) -> Any:
    """A number for each index of the last axis added, in a range that both are brought to first."""
    if x.ndim < 2:
        raise InvalidArgumentError(f"Input tensor must be at least 2D: {brackets(x.shape)}")
    if bias.ndim != 1 or bias.shape[0] != x.shape[-1]:
        raise InvalidArgumentError(
            "Must provide as many biases as the last dimension of the input tensor: "
            f"{brackets(bias.shape)} vs. {brackets(x.shape)}"
        )
    first = scalar(min_input, "min_input"), scalar(max_input, "max_input")
    second = scalar(min_bias, "min_bias"), scalar(max_bias, "max_bias")
    end = max(*map(abs, first), *map(abs, second)) * _ROOM
    target = out_type.base
    parts = [
        codes.quantized(xp, codes.dequantized(value, *given, dtype.base), -end, end, target)
        for value, given, dtype in ((x, first, T1), (bias, second, T2))
    ]
    zero = np.int32(codes.code(0.0, -end, end, target))
    return parts[0] + (parts[1] + zero), -end, end


def _check_pool(x: Array, ksize: tuple[int, ...], strides: tuple[int, ...]) -> None:
    if x.ndim != 4:
        raise InvalidArgumentError(f"tensor_in must be 4-dimensional: {brackets(x.shape)}")
    for name, values in (("ksize", ksize), ("strides", strides)):
        if len(values) != 4 or min(values) < 1:
            raise InvalidArgumentError(
                f"Sliding window {name} field must specify 4 dimensions: {list(values)}"
            )
    if (ksize[0], strides[0], ksize[3], strides[3]) != (1, 1, 1, 1):
        raise UnimplementedError(f"Pooling is only supported over height and width: {list(ksize)}")


def _pooled(xp: Any, x: Array, ksize: Any, strides: Any, padding: bytes, fill: Any) -> tuple[Any, Any]:
    """Return each window's input, (N, H', W', h, w, C), with `fill` around the images; and the geometry."""
    geometry = windows(x.shape[1:3], tuple(ksize[1:3]), tuple(strides[1:3]), (1, 1), padding, ())
    return geometry.patches(xp, xp.ascontiguousarray(geometry.pad(xp, x, fill))), geometry


_POOLS: Final = ("min_input", "max_input", "min_output", "max_output")


@kernel("QuantizedMaxPool", host=_POOLS, fresh=True)
def quantized_max_pool(
    xp: Any, x: Array, min_input: Any, max_input: Any, *, ksize: Any, strides: Any, padding: bytes
) -> Any:
    """The greatest code of each window."""
    _check_pool(x, ksize, strides)
    low, high = scalar(min_input, "min_input"), scalar(max_input, "max_input")
    patches, _ = _pooled(xp, x, ksize, strides, padding, x.dtype.type(np.iinfo(x.dtype).min))
    return patches.max((3, 4)), low, high


@kernel("QuantizedAvgPool", host=_POOLS, fresh=True)
def quantized_avg_pool(
    xp: Any, x: Array, min_input: Any, max_input: Any, *, ksize: Any, strides: Any, padding: bytes
) -> Any:
    """The mean code of each window, what is behind the point cut off; the padding does not count."""
    _check_pool(x, ksize, strides)
    low, high = scalar(min_input, "min_input"), scalar(max_input, "max_input")
    wide = x.astype(np.int32)
    patches, geometry = _pooled(xp, wide, ksize, strides, padding, 0)
    inside = geometry.pad(xp, xp.ones((1, *x.shape[1:3], 1), np.int32), 0)
    counts = geometry.patches(xp, xp.ascontiguousarray(inside)).sum((3, 4))
    totals = patches.sum((3, 4))
    # Towards zero, as integers are divided there.
    found = xp.where(totals < 0, -(-totals // counts), totals // counts)
    return found.astype(x.dtype), low, high


@kernel("QuantizedInstanceNorm", fresh=True, device="CPU")
def quantized_instance_norm(
    x: Array,
    x_min: Any,
    x_max: Any,
    *,
    output_range_given: bool,
    given_y_min: float,
    given_y_max: float,
    variance_epsilon: float,
    min_separation: float,
) -> Any:
    """Each channel of each image less its mean, by its deviation; codes of the range that this takes up."""
    if output_range_given and given_y_min >= given_y_max:
        raise InvalidArgumentError(
            f"given_y_min must be less than given_y_max : {given_y_min} >= {given_y_max}"
        )
    low, high = scalar(x_min, "x_min"), scalar(x_max, "x_max")
    if not low < high:
        raise InvalidArgumentError(f"input_min must be less than input_max : {low} >= {high}")
    if x.ndim != 4:
        raise InvalidArgumentError(f"x must be 4-dimensional: {brackets(x.shape)}")
    scale = (high - low) / np.float32(255)
    values = x.astype(np.float32)
    if values.size:
        values = scale * (values - values.mean((1, 2), keepdims=True))
        values /= np.sqrt(np.square(values).mean((1, 2), keepdims=True) + np.float32(variance_epsilon))
    normed = values
    least, most = np.float32(given_y_min), np.float32(given_y_max)
    if not output_range_given:
        least = normed.min(initial=np.inf)
        most = normed.max(initial=-np.inf)
    if most - least < np.float32(min_separation):
        most = np.float32(least + np.float32(min_separation))
    return codes.quantized(np, normed, least, most, dtypes.quint8), least, most


@kernel("QuantizedBatchNormWithGlobalNormalization", fresh=True, device="CPU")
def quantized_batch_norm(
    t: Array,
    *given: Any,
    Tinput: DType,
    out_type: DType,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> Any:
    """(t - m) / sqrt(v + epsilon), times gamma where it is to be scaled, plus beta; in integers.

    given   the range of t, then m, v, beta and gamma, each with its range
    """
    ranges = [(first(a, "min"), first(b, "max")) for a, b in zip(given[0::3], given[1::3], strict=True)]
    vectors = given[2::3]
    if t.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional: {brackets(t.shape)}")
    for name, vector in zip(("mean", "var", "beta", "gamma"), vectors, strict=True):
        if vector.ndim != 1 or vector.shape[0] != t.shape[-1]:
            raise InvalidArgumentError(
                f"{name} must be 1-dimensional with a number for each channel of {brackets(t.shape)}, but "
                f"has shape {brackets(vector.shape)}"
            )
    source, target = Tinput.base, out_type.base
    mean, variance, beta, gamma = (
        codes.numbers(np, vector, *bounds, source) for vector, bounds in zip(vectors, ranges[1:], strict=True)
    )
    # Numbers up to a million, with ten bits behind the point.
    low, high = np.float32(-(1 << 20)), np.float32(1 << 20)
    scale = np.float32(1) / np.sqrt(variance + np.float32(variance_epsilon))
    if scale_after_normalization:
        scale = scale * gamma
    factor = codes.quantized_exactly(np, scale, low, high, target).astype(np.int64)
    offset = codes.quantized_exactly(np, -mean * scale + beta, low, high, target)
    one = codes.code(1.0, low, high, target)
    values = codes.quantized_exactly(np, codes.numbers(np, t, *ranges[0], source), low, high, target)
    products = (values.astype(np.int64) * factor).astype(np.int32)
    quotients = np.where(products < 0, -(-products.astype(np.int64) // one), products // one)
    return (quotients + offset).astype(np.int32), low, high


@kernel("QuantizedResizeBilinear", fresh=True, host=("size", "min", "max", "out_min", "out_max"))
def quantized_resize_bilinear(
    xp: Any,
    images: Array,
    size: Array,
    low: Any,
    high: Any,
    *,
    T: DType,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Any:
    """Mix the four neighbours of each place by what their codes stand for."""
    least, most = scalar(low, "min"), scalar(high, "max")
    wanted = output_size(images, size)
    tables = [
        linear(length, out, align_corners, half_pixel_centers)
        for length, out in zip(images.shape[1:3], wanted, strict=True)
    ]
    if T.base is dtypes.float32:
        for axis in (2, 1):
            images = mixed(xp, images, axis, *map(xp.asarray, tables[axis - 1]))
        return images, least, most
    x = images.astype(np.int64)
    bits, together = (7, True) if T.base is dtypes.quint8 else (30, False)
    for axis in (2, 1):
        x = _mixed_codes(xp, x, axis, tables[axis - 1], bits, keeps=together)
    if together:
        x = (x + np.int64(1 << (2 * bits - 1))) >> np.int64(2 * bits)
    return x.astype(images.dtype), least, most


def _mixed_codes(xp: Any, x: Array, axis: int, table: Any, bits: int, *, keeps: bool) -> Any:
    """Neighbours along an axis mixed by whole weights of so many bits.

    keeps   leave the results that many bits larger instead of rounding them
    """
    lower, upper, weight = table
    shares = xp.asarray((weight * np.float32(1 << bits)).astype(np.int64))
    shares = shares.reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    low = along(xp, x, xp.asarray(lower), axis)
    more = (along(xp, x, xp.asarray(upper), axis) - low) * shares
    if keeps:
        return (low << np.int64(bits)) + more
    return low + ((more + np.int64(1 << (bits - 1))) >> np.int64(bits))
