"""Convolutions and their gradients on a CPU: by blocks of patches, and of rows where channels stay apart."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Array
from flowengine.ir.graph import Node
from flowengine.kernels.common.ufuncs import float_kernel
from flowengine.kernels.nn import convolution as plain
from flowengine.kernels.numpy import conv_products, depthwise


@float_kernel("Conv2D", "Conv3D", device="CPU", fresh=True, heavy=plain.conv_cost)
def convolution(xp: Any, x: Array, filters: Array, *, node: Node) -> Any:
    """Convolve (N, *sizes, C_in) with filters (*window, C_in / groups, C_out); any spatial rank."""
    return plain.convolve(xp, conv_products, x, filters, node=node)


@float_kernel(
    "Conv2DBackpropFilter",
    "Conv3DBackpropFilterV2",
    device="CPU",
    fresh=True,
    heavy=plain.filter_cost,
    host=("filter_sizes",),
)
def convolution_backprop_filter(
    xp: Any, x: Array, filter_sizes: Array, out_backprop: Array, *, node: Node
) -> Any:
    """The gradient of a convolution's filters, of the shape `filter_sizes`."""
    return plain.backprop_filter(xp, conv_products, x, filter_sizes, out_backprop, node=node)


@float_kernel(
    "Conv2DBackpropInput",
    "Conv3DBackpropInputV2",
    device="CPU",
    fresh=True,
    heavy=plain.input_cost,
    host=("input_sizes",),
)
def convolution_backprop_input(
    xp: Any, input_sizes: Array, filters: Array, out_backprop: Array, *, node: Node
) -> Any:
    """The gradient of a convolution's input, of the shape `input_sizes`."""
    return plain.backprop_input(xp, conv_products, input_sizes, filters, out_backprop, node=node)


@float_kernel("DepthwiseConv2dNative", device="CPU", fresh=True, heavy=plain.depthwise_cost)
def depthwise_convolution(xp: Any, x: Array, filters: Array, *, node: Node) -> Any:
    """Convolve every channel of (N, H, W, C) with its own filters (H_f, W_f, C, M); returns C M channels."""
    return plain.convolve_depthwise(xp, depthwise, x, filters, node=node)


@float_kernel(
    "DepthwiseConv2dNativeBackpropInput",
    device="CPU",
    fresh=True,
    heavy=plain.depthwise_input_cost,
    host=("input_sizes",),
)
def depthwise_backprop_input(
    xp: Any, input_sizes: Array, filters: Array, out_backprop: Array, *, node: Node
) -> Any:
    """The gradient of a depthwise convolution's input, of the shape `input_sizes`."""
    return plain.backprop_depthwise_input(xp, depthwise, input_sizes, filters, out_backprop, node=node)


@float_kernel(
    "DepthwiseConv2dNativeBackpropFilter",
    device="CPU",
    fresh=True,
    heavy=plain.depthwise_filter_cost,
    host=("filter_sizes",),
)
def depthwise_backprop_filter(
    xp: Any, x: Array, filter_sizes: Array, out_backprop: Array, *, node: Node
) -> Any:
    """The gradient of a depthwise convolution's filters, of the shape `filter_sizes`."""
    return plain.backprop_depthwise_filter(xp, depthwise, x, filter_sizes, out_backprop, node=node)
