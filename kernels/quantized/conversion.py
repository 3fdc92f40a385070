"""Numbers to quantised ones and back, and the ranges that this needs. Ranges are kept in host memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import brackets, shape_of
from flowengine.kernels.quantized import codes
from flowengine.kernels.registry import kernel

_LARGEST: Final = np.finfo(np.float32).max
_RANGES: Final = ("min_range", "max_range", "output_min", "output_max")


def _bounds(x: Array, low: Any, high: Any, axis: int) -> list[tuple[Any, Any]]:
    """The range of each slice along the axis, of the whole where it is -1."""
    if axis < -1 or axis >= x.ndim:
        raise InvalidArgumentError(
            f"axis should be at least -1 and less than the dimensions of the input ({x.ndim}), got {axis}"
        )
    slices = 1 if axis == -1 else x.shape[axis]
    for name, value in (("min_range", low), ("max_range", high)):
        if getattr(value, "size", 1) != slices:
            raise InvalidArgumentError(
                f"{name} must have as many elements as the input on the quantization axis ({axis}), "
                f"got {value.size}, expected {slices}"
            )
    return [
        (np.float32(a), np.float32(b))
        for a, b in zip(low.reshape(-1).tolist(), high.reshape(-1).tolist(), strict=True)
    ]


def _along(xp: Any, x: Array, axis: int, ranges: Any, convert: Callable[..., Any]) -> Any:
    """`convert(slice, low, high)` of each slice along the axis, put together again."""
    if axis == -1:
        return convert(x, *ranges[0])
    parts = [convert(part, *bounds) for part, bounds in zip(xp.moveaxis(x, axis, 0), ranges, strict=True)]
    return xp.stack(parts, axis=axis)


def _half(dtype: DType) -> Any:
    """Return the offset that makes codes with a sign begin at zero."""
    return np.float32(codes.steps(dtype) / 2 if int(dtype.min) else 0)


def _combined(xp: Any, x: Array, low: Any, high: Any, dtype: DType) -> Any:
    """The step from one end of the range to the other, in as many codes as there are."""
    scale = np.float32(np.float32(int(dtype.max) - int(dtype.min)) / (high - low))
    bounded = (xp.maximum(xp.minimum(x, high), low) - low) * scale
    if int(dtype.min):
        return codes.rounded(xp, bounded - _half(dtype)).astype(np.int64).astype(dtype.as_numpy_dtype)
    return (bounded + np.float32(0.5)).astype(np.int64).astype(dtype.as_numpy_dtype)


def _scaled_range(low: Any, high: Any, dtype: DType, narrow: bool) -> tuple[Any, Any, Any]:
    """The scale that leaves 0 where it is, and the range that codes then have."""
    least, most = np.float32(int(dtype.min) + narrow), np.float32(dtype.max)
    from_low = least / low if least * low > 0 else _LARGEST
    from_high = most / high if most * high > 0 else _LARGEST
    scale = min(from_low, from_high)
    return scale, least / scale, most / scale


def _scaled(xp: Any, x: Array, scaled: tuple[Any, Any, Any], dtype: DType, to_even: bool) -> Any:
    scale, low, high = scaled
    values = xp.maximum(xp.minimum(x, high), low) * scale
    found = xp.rint(values) if to_even else codes.rounded(xp, values)
    return _cut(xp, found, dtype)


def _cut(xp: Any, found: Array, dtype: DType) -> Any:
    """Whole numbers as codes; what 32 bits do not hold is the least of them, as on x86."""
    if dtype is dtypes.qint32:
        return found.astype(np.int32)
    return found.astype(np.int64).astype(dtype.as_numpy_dtype)


@kernel("QuantizeV2", fresh=True, host=_RANGES)
def quantize_v2(xp: Any, x: Array, min_range: Any, max_range: Any, *, node: Node) -> Any:
    """Codes of float32 numbers, and the range that they have, which has 0 in it."""
    attrs = node.attrs
    dtype, mode, axis = attrs["T"].base, attrs["mode"], attrs["axis"]
    to_even = attrs["round_mode"] == b"HALF_TO_EVEN"
    if to_even and mode != b"SCALED":
        raise InvalidArgumentError(
            f"Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '{mode.decode()}'."
        )
    given = _bounds(x, to_array(min_range), to_array(max_range), axis)
    if len(given) > 1 and mode == b"MIN_FIRST":
        raise UnimplementedError("MIN_FIRST mode is not implemented for Quantize with axis != -1.")
    ranges = []
    for low, high in given:
        if high < low:
            raise InvalidArgumentError(
                f"input_max_range must be larger than input_min_range: {high} and {low}"
            )
        least = min(np.float32(0), low)
        apart = max(np.float32(1), abs(low), abs(high)) * np.float32(attrs["ensure_minimum_range"])
        ranges.append((least, max(np.float32(0), high, least + apart)))
    if mode == b"SCALED":
        scaled = [_scaled_range(*bounds, dtype, attrs["narrow_range"]) for bounds in ranges]
        found = _along(xp, x, axis, scaled, lambda x, *triple: _scaled(xp, x, triple, dtype, to_even))
        ranges = [(low, high) for _, low, high in scaled]
    elif mode == b"MIN_FIRST":
        found = _along(xp, x, axis, ranges, lambda x, a, b: codes.quantized(xp, x, a, b, dtype))
    else:
        found = _along(xp, x, axis, ranges, lambda x, a, b: _combined(xp, x, a, b, dtype))
    if axis == -1:
        return found, *ranges[0]
    return found, *(xp.array([bounds[end] for bounds in ranges], np.float32) for end in (0, 1))


def _restored(xp: Any, x: Array, low: Any, high: Any, attrs: Any) -> Any:
    dtype, mode = attrs["T"].base, attrs["mode"]
    if mode == b"MIN_FIRST":
        return codes.dequantized(x, low, high, dtype)
    if mode == b"MIN_COMBINED":
        scale = (high - low) / (np.float32(dtype.max) - np.float32(dtype.min))
        return (x.astype(np.float32) + _half(dtype)) * scale + low
    least, most = int(dtype.min) + attrs["narrow_range"], np.float32(dtype.max)
    scale = high / most if not int(dtype.min) else max(low / np.float32(least), high / most)
    return x.astype(np.float32) * scale


@kernel("Dequantize", fresh=True, host=("min_range", "max_range"))
def dequantize(xp: Any, x: Array, min_range: Any, max_range: Any, *, node: Node) -> Any:
    """Convert codes of a range to the numbers that they stand for."""
    attrs = node.attrs
    axis = attrs["axis"]
    if attrs["dtype"].base is not dtypes.float32 and attrs["mode"] != b"MIN_COMBINED":
        raise InvalidArgumentError(
            f"When output type is bfloat16, Mode string must be 'MIN_COMBINED', is '{attrs['mode'].decode()}'"
        )
    ranges = _bounds(x, to_array(min_range), to_array(max_range), axis)
    if len(ranges) > 1 and attrs["mode"] == b"MIN_FIRST":
        raise UnimplementedError("MIN_FIRST mode is not implemented for Dequantize with axis != -1.")
    found = _along(xp, x, axis, ranges, lambda x, a, b: _restored(xp, x, a, b, attrs))
    return xp.asarray(found).astype(attrs["dtype"].base.as_numpy_dtype, copy=False)


def _actual(xp: Any, x: Array, low: Any, high: Any, dtype: DType) -> tuple[Any, Any]:
    """The range that codes take up, with 0 in it at the lower end."""
    least = int(x.min()) if x.size else int(dtype.max)
    most = int(x.max()) if x.size else int(dtype.min)
    first = codes.number(least, low, high, dtype)
    return min(np.float32(0), first), codes.number(most, low, high, dtype)


def scalar(value: Any, name: str) -> Any:
    """A float32 of rank 0; InvalidArgumentError for other shapes."""
    if shape_of(value) != ():
        raise InvalidArgumentError(f"`{name}` must be rank 0 but has shape {brackets(value.shape)}")
    return np.float32(value)


def first(value: Any, name: str) -> Any:
    """The first of one or more numbers, float32; InvalidArgumentError where there is none."""
    if not getattr(value, "size", 1):
        raise InvalidArgumentError(f"`{name}` must not be empty, but has shape {brackets(value.shape)}")
    return np.float32(to_array(value).reshape(-1)[0])


@kernel("QuantizeDownAndShrinkRange", fresh=True, device="CPU")
def quantize_down_and_shrink_range(
    x: Array, input_min: Any, input_max: Any, *, Tinput: DType, out_type: DType
) -> Any:
    """Codes of 32 bits as codes of 8, in the range that they take up."""
    given = (scalar(input_min, "input_min"), scalar(input_max, "input_max"))
    actual = _actual(np, x, *given, Tinput.base)
    return codes.requantized(np, x, given, actual, (Tinput.base, out_type.base)), *actual


@kernel("RequantizationRange", fresh=True, device="CPU")
def requantization_range(x: Array, input_min: Any, input_max: Any, *, Tinput: DType) -> Any:
    """The range that codes take up, with 0 in it at the lower end."""
    return _actual(np, x, scalar(input_min, "input_min"), scalar(input_max, "input_max"), Tinput.base)


@kernel(
    "Requantize",
    fresh=True,
    host=(
        "input_min",
        "input_max",
        "requested_output_min",
        "requested_output_max",
        "output_min",
        "output_max",
    ),
)
def requantize(
    xp: Any,
    x: Array,
    input_min: Any,
    input_max: Any,
    requested_output_min: Any,
    requested_output_max: Any,
    *,
    Tinput: DType,
    out_type: DType,
) -> Any:
    """Codes of one range as those of another."""
    given = (scalar(input_min, "input_min"), scalar(input_max, "input_max"))
    low = scalar(requested_output_min, "requested_output_min")
    high = scalar(requested_output_max, "requested_output_max")
    if low > 0:
        raise InvalidArgumentError(f"requested_output_min must be <= 0, but got {low}")
    if high < low:
        raise InvalidArgumentError(
            f"requested_output_max must be >= requested_output_min, but got {high} and {low}"
        )
    found = codes.requantized(xp, x, given, (low, high), (Tinput.base, out_type.base))
    return found, low, high


def _reach(low: Any, high: Any, channels: int) -> list[Any]:
    """The end of each channel's range that is farther from 0."""
    for name, value in (("input_min", low), ("input_max", high)):
        if shape_of(value) != (channels,):
            raise InvalidArgumentError(
                f"{name} must have a number for each of {channels} channels, but has shape "
                f"{brackets(shape_of(value))}"
            )
    return [np.float32(max(abs(a), abs(b))) for a, b in zip(low.tolist(), high.tolist(), strict=True)]


@kernel("RequantizationRangePerChannel", fresh=True, device="CPU")
def requantization_range_per_channel(
    x: Array, input_min: Any, input_max: Any, *, clip_value_max: float
) -> Any:
    """One range for all channels, as wide as the widest of them or `clip_value_max`."""
    if x.ndim != 4 or not x.size:
        raise InvalidArgumentError(f"input must be 4-dimensional and not empty, not {brackets(x.shape)}")
    channels = x.shape[-1]
    reach = _reach(input_min, input_max, channels)
    rows = x.reshape(-1, channels).astype(np.float32)
    farthest = np.abs(rows).max(0, initial=0) * np.float32(2.0**-31) * np.array(reach, np.float32)
    end = min(farthest.max(initial=0), np.float32(clip_value_max))
    return np.float32(0 if not (rows < 0).any() else -end), np.float32(end)


@kernel(
    "RequantizePerChannel",
    fresh=True,
    host=(
        "input_min",
        "input_max",
        "requested_output_min",
        "requested_output_max",
        "output_min",
        "output_max",
    ),
)
def requantize_per_channel(
    xp: Any,
    x: Array,
    input_min: Any,
    input_max: Any,
    requested_output_min: Any,
    requested_output_max: Any,
    *,
    out_type: DType,
) -> Any:
    """Codes of a range for each channel as those of one range for all, halves to even."""
    if x.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional, not {brackets(x.shape)}")
    low = scalar(requested_output_min, "requested_output_min")
    high = scalar(requested_output_max, "requested_output_max")
    most = np.float32(127 if out_type.base is dtypes.qint8 else 255)
    wanted = np.float32(max(abs(low), abs(high)))
    scales = [
        most * (reach / wanted / np.float32(2.0**31))
        for reach in _reach(to_array(input_min), to_array(input_max), x.shape[-1])
    ]
    if not math.isfinite(float(wanted)):
        raise InvalidArgumentError(f"the requested range is [{low}, {high}]")
    found = xp.rint(x.astype(np.float32) * xp.array(scales, np.float32))
    least, greatest = np.float32(out_type.base.min), np.float32(out_type.base.max)
    bounded = xp.minimum(xp.maximum(found, least), greatest)
    return bounded.astype(out_type.base.as_numpy_dtype), low, high
