"""Codes of quantised tensors, which stand for a range of numbers in equal steps.

A code of b bits is one of 2^b steps between the ends of a range. There are two ways in TensorFlow to
convert: one number at a time with intermediate results of 64 bits, and whole arrays in float32. They differ
in the last bits, and ops are defined by either, so both are here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowengine.core.dtypes import DType

#: Just below a half, so that a sum with it does not round up to the next number before it is cut off.
_HALF = np.float32(0.49999997)


def rounded(xp: Any, x: Any) -> Any:
    """To the nearest integer, halves away from zero."""
    half = _HALF if x.dtype == np.float32 else x.dtype.type(0.49999999999999994)
    return xp.trunc(x + xp.copysign(half, x))


def away_from_zero(x: float) -> float:
    """One number to the nearest integer, halves away from zero."""
    return math.copysign(math.floor(abs(x) + 0.5), x) if math.isfinite(x) else x


def steps(dtype: DType) -> int:
    return 1 << (8 * dtype.size)


def unclamped(value: float, low: Any, high: Any, dtype: DType) -> int:
    """The code of one number, which may lie outside of the codes that there are."""
    low, high = np.float32(low), np.float32(high)
    if low == high:
        return int(dtype.min)
    count = steps(dtype)
    scale = count / (float(high - low) * (count / (count - 1.0)))
    return _whole(away_from_zero(float(value) * scale) - away_from_zero(float(low) * scale)) + int(dtype.min)


def _whole(x: float) -> int:
    """As 64 bits: what they do not hold, and what is no number, is the least of them, as on x86."""
    return int(x) if abs(x) < 2.0**63 else -(2**63)


def code(value: float, low: Any, high: Any, dtype: DType) -> int:
    """The code of one number, or the nearest that there is."""
    return min(max(unclamped(value, low, high, dtype), int(dtype.min)), int(dtype.max))


def numbers(xp: Any, codes: Any, low: Any, high: Any, dtype: DType) -> Any:
    """Convert codes to the numbers that they stand for, computed in float64: float32."""
    low, high = np.float32(low), np.float32(high)
    if low == high:
        return xp.full(codes.shape, low, np.float32)
    first, scale = _first_and_step(low, high, dtype)
    # Codes of 32 bits are float32 on their way to float64.
    offsets = codes.astype(np.float32).astype(np.float64) - float(dtype.min)
    return (first + offsets * scale).astype(np.float32)


def number(value: int, low: Any, high: Any, dtype: DType) -> Any:
    """Convert one code to the number that it stands for, on the host: float32."""
    low, high = np.float32(low), np.float32(high)
    if low == high:
        return low
    first, scale = _first_and_step(low, high, dtype)
    return np.float32(first + (float(np.float32(value)) - float(dtype.min)) * scale)


def _first_and_step(low: Any, high: Any, dtype: DType) -> tuple[float, float]:
    """Return the number of the least code, and the distance between those of neighbours."""
    count = steps(dtype)
    scale = float(high - low) * (count / (count - 1.0)) / count
    narrow = np.float32(scale)
    return float(np.float32(away_from_zero(float(low / narrow))) * narrow), scale


def dequantized(codes: Any, low: Any, high: Any, dtype: DType) -> Any:
    """Convert codes to the numbers that they stand for, computed in float32."""
    low, high = np.float32(low), np.float32(high)
    scale = np.float32(float(high - low) / (steps(dtype) - 1.0))
    first = low if low == high else np.float32(away_from_zero(float(low / scale))) * scale
    return codes.astype(np.float32) * scale + (first - np.float32(dtype.min) * scale)


def quantized(xp: Any, values: Any, low: Any, high: Any, dtype: DType) -> Any:
    """The codes of float32 numbers, computed in float32."""
    low, high = np.float32(low), np.float32(high)
    scale = np.float32(0 if low == high else (steps(dtype) - 1.0) / float(high - low))
    first = np.float32(away_from_zero(float(low * scale)))
    least, most = max(float(dtype.min), -(2.0**31)), min(float(dtype.max), 2147483520.0)
    found = rounded(xp, values * scale) - (first - np.float32(dtype.min))
    bounded = xp.minimum(xp.maximum(found, np.float32(least)), np.float32(most))
    return bounded.astype(np.int32).astype(dtype.as_numpy_dtype)


def quantized_exactly(xp: Any, values: Any, low: Any, high: Any, dtype: DType) -> Any:
    """The codes of float32 numbers, computed in float64."""
    low, high = np.float32(low), np.float32(high)
    if low == high:
        return xp.full(values.shape, dtype.min, dtype.as_numpy_dtype)
    count = steps(dtype)
    scale = count / (float(high - low) * (count / (count - 1.0)))
    found = rounded(xp, values.astype(np.float64) * scale) - away_from_zero(float(low) * scale)
    found = xp.minimum(xp.maximum(found + float(dtype.min), float(dtype.min)), float(dtype.max))
    return found.astype(dtype.as_numpy_dtype)


def level(low: Any, high: Any, dtype: DType) -> Any:
    """How far two codes next to each other are apart."""
    return (np.float32(high) - np.float32(low)) / np.float32(int(dtype.max) - int(dtype.min))


def range_of_products(
    first: tuple[Any, Any], second: tuple[Any, Any], types: tuple[DType, DType], out: DType
) -> tuple[Any, Any]:
    """The range of codes that are sums of products of codes."""
    step = level(*first, types[0]) * level(*second, types[1])
    return step * np.float32(out.min), step * np.float32(out.max)


def requantized(
    xp: Any, codes: Any, given: tuple[Any, Any], wanted: tuple[Any, Any], types: tuple[DType, DType]
) -> Any:
    """Codes of one range as those of another; from 32 to 8 bits by integers alone."""
    source, target = types
    if source.name == "qint32" and target.name == "quint8":
        return _to_bytes(xp, codes, given, wanted)
    return quantized(xp, dequantized(codes, *given, source), *wanted, target)


def _to_bytes(xp: Any, codes: Any, given: tuple[Any, Any], wanted: tuple[Any, Any]) -> Any:
    """Numbers are held with 16 bits behind the point."""
    (low, high), (least, most) = ((np.float32(a), np.float32(b)) for a, b in (given, wanted))
    span, reach = high - low, most - least
    if reach == 0:
        factor, offset = 0, 0
    else:
        factor = int(255.0 * (1 << 16) * float(span) / float(reach))
        middle = np.float32(float(low + high) / 2.0)
        moved = int(middle * np.float32(255.0 / float(reach)) * np.float32(1 << 16))
        offset = moved - int(away_from_zero((1 << 16) * (float(least) * 255.0) / float(reach)))
    offset += 1 << 15
    found = ((codes.astype(np.int64) * np.int64(factor) >> np.int64(32)) + np.int64(offset)) >> np.int64(16)
    return xp.minimum(xp.maximum(found, 0), 255).astype(np.uint8)


def centred(codes: Any, zero: int, bound: float) -> Any:
    """Codes less that of zero, in a type that holds all sums below a bound."""
    kind: Any = np.float32 if bound < 2.0**24 else np.float64 if bound < 2.0**53 else np.int64
    return codes.astype(kind) - kind(zero)


def product(xp: Any, a: Any, b: Any) -> Any:
    """The product of two centred matrices modulo 2^32, int32."""
    found = xp.dot(a, b)
    return (found.astype(np.int64) if found.dtype == np.float64 else found).astype(np.int32)


def largest_sum(offsets: tuple[int, int], length: int) -> float:
    """Above all sums of so many products of bytes less these offsets."""
    return float(length) * (255.0 + abs(offsets[0])) * (255.0 + abs(offsets[1]))
