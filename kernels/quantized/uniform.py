"""Codes by scales and zero points: a number is scale * (code - zero point)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.registry import kernel


def along(x: Array, axis: int, **given: Array) -> list[Any]:
    """Numbers that go with a tensor: of rank 0, or one for each index of an axis."""
    shapes = {name: value.shape for name, value in given.items()}
    first = next(iter(shapes.values()))
    if any(shape != first for shape in shapes.values()):
        listed = ", ".join(f"{name} {brackets(shape)}" for name, shape in shapes.items())
        raise InvalidArgumentError(f"{' and '.join(shapes)} must have one shape: {listed}")
    for name, value in given.items():
        if name.endswith("scales") and value.size:
            refuse((~(value > 0)).any(), partial(InvalidArgumentError, f"{name} must be positive"))
    if axis == -1:
        if first:
            raise InvalidArgumentError(
                f"{', '.join(shapes)} must be scalars, but have shape {brackets(first)}"
            )
        return list(given.values())
    if not 0 <= axis < x.ndim:
        raise InvalidArgumentError(f"quantization_axis must be -1 or in [0, {x.ndim}), but is {axis}")
    if first != (x.shape[axis],):
        raise InvalidArgumentError(
            f"{', '.join(shapes)} must be vectors of {x.shape[axis]} elements, not {brackets(first)}"
        )
    return [value.reshape((-1,) + (1,) * (x.ndim - 1 - axis)) for value in given.values()]


@kernel("UniformQuantize", fresh=True)
def uniform_quantize(
    xp: Any,
    x: Array,
    scales: Array,
    zero_points: Array,
    *,
    Tout: DType,
    quantization_axis: int,
    quantization_min_val: int,
    quantization_max_val: int,
) -> Any:
    """The codes of numbers, between the least and the greatest; halves go up."""
    by, zeros = along(x, quantization_axis, scales=scales, zero_points=zero_points)
    inverse = (np.float32(1) / by).astype(np.float32)
    found = xp.floor((x * inverse).astype(np.float64) + 0.5) + zeros
    return xp.clip(found, quantization_min_val, quantization_max_val).astype(Tout.base.as_numpy_dtype)


@kernel("UniformDequantize", fresh=True)
def uniform_dequantize(
    xp: Any, x: Array, scales: Array, zero_points: Array, *, quantization_axis: int
) -> Any:
    """The numbers that codes stand for (float32)."""
    by, zeros = along(x, quantization_axis, scales=scales, zero_points=zero_points)
    return (x.astype(np.int64) - zeros).astype(np.float32) * by


@kernel("UniformQuantizedClipByValue", fresh=True)
def uniform_quantized_clip_by_value(
    xp: Any,
    operand: Array,
    low: Array,
    high: Array,
    scales: Array,
    zero_points: Array,
    *,
    quantization_axis: int,
) -> Any:
    """Codes between two others, which go with the whole tensor or with each index of an axis."""
    least, most, _, _ = along(
        operand, quantization_axis, min=low, max=high, scales=scales, zero_points=zero_points
    )
    return xp.minimum(xp.maximum(operand, least), most)


#: Bits after the point of the factors between scales.
_BITS: Final = 31


def rescaled(xp: Any, x: Any, factor: Any) -> Any:
    """Integers (int64) times positive factors, by fixed-point numbers of 31 bits; halves go up.

    factor   float64; a factor below 2**-32 counts as 0, one from 2**30 on as the greatest there is
    """
    part, exponent = xp.frexp(factor)
    mantissa = xp.floor(part * 2.0**_BITS + 0.5).astype(np.int64)
    places = exponent.astype(np.int64)
    full = mantissa == 1 << _BITS
    mantissa = xp.where(full, 1 << (_BITS - 1), mantissa)
    places = xp.where(full, places + 1, places)
    mantissa = xp.where(places < -_BITS, 0, xp.where(places > _BITS - 1, (1 << _BITS) - 1, mantissa))
    shift = _BITS - xp.clip(places, -_BITS, _BITS - 1)
    one = xp.ones_like(shift)
    return (x * mantissa + (one << (shift - 1))) >> shift


def factor(*scales: Any) -> Any:
    """The first scales over the last, in float64."""
    *above, below = (scale.astype(np.float64) for scale in scales)
    product = above[0] if len(above) == 1 else above[0] * above[1]
    return product / below


@kernel("UniformRequantize", fresh=True)
def uniform_requantize(
    xp: Any,
    x: Array,
    input_scales: Array,
    input_zero_points: Array,
    output_scales: Array,
    output_zero_points: Array,
    *,
    Tout: DType,
    input_quantization_axis: int,
    output_quantization_axis: int,
    output_quantization_min_val: int,
    output_quantization_max_val: int,
) -> Any:
    """The codes, by other scales and zero points, of the numbers that codes stand for."""
    axes = input_quantization_axis, output_quantization_axis
    if axes[0] != axes[1] and -1 not in axes:
        raise InvalidArgumentError(
            f"input_quantization_axis {axes[0]} and output_quantization_axis {axes[1]} must be equal, or "
            "one of them -1"
        )
    by, zeros = along(x, axes[0], input_scales=input_scales, input_zero_points=input_zero_points)
    to, ends = along(x, axes[1], output_scales=output_scales, output_zero_points=output_zero_points)
    found = rescaled(xp, x.astype(np.int64) - zeros, factor(by, to)) + ends
    kept = xp.clip(found, output_quantization_min_val, output_quantization_max_val)
    return kept.astype(Tout.base.as_numpy_dtype)


@kernel("UniformQuantizedAdd", fresh=True)
def uniform_quantized_add(
    xp: Any,
    lhs: Array,
    rhs: Array,
    lhs_scales: Array,
    lhs_zero_points: Array,
    rhs_scales: Array,
    rhs_zero_points: Array,
    output_scales: Array,
    output_zero_points: Array,
    *,
    lhs_quantization_axis: int,
    rhs_quantization_axis: int,
    output_quantization_axis: int,
    output_quantization_min_val: int,
    output_quantization_max_val: int,
) -> Any:
    """The codes of sums of numbers, broadcast: each is rounded to the result's scale before it is added."""
    shape = xp.broadcast_shapes(lhs.shape, rhs.shape)
    whole = xp.empty(shape, np.int8)
    to, ends = along(
        whole, output_quantization_axis, output_scales=output_scales, output_zero_points=output_zero_points
    )
    found = ends
    for x, axis, scales, zeros, name in (
        (lhs, lhs_quantization_axis, lhs_scales, lhs_zero_points, "lhs"),
        (rhs, rhs_quantization_axis, rhs_scales, rhs_zero_points, "rhs"),
    ):
        by, zero = along(x, axis, **{f"{name}_scales": scales, f"{name}_zero_points": zeros})
        found = found + rescaled(xp, x.astype(np.int64) - zero, factor(by, to))
    kept = xp.clip(found, output_quantization_min_val, output_quantization_max_val)
    return kept.astype(lhs.dtype)


def _check_product(lhs: Array, rhs: Array) -> None:
    if lhs.ndim != 2 or rhs.ndim != 2 or lhs.shape[1] != rhs.shape[0]:
        raise InvalidArgumentError(
            f"lhs and rhs must be matrices that can be multiplied, but have shapes {brackets(lhs.shape)} "
            f"and {brackets(rhs.shape)}"
        )


def _check_columns(axis: int, name: str) -> None:
    if axis not in (-1, 1):
        raise InvalidArgumentError(f"{name}_quantization_axis must be -1 or 1, but is {axis}")


@kernel("UniformQuantizedDot", fresh=True)
def uniform_quantized_dot(
    xp: Any,
    lhs: Array,
    rhs: Array,
    lhs_scales: Array,
    lhs_zero_points: Array,
    rhs_scales: Array,
    rhs_zero_points: Array,
    output_scales: Array,
    output_zero_points: Array,
    *,
    lhs_quantization_axis: int,
    rhs_quantization_axis: int,
    output_quantization_axis: int,
    output_quantization_min_val: int,
    output_quantization_max_val: int,
    Tout: DType,
) -> Any:
    """The codes of the product of two matrices of codes."""
    _check_product(lhs, rhs)
    if lhs_quantization_axis != -1:
        raise InvalidArgumentError(f"lhs_quantization_axis must be -1, but is {lhs_quantization_axis}")
    _check_columns(rhs_quantization_axis, "rhs")
    _check_columns(output_quantization_axis, "output")
    if output_quantization_axis == 1 and rhs_quantization_axis != 1:
        raise InvalidArgumentError("rhs_quantization_axis must be 1 where output_quantization_axis is 1")
    by, zero = along(lhs, -1, lhs_scales=lhs_scales, lhs_zero_points=lhs_zero_points)
    times, from_ = along(rhs, rhs_quantization_axis, rhs_scales=rhs_scales, rhs_zero_points=rhs_zero_points)
    whole = xp.empty((lhs.shape[0], rhs.shape[1]), np.int8)
    to, ends = along(
        whole, output_quantization_axis, output_scales=output_scales, output_zero_points=output_zero_points
    )
    summed = xp.matmul(lhs.astype(np.int64) - zero, rhs.astype(np.int64) - from_)
    found = rescaled(xp, summed, factor(by, times, to)) + ends
    kept = xp.clip(found, output_quantization_min_val, output_quantization_max_val)
    return kept.astype(Tout.base.as_numpy_dtype)


@kernel("UniformQuantizedDotHybrid", fresh=True)
def uniform_quantized_dot_hybrid(
    xp: Any,
    lhs: Array,
    rhs: Array,
    rhs_scales: Array,
    rhs_zero_points: Array,
    *,
    rhs_quantization_axis: int,
) -> Any:
    """The product of numbers (float32) and of a matrix of codes; each row of numbers is made codes first."""
    _check_product(lhs, rhs)
    _check_columns(rhs_quantization_axis, "rhs")
    by, zero = along(rhs, rhs_quantization_axis, rhs_scales=rhs_scales, rhs_zero_points=rhs_zero_points)
    codes, scale, zeros = row_codes(xp, lhs)
    summed = xp.matmul(codes - zeros, rhs.astype(np.int64) - zero)
    return summed.astype(np.float32) * scale * by


def row_codes(xp: Any, x: Array) -> tuple[Any, Any, Any]:
    """Codes (int64) of -128 to 127, scale (float32) and zero point of each row, so that 0 has a code."""
    # A row without a number is as one of a zero.
    ranged = x if x.shape[1] else xp.zeros((x.shape[0], 1), x.dtype)
    least = xp.minimum(ranged.min(axis=1, keepdims=True), np.float32(0)).astype(np.float64)
    most = xp.maximum(ranged.max(axis=1, keepdims=True), np.float32(0)).astype(np.float64)
    low, high = -128.0, 127.0
    span = most - least
    empty = span == 0
    scale = (span / (high - low)).astype(np.float32)
    inverse = ((high - low) / xp.where(empty, 1.0, span)).astype(np.float32)
    step = xp.where(empty, np.float32(1), scale).astype(np.float64)
    from_least, from_most = low - least / step, high - most / step
    nearer = abs(low) + abs(least / step) < abs(high) + abs(most / step)
    zeros = xp.clip(xp.rint(xp.where(nearer, from_least, from_most)), low, high)
    found = xp.floor((x * inverse).astype(np.float64) + 0.5) + zeros
    codes = xp.where(empty, zeros, xp.clip(found, low, high))
    return codes.astype(np.int64), step.astype(np.float32), zeros.astype(np.int64)
