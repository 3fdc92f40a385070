"""Convolutions of any rank or with padding of their own, and grayscale dilation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.ir.graph import Node
from flowengine.kernels.array.padding import mirror_pad
from flowengine.kernels.common.interpolation import linear
from flowengine.kernels.common.ufuncs import NARROW, float_kernel, shape_text, widened
from flowengine.kernels.common.windows import Windows, windows
from flowengine.kernels.image.resizing import mixed, output_size
from flowengine.kernels.nn.conv_products import Products
from flowengine.kernels.nn.convolution import conv_cost, convolve, convolve_as
from flowengine.kernels.registry import kernel

# `Conv`: its batch dimensions made one, it is a convolution of images or of volumes.

#: {(spatial dimensions, layout): what Conv2D and Conv3D call it}
_LAYOUTS: Final = {
    (2, b"CHANNELS_LAST"): b"NHWC",
    (2, b"CHANNELS_FIRST"): b"NCHW",
    (3, b"CHANNELS_LAST"): b"NDHWC",
    (3, b"CHANNELS_FIRST"): b"NCDHW",
}


@float_kernel("Conv", fresh=True, heavy=conv_cost)
def conv(
    xp: Any,
    x: Array,
    filters: Array,
    *,
    strides: tuple[int, ...],
    padding: bytes,
    explicit_paddings: tuple[int, ...],
    data_format: bytes,
    dilations: tuple[int, ...],
    batch_dims: int,
    groups: int,
) -> Any:
    """Convolve (batch..., sizes..., C) with filters (window..., C, F), two or three sizes.

    Returns (batch..., out..., F), or both with the channels before the sizes.
    InvalidArgumentError where ranks, depths or sizes do not fit; UnimplementedError for groups, as
    TensorFlow has it.
    """
    count = x.ndim - batch_dims - 1
    if count not in (2, 3):
        raise InvalidArgumentError(f"The input must have 2 or 3 spatial dimensions but got {count}")
    if groups != 1:
        raise UnimplementedError(f"Grouped convolutions are not supported: groups is {groups}")
    if filters.ndim != count + 2:
        raise InvalidArgumentError(f"filter must be {count + 2}-dimensional: {shape_text(filters)}")
    depth = x.shape[-1] if data_format == b"CHANNELS_LAST" else x.shape[batch_dims]
    if depth != filters.shape[-2]:
        raise InvalidArgumentError(
            f"Input depth must be equal to filter depth: {depth} vs {filters.shape[-2]}"
        )
    attrs = {
        "strides": strides,
        "padding": padding,
        "explicit_paddings": explicit_paddings,
        "data_format": _LAYOUTS[count, data_format],
        "dilations": dilations or (1,) * (count + 2),
    }
    batch = x.shape[:batch_dims]
    images = x.reshape(math.prod(batch), *x.shape[batch_dims:])
    out = convolve_as(xp, Products(xp), images, filters, attrs, count + 2)
    return out.reshape(*batch, *out.shape[1:])


# Convolutions of images that are resized, and made larger by their mirror image, on the way.


def _padded(xp: Any, x: Array, paddings: Array, filters: Array, *, node: Node) -> Any:
    if x.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional: {shape_text(x)}")
    if not x.size:
        raise InvalidArgumentError(f"Input tensor can't be empty: {shape_text(x)}")
    if paddings.shape != (4, 2):
        raise InvalidArgumentError(
            f"paddings must be a matrix with 4 rows of 2 columns: {shape_text(paddings)}"
        )
    pairs = paddings.tolist()
    if any(pairs[0]) or any(pairs[3]):
        raise InvalidArgumentError(f"Fused mirror padding only support spatial padding, not batches: {pairs}")
    if filters.ndim == 4 and filters.shape[2] != x.shape[3]:
        raise InvalidArgumentError(
            f"input and filter must have the same depth: {x.shape[3]} vs {filters.shape[2]}"
        )
    padded = mirror_pad(xp, x, paddings, mode=node.attrs["mode"])
    return convolve(xp, Products(xp), xp.ascontiguousarray(padded), filters, node=node)


@float_kernel(
    "FusedPadConv2D",
    fresh=True,
    host=("paddings",),
    heavy=lambda x, paddings, filters: conv_cost(x, filters),
)
def fused_pad_conv_2d(xp: Any, x: Array, paddings: Array, filters: Array, *, node: Node) -> Any:
    """Convolve (N, H, W, C) with its mirror image around it, as `MirrorPad` and `Conv2D` would."""
    return _padded(xp, x, paddings, filters, node=node)


@float_kernel(
    "FusedResizeAndPadConv2D",
    fresh=True,
    host=("size", "paddings"),
    heavy=lambda x, size, paddings, filters: conv_cost(x, filters),
)
def fused_resize_and_pad_conv_2d(
    xp: Any, x: Array, size: Array, paddings: Array, filters: Array, *, node: Node
) -> Any:
    """`FusedPadConv2D` of what bilinear resizing makes of the images."""
    for axis, wanted in zip((2, 1), reversed(output_size(x, size)), strict=True):
        if wanted != x.shape[axis]:
            tables = linear(x.shape[axis], wanted, node.attrs["resize_align_corners"], False)
            x = mixed(xp, x, axis, *map(xp.asarray, tables))
    return _padded(xp, x, paddings, filters, node=node)


# Grayscale dilation and its gradients: the greatest of input plus filter over each window.


def _geometry(x: Array, filters: Array, node: Node) -> Windows:
    if x.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional: {shape_text(x)}")
    if filters.ndim != 3:
        raise InvalidArgumentError(f"filter must be 3-dimensional: {shape_text(filters)}")
    strides, rates = node.attrs["strides"], node.attrs["rates"]
    if len(strides) != 4 or strides[0] != 1 or strides[3] != 1:
        raise InvalidArgumentError(f"strides must have 4 entries, 1 for batch and depth: {list(strides)}")
    if len(rates) != 4 or rates[0] != 1 or rates[3] != 1:
        raise InvalidArgumentError(f"rates must have 4 entries, 1 for batch and depth: {list(rates)}")
    if x.shape[-1] != filters.shape[-1]:
        raise InvalidArgumentError(
            f"input and filter must have the same depth: {x.shape[-1]} vs {filters.shape[-1]}"
        )
    return windows(x.shape[1:3], filters.shape[:2], strides[1:3], rates[1:3], node.attrs["padding"])


def _lowest(dtype: Any) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else np.finfo(dtype).min


def _candidates(
    xp: Any, x: Array, filters: Array, geometry: Windows
) -> Iterator[tuple[tuple[int, ...], Array, Array]]:
    """(offset in the window, which windows have a real element there, element plus filter)."""
    padded = geometry.pad(xp, x)
    real = geometry.pad(xp, xp.ones((1, *x.shape[1:3], 1), bool))
    for offset in itertools.product(*(range(n) for n in geometry.window)):
        places = (slice(None), *geometry.slices(offset))
        yield offset, real[places], padded[places] + filters[offset]


def _winners(xp: Any, x: Array, filters: Array, geometry: Windows) -> tuple[Array, Array]:
    """The greatest sum of each window, and the number of the first offset that has it."""
    shape = (x.shape[0], *geometry.out, x.shape[-1])
    best = xp.full(shape, _lowest(x.dtype), x.dtype)
    winner = xp.zeros(shape, np.int32)
    for number, (_, real, value) in enumerate(_candidates(xp, x, filters, geometry)):
        better = (value > best) & real
        xp.copyto(best, value, where=better)
        winner[better] = number
    return best, winner


def _dilation(xp: Any, x: Array, filters: Array, node: Node) -> Any:
    return _winners(xp, x, filters, _geometry(x, filters, node))[0]


@kernel("Dilation2D", types={"T": NARROW}, fresh=True)
@widened
def dilation_2d_narrow(xp: Any, x: Array, filters: Array, *, node: Node) -> Any:
    return _dilation(xp, x, filters, node)


@kernel("Dilation2D", fresh=True)
def dilation_2d(xp: Any, x: Array, filters: Array, *, node: Node) -> Any:
    """The greatest of x + filter over windows of (N, H, W, C), filters (H_f, W_f, C)."""
    return _dilation(xp, x, filters, node)


def _check_gradient(gradient: Array, x: Array, geometry: Windows) -> None:
    expected = (x.shape[0], *geometry.out, x.shape[-1])
    if gradient.shape != expected:
        raise InvalidArgumentError(
            f"out_backprop has shape {shape_text(gradient)}, the dilation has {list(expected)}"
        )


@kernel("Dilation2DBackpropInput", fresh=True)
def dilation_2d_backprop_input(xp: Any, x: Array, filters: Array, out_backprop: Array, *, node: Node) -> Any:
    """The gradient of the input: each window's goes to its first greatest element."""
    geometry = _geometry(x, filters, node)
    _check_gradient(out_backprop, x, geometry)
    winner = _winners(xp, x, filters, geometry)[1]
    padded = xp.zeros((x.shape[0], *geometry.padded, x.shape[-1]), x.dtype)
    for number, offset in enumerate(itertools.product(*(range(n) for n in geometry.window))):
        part = xp.where(winner == number, out_backprop, out_backprop.dtype.type(0))
        padded[(slice(None), *geometry.slices(offset))] += part
    return xp.ascontiguousarray(geometry.crop(padded))


@kernel("Dilation2DBackpropFilter", fresh=True)
def dilation_2d_backprop_filter(xp: Any, x: Array, filters: Array, out_backprop: Array, *, node: Node) -> Any:
    """The gradient of the filter: each window's goes to the first offset that has the greatest sum."""
    geometry = _geometry(x, filters, node)
    _check_gradient(out_backprop, x, geometry)
    winner = _winners(xp, x, filters, geometry)[1]
    result = xp.zeros_like(filters)
    for number, offset in enumerate(itertools.product(*(range(n) for n in geometry.window))):
        part = xp.where(winner == number, out_backprop, out_backprop.dtype.type(0))
        result[offset] = xp.add.reduce(part, axis=(0, 1, 2), dtype=filters.dtype)
    return result
