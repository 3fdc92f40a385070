"""Convolutions of quantised images. Ranges are kept in host memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.windows import Windows, windows
from flowengine.kernels.nn.convolution import conv_cost
from flowengine.kernels.quantized import codes
from flowengine.kernels.quantized.conversion import scalar
from flowengine.kernels.registry import kernel

_RANGES: Final = ("min_input", "max_input", "min_filter", "max_filter", "min_output", "max_output")


def _check(images: Array, filters: Array, node: Node) -> int:
    """The stride."""
    strides, dilations = node.attrs["strides"], node.attrs["dilations"]
    if len(strides) != 4:
        raise InvalidArgumentError(f"Sliding window strides field must specify 4 dimensions: {list(strides)}")
    if strides[1] != strides[2] or (strides[0], strides[3]) != (1, 1):
        raise InvalidArgumentError(
            "Current implementation only supports equal length strides in the row and column dimensions, "
            f"and none in the batch and depth dimensions: {list(strides)}"
        )
    if tuple(dilations) != (1, 1, 1, 1):
        raise InvalidArgumentError(
            f"Current implementation only supports dilated rate as 1, not {list(dilations)}"
        )
    for name, value in (("input", images), ("filter", filters)):
        if value.ndim != 4:
            raise InvalidArgumentError(f"{name} must be 4-dimensional: {brackets(value.shape)}")
    if images.shape[3] != filters.shape[2]:
        raise InvalidArgumentError(
            f"input and filter must have the same depth: {images.shape[3]} vs {filters.shape[2]}"
        )
    return int(strides[1])


def _centred(geometry: Windows, stride: int, is_valid: bool) -> Windows:
    """Windows that lie around the middle of the image, also where it is larger than they reach."""
    excess = [
        (n - 1) * stride + w - s
        for n, w, s in zip(geometry.out, geometry.window, geometry.sizes, strict=True)
    ]
    before = tuple(int((e + is_valid) / 2) for e in excess)
    after = tuple(e - b for e, b in zip(excess, before, strict=True))
    return Windows(
        geometry.sizes, geometry.window, geometry.strides, geometry.dilations, before, after, geometry.out
    )


def _cropped(x: Array, geometry: Windows) -> tuple[Array, Windows]:
    """The image without what no window reads, and windows whose paddings are not negative."""
    cuts = [
        slice(max(-b, 0), s - max(-a, 0))
        for b, a, s in zip(geometry.before, geometry.after, geometry.sizes, strict=True)
    ]
    x = x[:, cuts[0], cuts[1]]
    before, after = (tuple(max(v, 0) for v in side) for side in (geometry.before, geometry.after))
    return x, Windows(
        x.shape[1:3], geometry.window, geometry.strides, geometry.dilations, before, after, geometry.out
    )


@kernel("QuantizedConv2D", fresh=True, host=_RANGES, heavy=lambda x, filters, *ranges: conv_cost(x, filters))
def quantized_conv_2d(
    xp: Any,
    images: Array,
    filters: Array,
    min_input: Any,
    max_input: Any,
    min_filter: Any,
    max_filter: Any,
    *,
    node: Node,
    Tinput: DType,
    Tfilter: DType,
    out_type: DType,
) -> Any:
    """Convolve (N, H, W, C) with (h, w, C, F), of both codes less those of zero."""
    stride = _check(images, filters, node)
    first = scalar(min_input, "min_input"), scalar(max_input, "max_input")
    second = scalar(min_filter, "min_filter"), scalar(max_filter, "max_filter")
    zeros = (codes.unclamped(0.0, *first, Tinput.base), codes.unclamped(0.0, *second, Tfilter.base))
    window = filters.shape[:2]
    geometry = windows(images.shape[1:3], window, (stride, stride), (1, 1), node.attrs["padding"], ())
    shape = (images.shape[0], *geometry.out, filters.shape[3])
    length = filters.shape[0] * filters.shape[1] * filters.shape[2]
    bound = codes.largest_sum(zeros, length)
    image, geometry = _cropped(images, _centred(geometry, stride, node.attrs["padding"] == b"VALID"))
    image = xp.ascontiguousarray(codes.centred(image, zeros[0], bound))
    ends = codes.range_of_products(first, second, (Tinput.base, Tfilter.base), out_type.base)
    if 0 in shape or not length:
        return xp.zeros(shape, np.int32), *ends
    rows = geometry.patches(xp, geometry.pad(xp, image)).reshape(-1, length)
    matrix = codes.centred(filters, zeros[1], bound).reshape(length, -1)
    return codes.product(xp, rows, matrix).reshape(shape), *ends
