"""Quantisation and its opposite in one, for training, with gradients.

The range is moved by less than a step so that 0 is one of the numbers that can be told. Bounds that are
tensors stay on the device: what depends on them is computed with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import brackets, shape_of
from flowengine.kernels.registry import kernel

_HALF = np.float32(0.5)
_ZERO = np.float32(0)
_ONE = np.float32(1)


def _codes(num_bits: int, narrow_range: bool) -> tuple[Any, Any]:
    if not 2 <= num_bits <= 16:
        raise InvalidArgumentError(f"num_bits must be between 2 and 16, inclusive, but is {num_bits}")
    return np.float32(1 if narrow_range else 0), np.float32((1 << num_bits) - 1)


def _nudged(xp: Any, low: Any, high: Any, num_bits: int, narrow_range: bool) -> tuple[Any, Any, Any, Any]:
    """The range with 0 in it, its step, and one over its step."""
    least, most = _codes(num_bits, narrow_range)
    step, inverse = (high - low) / (most - least), (most - least) / (high - low)
    zero = least - low / step
    zero = xp.clip(xp.floor(zero + _HALF), least, most)
    return (least - zero) * step, (most - zero) * step, step, inverse


def _snapped(xp: Any, x: Array, nudged: tuple[Any, Any, Any, Any], divides: bool) -> Any:
    low, high, step, inverse = nudged
    zero = xp.floor(-low * inverse + _HALF)
    moved = xp.maximum(xp.minimum(x, high), low) - low
    moved = moved / step if divides else moved * inverse
    return xp.floor(moved - zero + _HALF) * step


def _bounds(node: Node) -> tuple[Any, Any]:
    low, high = node.attrs["min"], node.attrs["max"]
    if low >= high:
        raise InvalidArgumentError(f"min has to be smaller than max, was: {low} >= {high}")
    return np.float32(low), np.float32(high)


def _same_shape(gradients: Array, inputs: Array) -> None:
    if shape_of(gradients) != shape_of(inputs):
        raise InvalidArgumentError(
            f"gradient and input must be the same size, but have shapes {brackets(shape_of(gradients))} "
            f"and {brackets(shape_of(inputs))}"
        )


@kernel("FakeQuantWithMinMaxArgs", fresh=True)
def fake_quant_with_min_max_args(
    xp: Any, inputs: Array, *, node: Node, num_bits: int, narrow_range: bool
) -> Any:
    """Numbers as they come back from a quantisation of the range between two attributes."""
    nudged = _nudged(xp, *_bounds(node), num_bits, narrow_range)
    return _snapped(xp, inputs, nudged, False)


@kernel("FakeQuantWithMinMaxArgsGradient", fresh=True)
def fake_quant_with_min_max_args_gradient(
    xp: Any, gradients: Array, inputs: Array, *, node: Node, num_bits: int, narrow_range: bool
) -> Any:
    """Gradients of what lies within the range."""
    _same_shape(gradients, inputs)
    low, high, _, _ = _nudged(xp, *_bounds(node), num_bits, narrow_range)
    return gradients * xp.where((inputs >= low) & (inputs <= high), _ONE, _ZERO)


def _check_scalars(low: Array, high: Array) -> None:
    for name, value in (("min", low), ("max", high)):
        if shape_of(value) != ():
            raise InvalidArgumentError(f"`{name}` must be rank 0 but has shape {brackets(shape_of(value))}")


def _check_vectors(inputs: Array, low: Array, high: Array) -> None:
    if not inputs.ndim:
        raise InvalidArgumentError("inputs must be at least 1-dimensional")
    for name, value in (("min", low), ("max", high)):
        if shape_of(value) != inputs.shape[-1:]:
            raise InvalidArgumentError(
                f"{name} has incorrect size, expected {inputs.shape[-1]} was {brackets(shape_of(value))}"
            )


def _is_empty(low: Array, high: Array) -> Any:
    return (low == 0) & (high == 0)


@kernel("FakeQuantWithMinMaxVars", fresh=True)
def fake_quant_with_min_max_vars(
    xp: Any, inputs: Array, low: Array, high: Array, *, num_bits: int, narrow_range: bool
) -> Any:
    """Numbers as they come back from a quantisation of the range between two tensors; 0 where both are 0."""
    _check_scalars(low, high)
    found = _snapped(xp, inputs, _nudged(xp, low, high, num_bits, narrow_range), True)
    return xp.where(_is_empty(low, high), _ZERO, found)


@kernel("FakeQuantWithMinMaxVarsPerChannel", fresh=True)
def fake_quant_with_min_max_vars_per_channel(
    xp: Any, inputs: Array, low: Array, high: Array, *, num_bits: int, narrow_range: bool
) -> Any:
    """`FakeQuantWithMinMaxVars` with bounds for each index of the last axis."""
    _check_vectors(inputs, low, high)
    found = _snapped(xp, inputs, _nudged(xp, low, high, num_bits, narrow_range), False)
    return xp.where(_is_empty(low, high), _ZERO, found)


def _gradients(
    xp: Any, gradients: Array, inputs: Array, low: Array, high: Array, num_bits: int, narrow_range: bool
) -> tuple[Any, Any, Any]:
    """Of the inputs, and what is left of them below and above the range, not yet summed."""
    least, most, _, _ = _nudged(xp, low, high, num_bits, narrow_range)
    empty = _is_empty(low, high)
    inside = ((inputs >= least) & (inputs <= most)) | empty
    below, above = (inputs < least) & ~empty, (inputs > most) & ~empty
    result = gradients * xp.where(inside, _ONE, _ZERO)
    return result, gradients * xp.where(below, _ONE, _ZERO), gradients * xp.where(above, _ONE, _ZERO)


@kernel("FakeQuantWithMinMaxVarsGradient", fresh=True)
def fake_quant_with_min_max_vars_gradient(
    xp: Any, gradients: Array, inputs: Array, low: Array, high: Array, *, num_bits: int, narrow_range: bool
) -> Any:
    """Gradients of the inputs within the range; those of inputs outside, summed, of its bounds."""
    _same_shape(gradients, inputs)
    _check_scalars(low, high)
    result, below, above = _gradients(xp, gradients, inputs, low, high, num_bits, narrow_range)
    return result, below.sum(), above.sum()


@kernel("FakeQuantWithMinMaxVarsPerChannelGradient", fresh=True)
def fake_quant_with_min_max_vars_per_channel_gradient(
    xp: Any, gradients: Array, inputs: Array, low: Array, high: Array, *, num_bits: int, narrow_range: bool
) -> Any:
    """`FakeQuantWithMinMaxVarsGradient` with bounds for each index of the last axis."""
    _same_shape(gradients, inputs)
    _check_vectors(inputs, low, high)
    result, below, above = _gradients(xp, gradients, inputs, low, high, num_bits, narrow_range)
    axes = tuple(range(inputs.ndim - 1))
    return result, below.sum(axes), above.sum(axes)
