"""Convolutions, depthwise ones too, and layouts of images."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from flowengine.core.arrays import Array, to_array
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.ir.graph import Node
from flowengine.kernels.common.ufuncs import float_kernel, shape_text
from flowengine.kernels.common.windows import (
    Windows,
    batch_and_depth,
    explicit_pairs,
    from_channels_last,
    is_channels_first,
    spatial,
    to_channels_last,
    windows,
)
from flowengine.kernels.nn.conv_products import DepthwiseProducts, Products
from flowengine.kernels.registry import kernel

# Axes and vectors carried from one layout of images to another (NHWC, NCHW).


def _check(source: bytes, target: bytes) -> None:
    if sorted(source) != sorted(target) or len(set(source)) != len(source):
        raise InvalidArgumentError(
            f"dst_format {target.decode(errors='replace')} must be a permutation of src_format "
            f"{source.decode(errors='replace')}, each axis once"
        )


@kernel("DataFormatDimMap", fresh=True)
def data_format_dim_map(xp: Any, x: Array, *, src_format: bytes, dst_format: bytes) -> Any:
    """Map each axis of the source, possibly counted from the end, to its position in the target.

    What is no axis is taken modulo the number of axes; below its negative, as the last axis unless it is a
    multiple of it.
    """
    _check(src_format, dst_format)
    rank = len(src_format)
    places = xp.array([dst_format.index(axis) for axis in src_format], x.dtype)
    wrapped = x % rank
    return places[xp.where((x < -rank) & (wrapped != 0), rank - 1, wrapped)]


@kernel("DataFormatVecPermute", device=None, fresh=True)
def data_format_vec_permute(x: Array, *, src_format: bytes, dst_format: bytes) -> Any:
    """The entries (4,), or pairs (4, 2), of the source's axes in the order of the target's."""
    _check(src_format, dst_format)
    rank = len(src_format)
    if x.ndim not in (1, 2) or x.shape[0] != rank or (x.ndim == 2 and x.shape[1] != 2):
        raise InvalidArgumentError(
            f"a vector of {rank} or a matrix of {rank} x 2 elements is needed, not {shape_text(x)}"
        )
    return x[[src_format.index(axis) for axis in dst_format]]


# Conv2D, Conv3D, depthwise convolution and their gradients as ops: arguments checked, layouts undone.
#
# NHWC and NCHW are both served, half and bfloat16 through float32. The work is done in `conv` and
# `depthwise`.

#: Multiplications and additions of one core in a microsecond, of convolutions over BLAS.
_PRODUCTS_A_MICROSECOND = 40_000.0


@functools.lru_cache(maxsize=1024)
def _layout(
    data_format: bytes, strides: tuple[int, ...], dilations: tuple[int, ...] | None, rank: int
) -> bool:
    """Whether the channels come first; checks strides and dilations of batch and depth."""
    first = is_channels_first(data_format)
    for name, values in (("strides", strides), ("dilations", dilations or (1,) * rank)):
        if len(values) != rank:
            raise InvalidArgumentError(f"Sliding window {name} field must specify {rank} dimensions")
        if batch_and_depth(values, first) != (1, 1):
            raise InvalidArgumentError(f"{name} {list(values)} of the batch and depth dimensions must be 1")
    return first


def _channels_first(attrs: Mapping[str, Any], rank: int) -> bool:
    return _layout(attrs.get("data_format", b"NDHWC"), attrs["strides"], attrs.get("dilations"), rank)


def _geometry(
    attrs: Mapping[str, Any], first: bool, sizes: tuple[int, ...], window: tuple[int, ...]
) -> Windows:
    return _windows(
        attrs["padding"],
        attrs["strides"],
        attrs.get("dilations"),
        attrs.get("explicit_paddings", ()),
        first,
        sizes,
        window,
    )


@functools.lru_cache(maxsize=1024)
def _windows(
    padding: bytes,
    strides: tuple[int, ...],
    dilations: tuple[int, ...] | None,
    explicit: tuple[int, ...],
    first: bool,
    sizes: tuple[int, ...],
    window: tuple[int, ...],
) -> Windows:
    pairs = explicit_pairs(explicit, first) if padding == b"EXPLICIT" else ()
    spread = spatial(dilations, first) if dilations is not None else (1,) * len(window)
    return windows(sizes, window, spatial(strides, first), spread, padding, pairs)


def _check_ranks(x: Array, filters: Array, rank: int) -> None:
    if x.ndim != rank:
        raise InvalidArgumentError(f"input must be {rank}-dimensional: {shape_text(x)}")
    if filters.ndim != rank:
        raise InvalidArgumentError(f"filter must be {rank}-dimensional: {shape_text(filters)}")


def _groups(channels: int, filter_channels: int, width: int) -> int:
    if channels == filter_channels:
        return 1
    if filter_channels == 0 or channels % filter_channels:
        raise InvalidArgumentError(
            f"input depth must be evenly divisible by filter depth: {channels} vs {filter_channels}"
        )
    groups = channels // filter_channels
    if width % groups:
        raise InvalidArgumentError(
            f"output depth must be evenly divisible by number of groups: {width} vs {groups}"
        )
    return groups


def _sizes_vector(name: str, sizes: Array, rank: int) -> tuple[int, ...]:
    if sizes.ndim != 1:
        raise InvalidArgumentError(f"{name} must be 1-dim, not {sizes.ndim}")
    if sizes.shape[0] != rank:
        raise InvalidArgumentError(f"{name} must have {rank} elements, not {sizes.shape[0]}")
    return tuple(sizes.tolist())


def _check_gradient(gradient: Array, count: int, geometry: Windows, width: int) -> None:
    expected = (count, *geometry.out, width)
    if gradient.shape != expected:
        raise InvalidArgumentError(
            f"Size of out_backprop doesn't match computed: actual = {list(gradient.shape)}, "
            f"computed = {list(expected)} (channels last) [input sizes: {list(geometry.sizes)}, "
            f"window: {list(geometry.window)}, strides: {list(geometry.strides)}]"
        )


def conv_cost(x: Array, filters: Array) -> float:
    pixels = x.size / max(x.shape[-1], 1) if x.ndim else 1
    return pixels * filters.size / _PRODUCTS_A_MICROSECOND


def convolve(xp: Any, products: Any, x: Array, filters: Array, *, node: Node) -> Any:
    """Convolve (N, *sizes, C_in) with filters (*window, C_in / groups, C_out); any spatial rank.

    Returns (N, *out, C_out), or both with the channels second as `data_format` says.
    InvalidArgumentError where ranks, depths or sizes do not fit.
    """
    return convolve_as(xp, products, x, filters, node.attrs, 5 if node.op == "Conv3D" else 4)


def convolve_as(xp: Any, products: Any, x: Array, filters: Array, attrs: Mapping[str, Any], rank: int) -> Any:
    """`convolve` with attributes of `Conv2D` (rank 4) or `Conv3D` (rank 5)."""
    first = _channels_first(attrs, rank)
    _check_ranks(x, filters, rank)
    x = to_channels_last(x, first)
    geometry = _geometry(attrs, first, x.shape[1:-1], filters.shape[:-2])
    if not filters.size and x.size and filters.shape[-1]:
        raise InvalidArgumentError(f"filter must not have zero elements, but is {shape_text(filters)}")
    groups = _groups(x.shape[-1], filters.shape[-2], filters.shape[-1])
    if groups == 1:
        return from_channels_last(xp, products.forward(x, filters, geometry), first)
    parts = [
        products.forward(part, weights, geometry)
        for part, weights in zip(
            xp.split(x, groups, axis=-1), xp.split(filters, groups, axis=-1), strict=True
        )
    ]
    return from_channels_last(xp, xp.concatenate(parts, axis=-1), first)


@float_kernel("Conv2D", "Conv3D", fresh=True, heavy=conv_cost)
def convolution(xp: Any, x: Array, filters: Array, *, node: Node) -> Any:
    """Convolve (N, *sizes, C_in) with filters (*window, C_in / groups, C_out); any spatial rank."""
    return convolve(xp, Products(xp), x, filters, node=node)


def filter_cost(x: Array, filter_sizes: Array, out_backprop: Array) -> float:
    window = float(math.prod(filter_sizes.reshape(-1)[:-1].tolist()))
    return out_backprop.size * window / _PRODUCTS_A_MICROSECOND


def backprop_filter(
    xp: Any, products: Any, x: Array, filter_sizes: Array, out_backprop: Array, *, node: Node
) -> Any:
    """The gradient of a convolution's filters, of the shape `filter_sizes`."""
    rank = x.ndim
    if rank not in (4, 5):
        raise InvalidArgumentError(f"input must be 4- or 5-dimensional: {shape_text(x)}")
    first = _channels_first(node.attrs, rank)
    shape = _sizes_vector("filter_sizes", filter_sizes, rank)
    if out_backprop.ndim != rank:
        raise InvalidArgumentError(f"out_backprop must be {rank}-dimensional: {shape_text(out_backprop)}")
    x, gradient = to_channels_last(x, first), to_channels_last(out_backprop, first)
    geometry = _geometry(node.attrs, first, x.shape[1:-1], shape[:-2])
    _check_gradient(gradient, x.shape[0], geometry, shape[-1])
    if 0 in shape:
        return xp.zeros(shape, x.dtype)
    groups = _groups(x.shape[-1], shape[-2], shape[-1])
    if groups == 1:
        return products.filter_gradient(x, gradient, geometry)
    parts = [
        products.filter_gradient(part, g, geometry)
        for part, g in zip(xp.split(x, groups, axis=-1), xp.split(gradient, groups, axis=-1), strict=True)
    ]
    return xp.concatenate(parts, axis=-1)


@float_kernel(
    "Conv2DBackpropFilter",
    "Conv3DBackpropFilterV2",
    fresh=True,
    heavy=filter_cost,
    host=("filter_sizes",),
)
def convolution_backprop_filter(
    xp: Any, x: Array, filter_sizes: Array, out_backprop: Array, *, node: Node
) -> Any:
    """The gradient of a convolution's filters, of the shape `filter_sizes`."""
    return backprop_filter(xp, Products(xp), x, filter_sizes, out_backprop, node=node)


def input_cost(input_sizes: Array, filters: Array, out_backprop: Array) -> float:
    width = max(filters.shape[-1], 1) if filters.ndim else 1
    return float(out_backprop.size * filters.size / width / _PRODUCTS_A_MICROSECOND)


def backprop_input(
    xp: Any, products: Any, input_sizes: Array, filters: Array, out_backprop: Array, *, node: Node
) -> Any:
    """The gradient of a convolution's input, of the shape `input_sizes`."""
    rank = filters.ndim
    if rank not in (4, 5):
        raise InvalidArgumentError(f"filter must be 4- or 5-dimensional: {shape_text(filters)}")
    first = _channels_first(node.attrs, rank)
    shape = _sizes_vector("input_sizes", input_sizes, rank)
    if out_backprop.ndim != rank:
        raise InvalidArgumentError(f"out_backprop must be {rank}-dimensional: {shape_text(out_backprop)}")
    gradient = to_channels_last(out_backprop, first)
    geometry = _geometry(node.attrs, first, spatial(shape, first), filters.shape[:-2])
    batch, channels = batch_and_depth(shape, first)
    _check_gradient(gradient, batch, geometry, filters.shape[-1])
    groups = _groups(channels, filters.shape[-2], filters.shape[-1])
    if groups == 1:
        return from_channels_last(xp, products.input_gradient(filters, gradient, geometry), first)
    parts = [
        products.input_gradient(weights, g, geometry)
        for weights, g in zip(
            xp.split(filters, groups, axis=-1), xp.split(gradient, groups, axis=-1), strict=True
        )
    ]
    return from_channels_last(xp, xp.concatenate(parts, axis=-1), first)


@float_kernel(
    "Conv2DBackpropInput",
    "Conv3DBackpropInputV2",
    fresh=True,
    heavy=input_cost,
    host=("input_sizes",),
)
def convolution_backprop_input(
    xp: Any, input_sizes: Array, filters: Array, out_backprop: Array, *, node: Node
) -> Any:
    """The gradient of a convolution's input, of the shape `input_sizes`."""
    return backprop_input(xp, Products(xp), input_sizes, filters, out_backprop, node=node)


@float_kernel(
    "Conv3DBackpropFilter", fresh=True, heavy=lambda x, filters, gradient: conv_cost(gradient, filters)
)
def volume_backprop_filter(xp: Any, x: Array, filters: Array, out_backprop: Array, *, node: Node) -> Any:
    """`Conv3DBackpropFilterV2` with filters in the place of their sizes."""
    return backprop_filter(xp, Products(xp), x, to_array(filters.shape), out_backprop, node=node)


@float_kernel(
    "Conv3DBackpropInput", fresh=True, heavy=lambda x, filters, gradient: conv_cost(gradient, filters)
)
def volume_backprop_input(xp: Any, x: Array, filters: Array, out_backprop: Array, *, node: Node) -> Any:
    """`Conv3DBackpropInputV2` with an input in the place of its sizes."""
    return backprop_input(xp, Products(xp), to_array(x.shape), filters, out_backprop, node=node)


def _depthwise_geometry(
    attrs: Mapping[str, Any], shape: tuple[int, ...], filter_shape: tuple[int, ...], first: bool
) -> Windows:
    """Geometry of a depthwise convolution on a channels-last shape; checks the depths."""
    if len(filter_shape) != 4:
        raise InvalidArgumentError(f"filter must be 4-dimensional: {list(filter_shape)}")
    if shape[-1] != filter_shape[2]:
        raise InvalidArgumentError(
            f"input and filter must have the same depth: {shape[-1]} vs {filter_shape[2]}"
        )
    strides = spatial(attrs["strides"], first)
    if strides[0] != strides[1]:
        raise InvalidArgumentError(
            "Current implementation only supports equal length strides in the row and "
            f"column dimensions, not {list(strides)}"
        )
    if spatial(attrs.get("dilations", (1, 1, 1, 1)), first) != (1, 1) and strides != (1, 1):
        raise UnimplementedError("dilations of a depthwise convolution need strides of 1")
    return _geometry(attrs, first, shape[1:-1], filter_shape[:2])


def depthwise_cost(x: Array, filters: Array) -> float:
    return float(x.size * math.prod(filters.shape[:2]) / 7000)


def depthwise_input_cost(input_sizes: Array, filters: Array, out_backprop: Array) -> float:
    return float(out_backprop.size * math.prod(filters.shape[:2]) / 7000)


def depthwise_filter_cost(x: Array, filter_sizes: Array, out_backprop: Array) -> float:
    return float(out_backprop.size * 9 / 7000)


def convolve_depthwise(xp: Any, products: Any, x: Array, filters: Array, *, node: Node) -> Any:
    """Convolve every channel of (N, H, W, C) with its own filters (H_f, W_f, C, M); returns C M channels."""
    first = _channels_first(node.attrs, 4)
    _check_ranks(x, filters, 4)
    x = to_channels_last(x, first)
    geometry = _depthwise_geometry(node.attrs, x.shape, filters.shape, first)
    return from_channels_last(xp, products.forward(x, filters, geometry), first)


@float_kernel("DepthwiseConv2dNative", fresh=True, heavy=depthwise_cost)
def depthwise_convolution(xp: Any, x: Array, filters: Array, *, node: Node) -> Any:
    """Convolve every channel of (N, H, W, C) with its own filters (H_f, W_f, C, M); returns C M channels."""
    return convolve_depthwise(xp, DepthwiseProducts(xp), x, filters, node=node)


def backprop_depthwise_input(
    xp: Any, products: Any, input_sizes: Array, filters: Array, out_backprop: Array, *, node: Node
) -> Any:
    """The gradient of a depthwise convolution's input, of the shape `input_sizes`."""
    first = _channels_first(node.attrs, 4)
    shape = _sizes_vector("input_sizes", input_sizes, 4)
    _check_ranks(out_backprop, filters, 4)
    gradient = to_channels_last(out_backprop, first)
    last = (shape[0], *shape[2:], shape[1]) if first else shape
    geometry = _depthwise_geometry(node.attrs, last, filters.shape, first)
    _check_gradient(gradient, last[0], geometry, filters.shape[2] * filters.shape[3])
    return from_channels_last(xp, products.input_gradient(filters, gradient, geometry), first)


@float_kernel(
    "DepthwiseConv2dNativeBackpropInput", fresh=True, heavy=depthwise_input_cost, host=("input_sizes",)
)
def depthwise_backprop_input(
    xp: Any, input_sizes: Array, filters: Array, out_backprop: Array, *, node: Node
) -> Any:
    """The gradient of a depthwise convolution's input, of the shape `input_sizes`."""
    return backprop_depthwise_input(xp, DepthwiseProducts(xp), input_sizes, filters, out_backprop, node=node)


def backprop_depthwise_filter(
    xp: Any, products: Any, x: Array, filter_sizes: Array, out_backprop: Array, *, node: Node
) -> Any:
    """The gradient of a depthwise convolution's filters, of the shape `filter_sizes`."""
    first = _channels_first(node.attrs, 4)
    shape = _sizes_vector("filter_sizes", filter_sizes, 4)
    _check_ranks(x, out_backprop, 4)
    x, gradient = to_channels_last(x, first), to_channels_last(out_backprop, first)
    geometry = _depthwise_geometry(node.attrs, x.shape, shape, first)
    _check_gradient(gradient, x.shape[0], geometry, shape[2] * shape[3])
    return products.filter_gradient(x, gradient, geometry, shape[3])


@float_kernel(
    "DepthwiseConv2dNativeBackpropFilter", fresh=True, heavy=depthwise_filter_cost, host=("filter_sizes",)
)
def depthwise_backprop_filter(
    xp: Any, x: Array, filter_sizes: Array, out_backprop: Array, *, node: Node
) -> Any:
    """The gradient of a depthwise convolution's filters, of the shape `filter_sizes`."""
    return backprop_depthwise_filter(xp, DepthwiseProducts(xp), x, filter_sizes, out_backprop, node=node)
