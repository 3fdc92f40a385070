"""Codes by scales and zero points: a number is scale * (code - zero point)."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.registry import kernel


def _along(x: Array, axis: int, **given: Array) -> list[Any]:
    """Numbers that go with a tensor: of rank 0, or one for each index of an axis."""
    shapes = {name: value.shape for name, value in given.items()}
    first = next(iter(shapes.values()))
    if any(shape != first for shape in shapes.values()):
        said = ", ".join(f"{name} {brackets(shape)}" for name, shape in shapes.items())
        raise InvalidArgumentError(f"{' and '.join(shapes)} must have one shape: {said}")
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
    by, zeros = _along(x, quantization_axis, scales=scales, zero_points=zero_points)
    inverse = (np.float32(1) / by).astype(np.float32)
    found = xp.floor((x * inverse).astype(np.float64) + 0.5) + zeros
    return xp.clip(found, quantization_min_val, quantization_max_val).astype(Tout.base.as_numpy_dtype)


@kernel("UniformDequantize", fresh=True)
def uniform_dequantize(
    xp: Any, x: Array, scales: Array, zero_points: Array, *, quantization_axis: int
) -> Any:
    """The numbers that codes stand for (float32)."""
    by, zeros = _along(x, quantization_axis, scales=scales, zero_points=zero_points)
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
    least, most, _, _ = _along(
        operand, quantization_axis, min=low, max=high, scales=scales, zero_points=zero_points
    )
    return xp.minimum(xp.maximum(operand, least), most)
