"""Convolutions of codes: sums of products of whole numbers, which are rounded once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.dimension_numbers import DimensionNumbers
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.quantized.uniform import along, factor, rescaled, row_codes
from flowengine.kernels.registry import kernel
from flowengine.ops.quantized.dilated_windows import DilatedWindows, check_groups, windows_of

#: Products of whole numbers of 64 bits in a microsecond of one core.
_PRODUCTS_A_MICROSECOND: Final = 1_000.0


def _cost(lhs: Array, rhs: Array, *_: Array) -> float:
    """At most: as if every number of the input met every number of the kernel."""
    return lhs.size * rhs.size / _PRODUCTS_A_MICROSECOND


def _layout(lhs: Array, rhs: Array, attrs: Mapping[str, Any]) -> tuple[DimensionNumbers, DilatedWindows]:
    """How two tensors are convolved. InvalidArgumentError where they, or the attributes, do not fit."""
    if lhs.ndim != rhs.ndim or lhs.ndim < 3:
        raise InvalidArgumentError(
            "lhs and rhs must be of one rank of at least 3, but have shapes "
            f"{brackets(lhs.shape)} and {brackets(rhs.shape)}"
        )
    numbers = DimensionNumbers.of(attrs["dimension_numbers"], lhs.ndim)
    batch, features, *sizes = (lhs.shape[place] for place in numbers.input.order)
    outputs, inputs, *window = (rhs.shape[place] for place in numbers.kernel.order)
    check_groups(attrs, batch, features, (outputs, inputs))
    axis = attrs["rhs_quantization_axis"]
    if axis not in (-1, numbers.kernel.first):
        raise InvalidArgumentError(
            "rhs_quantization_axis must be -1 or the kernel's dimension of output features "
            f"({numbers.kernel.first}), but is {axis}"
        )
    return numbers, windows_of(attrs, sizes, window)


def _met(windows: DilatedWindows, at: int, size: int, tap: int) -> tuple[slice, slice] | None:
    """Which places of the output meet which numbers of the input through one tap; None where none do.

    at     which spatial dimension
    size   of the input there

    Both slices have one length. Padding and the gaps of a dilated input are left out: zeros stand there.
    """
    stride, dilation = windows.strides[at], windows.input_dilations[at]
    shift = tap * windows.kernel_dilations[at] - windows.lower[at]
    # Output o meets place o * stride + shift of the dilated input: a number, where the dilation divides that.
    common = math.gcd(stride, dilation)
    if shift % common:
        return None
    step, pace = dilation // common, stride // common
    first = -(shift // common) * pow(pace, -1, step) % step
    begin = (first * stride + shift) // dilation
    if begin < 0:
        late = -(begin // pace)
        first, begin = first + late * step, begin + late * pace
    count = min(-((first - windows.sizes[at]) // step), -((begin - size) // pace))
    if count <= 0:
        return None
    return (
        slice(first, first + (count - 1) * step + 1, step),
        slice(begin, begin + (count - 1) * pace + 1, pace),
    )


def _parts(outputs: int, inputs: int, groups: int, batches: int) -> Iterator[tuple[slice, slice, int]]:
    """Output features that are made of the same: (they, their input features, their group of the batch)."""
    of_features, of_batch = outputs // groups, outputs // batches
    ends = sorted({*range(0, outputs + 1, of_features), *range(0, outputs + 1, of_batch)})
    for begin, end in itertools.pairwise(ends):
        group = begin // of_features
        yield slice(begin, end), slice(group * inputs, (group + 1) * inputs), begin // of_batch


def _summed(xp: Any, lhs: Any, rhs: Any, windows: DilatedWindows, attrs: Mapping[str, Any]) -> Any:
    """The convolution of whole numbers (int64): (N, C, sizes...) with (F, C / groups, window...).

    Returns (N / batch groups, F, out...). The products of one tap after the other are added, so that no
    padded copy of the input is made.
    """
    batches = attrs["batch_group_count"]
    outputs, inputs = rhs.shape[:2]
    count = lhs.shape[0] // batches
    sums = xp.zeros((count, outputs, *windows.sizes), np.int64)
    if not (sums.size and lhs.size and rhs.size):
        return sums
    parts = list(_parts(outputs, inputs, attrs["feature_group_count"], batches))
    for tap in itertools.product(*map(range, rhs.shape[2:])):
        pairs = [_met(windows, at, size, tap[at]) for at, size in enumerate(lhs.shape[2:])]
        met = [pair for pair in pairs if pair is not None]
        if len(met) < len(pairs):
            continue
        there, here = (tuple(pair[side] for pair in met) for side in (0, 1))
        for made, features, group in parts:
            numbers = lhs[(slice(group * count, (group + 1) * count), features, *here)]
            products = xp.tensordot(rhs[(made, slice(None), *tap)], numbers, axes=((1,), (1,)))
            sums[(slice(None), made, *there)] += xp.moveaxis(products, 0, 1)
    return sums


def _beside(value: Any, axis: int, rank: int) -> Any:
    """Numbers of the whole, or one for each output feature, for sums with features second."""
    return value if axis == -1 else value.reshape((-1,) + (1,) * (rank - 2))


def _back(xp: Any, out: Any, numbers: DimensionNumbers) -> Any:
    """(N, F, out...) with each dimension where the output has it."""
    return xp.ascontiguousarray(xp.moveaxis(out, range(out.ndim), numbers.output.order))


@kernel("UniformQuantizedConvolution", fresh=True, heavy=_cost)
def uniform_quantized_convolution(
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
    node: Node,
    Tout: DType,
) -> Any:
    """The codes of a convolution of codes, kept between the least and the greatest; halves go up.

    Raises InvalidArgumentError where shapes, attributes, scales or zero points do not fit.
    """
    attrs = node.attrs
    numbers, windows = _layout(lhs, rhs, attrs)
    axes = [attrs[f"{name}_quantization_axis"] for name in ("lhs", "rhs", "output")]
    if axes[0] != -1:
        raise InvalidArgumentError(f"lhs_quantization_axis must be -1, but is {axes[0]}")
    if axes[2] not in (-1, numbers.output.features):
        raise InvalidArgumentError(
            "output_quantization_axis must be -1 or the output's dimension of features "
            f"({numbers.output.features}), but is {axes[2]}"
        )
    if axes[2] != -1 and axes[1] == -1:
        raise InvalidArgumentError("output_quantization_axis must be -1 where rhs_quantization_axis is")
    by, zero = along(lhs, -1, lhs_scales=lhs_scales, lhs_zero_points=lhs_zero_points)
    _, from_ = along(rhs, axes[1], rhs_scales=rhs_scales, rhs_zero_points=rhs_zero_points)
    sums = _summed(
        xp,
        xp.transpose(lhs.astype(np.int64) - zero, numbers.input.order),
        xp.transpose(rhs.astype(np.int64) - from_, numbers.kernel.order),
        windows,
        attrs,
    )
    times = _beside(rhs_scales, axes[1], sums.ndim)
    at = -1 if axes[2] == -1 else 1
    to, ends = along(sums, at, output_scales=output_scales, output_zero_points=output_zero_points)
    found = rescaled(xp, sums, factor(by, times, to)) + ends
    kept = xp.clip(found, attrs["output_quantization_min_val"], attrs["output_quantization_max_val"])
    return _back(xp, kept.astype(Tout.base.as_numpy_dtype), numbers)


@kernel("UniformQuantizedConvolutionHybrid", fresh=True, heavy=_cost)
def uniform_quantized_convolution_hybrid(
    xp: Any, lhs: Array, rhs: Array, rhs_scales: Array, rhs_zero_points: Array, *, node: Node
) -> Any:
    """The convolution (float32) of numbers and of codes; each element of the batch is made codes first.

    Raises InvalidArgumentError where shapes, attributes, scales or zero points do not fit.
    """
    numbers, windows = _layout(lhs, rhs, node.attrs)
    axis = node.attrs["rhs_quantization_axis"]
    _, zero = along(rhs, axis, rhs_scales=rhs_scales, rhs_zero_points=rhs_zero_points)
    x = xp.transpose(lhs, numbers.input.order)
    rows = x.reshape(x.shape[0], math.prod(x.shape[1:]))
    codes, scale, zeros = row_codes(xp, rows)
    sums = _summed(
        xp,
        (codes - zeros).reshape(x.shape),
        xp.transpose(rhs.astype(np.int64) - zero, numbers.kernel.order),
        windows,
        node.attrs,
    )
    by = _beside(rhs_scales, axis, sums.ndim)
    # Features of one part of the kernel are made of one group of the batch, and take its scales.
    batches = node.attrs["batch_group_count"]
    count, features = sums.shape[:2]
    shares = (count, batches, features // batches)
    scales = xp.broadcast_to(scale.reshape(batches, count).T[:, :, None], shares)
    out = sums.astype(np.float32) * scales.reshape((count, features) + (1,) * (sums.ndim - 2)) * by
    return _back(xp, out, numbers)
