"""Quantisation and its opposite in one, for inference and for training."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import brackets, scalar, shape_of
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.registry import kernel

# Numbers rounded to those that a quantisation of so many bits can represent, 0 among them.

_TYPES: Final = (dtypes.float32, dtypes.float64)


def _scaled_range(
    xp: Any, low: Array, high: Array, num_bits: int, signed: bool, narrow: bool
) -> tuple[Any, Any, Any, Any]:
    """The range widened at one end so that 0 stays 0; the scale to codes, and the one back."""
    kind = low.dtype.type
    least = kind((1 if narrow else 0) - (1 << (num_bits - 1)) if signed else 0)
    most = kind((1 << (num_bits - 1)) - 1 if signed else (1 << num_bits) - 1)
    none = kind(np.finfo(low.dtype).max)
    from_low = xp.where(least * low > 0, least / low, none)
    from_high = xp.where(most * high > 0, most / high, none)
    by_low = from_low < from_high
    back_low = low / least if least else high / most
    back = xp.where(by_low, back_low, high / most)
    scale = xp.where(by_low, from_low, from_high)
    return xp.where(by_low, low, least * back), xp.where(by_low, most * back, high), scale, back


#: Codes are counted in 64 bits.
_MOST_BITS: Final = 62


def _check_bits(num_bits: int) -> None:
    if not 1 <= num_bits <= _MOST_BITS:
        raise InvalidArgumentError(f"num_bits is out of range: {num_bits}, which is not in [1, {_MOST_BITS}]")


def _placed(value: Array, rank: int, axis: int) -> Any:
    """A number for each index of an axis, so that it broadcasts with the whole."""
    return value.reshape((-1,) + (1,) * (rank - axis - 1))


def _rounded_to_codes(
    xp: Any, x: Array, low: Array, high: Array, num_bits: int, attrs: Any, *, half_up: bool, narrow: bool
) -> Any:
    axis = attrs.get("axis", -1)
    _check_bits(num_bits)
    if axis < -1 or axis >= x.ndim:
        raise InvalidArgumentError(f"Axis should be -1 or in [0, {x.ndim}), but is {axis}")
    given = attrs["range_given"]
    if given:
        wanted = () if axis == -1 else (x.shape[axis],)
        for name, value in (("input_min", low), ("input_max", high)):
            if shape_of(value) != wanted:
                raise InvalidArgumentError(
                    f"{name} must have shape {brackets(wanted)}, but has {brackets(shape_of(value))}"
                )
        refuse(
            (low > high).any(),
            lambda: InvalidArgumentError(f"Invalid range: input_min {low} > input_max {high}"),
        )
    elif not x.size:
        return x.copy()
    else:
        others = tuple(i for i in range(x.ndim) if i != axis)
        low, high = x.min(others), x.max(others)
    if axis != -1:
        low, high = _placed(low, x.ndim, axis), _placed(high, x.ndim, axis)
    least, most, scale, back = _scaled_range(xp, low, high, num_bits, attrs["signed_input"], narrow)
    values = xp.maximum(xp.minimum(x, most), least) if given else x
    values = values * scale
    values = xp.floor(values + values.dtype.type(0.5)) if half_up else xp.rint(values)
    return values * back


@kernel("QuantizeAndDequantize", types={"T": _TYPES}, fresh=True)
def quantize_and_dequantize(xp: Any, x: Array, *, node: Node) -> Any:
    """Numbers as they come back from codes; the range is an attribute, or that of the numbers."""
    attrs, kind = node.attrs, x.dtype.type
    low, high = xp.asarray(kind(attrs["input_min"])), xp.asarray(kind(attrs["input_max"]))
    return _rounded_to_codes(xp, x, low, high, attrs["num_bits"], attrs, half_up=False, narrow=False)


@kernel("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4", types={"T": _TYPES}, fresh=True)
def quantize_and_dequantize_v2(xp: Any, x: Array, low: Array, high: Array, *, node: Node) -> Any:
    """Numbers as they come back from codes of a range, or of their own."""
    attrs = node.attrs
    half_up = attrs["round_mode"] == b"HALF_UP"
    return _rounded_to_codes(
        xp, x, low, high, attrs["num_bits"], attrs, half_up=half_up, narrow=attrs["narrow_range"]
    )


@kernel("QuantizeAndDequantizeV3", types={"T": _TYPES}, fresh=True, host=("num_bits",))
def quantize_and_dequantize_v3(
    xp: Any, x: Array, low: Array, high: Array, num_bits: Any, *, node: Node
) -> Any:
    """`QuantizeAndDequantizeV2` with the number of bits in a tensor."""
    attrs = node.attrs
    bits = scalar(num_bits, "num_bits")
    return _rounded_to_codes(xp, x, low, high, bits, attrs, half_up=False, narrow=attrs["narrow_range"])


@kernel("QuantizeAndDequantizeV4Grad", types={"T": _TYPES}, fresh=True)
def quantize_and_dequantize_v4_grad(
    xp: Any, gradients: Array, x: Array, low: Array, high: Array, *, axis: int
) -> Any:
    """Gradients of what lies within the range; the range itself gets none."""
    if gradients.shape != x.shape:
        raise InvalidArgumentError(
            f"gradient and input must be the same size: {brackets(gradients.shape)} and {brackets(x.shape)}"
        )
    if axis < -1 or axis >= x.ndim:
        raise InvalidArgumentError(f"Axis should be -1 or in [0, {x.ndim}), but is {axis}")
    wanted = () if axis == -1 else (x.shape[axis],)
    for name, value in (("input_min", low), ("input_max", high)):
        if shape_of(value) != wanted:
            raise InvalidArgumentError(
                f"{name} must have shape {brackets(wanted)}, but has {brackets(shape_of(value))}"
            )
    least, most = low, high
    if axis != -1:
        least, most = _placed(low, x.ndim, axis), _placed(high, x.ndim, axis)
    inside = xp.where((x >= least) & (x <= most), x.dtype.type(1), x.dtype.type(0))
    return gradients * inside, xp.zeros_like(low), xp.zeros_like(high)


# Quantisation and its opposite in one, for training, with gradients.
#
# The range is moved by less than a step so that 0 is one of the representable numbers. Bounds that are
# tensors stay on the device: what depends on them is computed with them.

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
