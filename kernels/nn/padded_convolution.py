"""Convolutions of images that are resized, and made larger by their mirror image, on the way."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.array.padding import mirror_pad
from flowengine.kernels.common.interpolation import linear
from flowengine.kernels.common.ufuncs import float_kernel, shape_text
from flowengine.kernels.image.resizing import mixed, output_size
from flowengine.kernels.nn.conv_products import Products
from flowengine.kernels.nn.convolution import conv_cost, convolve


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
