"""Convolutions and their gradients: three products of the same three tensors.

A convolution `y = x * w` is bilinear, and so are the two ops of its gradient. With x, w and dy in the places
of image, filter and output, each op computes one of the three from the other two; so the derivative of each
is made of the other two, and derivatives of any order need no further op.
"""

from __future__ import annotations

from typing import Any, Final

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import same
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

#: How windows lie in images, by all three ops.
PLANES: Final = (
    "strides",
    "padding",
    "explicit_paddings",
    "data_format",
    "dilations",
    "use_cudnn_on_gpu",
)
#: The same where channels stay apart, and in volumes.
WINDOWS: Final = ("strides", "padding", "data_format", "dilations")


@gradient("Conv2D")
def conv_2d(b: Backward, op: Operation, grad: Tensor) -> Results:
    """y = x * w: dx from w and dy, dw from x and dy"""
    x, w = op.inputs
    how = same(op, *PLANES)
    return [
        b.ops.Conv2DBackpropInput(b.shape(x), w, grad, **how),
        b.ops.Conv2DBackpropFilter(x, b.shape(w), grad, **how),
    ]


@gradient("Conv2DBackpropInput")
def conv_2d_backprop_input(b: Backward, op: Operation, grad: Tensor) -> Results:
    _, w, dy = op.inputs
    how = same(op, *PLANES)
    return [None, b.ops.Conv2DBackpropFilter(grad, b.shape(w), dy, **how), b.ops.Conv2D(grad, w, **how)]


@gradient("Conv2DBackpropFilter")
def conv_2d_backprop_filter(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, _, dy = op.inputs
    how = same(op, *PLANES)
    return [b.ops.Conv2DBackpropInput(b.shape(x), grad, dy, **how), None, b.ops.Conv2D(x, grad, **how)]


@gradient("DepthwiseConv2dNative")
def depthwise_conv(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, w = op.inputs
    how = same(op, *WINDOWS)
    return [
        b.ops.DepthwiseConv2dNativeBackpropInput(b.shape(x), w, grad, **how),
        b.ops.DepthwiseConv2dNativeBackpropFilter(x, b.shape(w), grad, **how),
    ]


@gradient("DepthwiseConv2dNativeBackpropInput")
def depthwise_conv_backprop_input(b: Backward, op: Operation, grad: Tensor) -> Results:
    _, w, dy = op.inputs
    how = same(op, *WINDOWS)
    return [
        None,
        b.ops.DepthwiseConv2dNativeBackpropFilter(grad, b.shape(w), dy, **how),
        b.ops.DepthwiseConv2dNative(grad, w, **how),
    ]


@gradient("DepthwiseConv2dNativeBackpropFilter")
def depthwise_conv_backprop_filter(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, _, dy = op.inputs
    how = same(op, *WINDOWS)
    return [
        b.ops.DepthwiseConv2dNativeBackpropInput(b.shape(x), grad, dy, **how),
        None,
        b.ops.DepthwiseConv2dNative(x, grad, **how),
    ]


@gradient("Conv3D")
def conv_3d(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, w = op.inputs
    how = same(op, *WINDOWS)
    return [
        b.ops.Conv3DBackpropInputV2(b.shape(x), w, grad, **how),
        b.ops.Conv3DBackpropFilterV2(x, b.shape(w), grad, **how),
    ]


@gradient("Conv3DBackpropInput", "Conv3DBackpropInputV2")
def conv_3d_backprop_input(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The first input only says how large the result is: as a vector, or as an example of it."""
    _, w, dy = op.inputs
    how = _volumes(op)
    return [None, b.ops.Conv3DBackpropFilterV2(grad, b.shape(w), dy, **how), b.ops.Conv3D(grad, w, **how)]


@gradient("Conv3DBackpropFilter", "Conv3DBackpropFilterV2")
def conv_3d_backprop_filter(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The second input only says how large the result is: as a vector, or as an example of it."""
    x, _, dy = op.inputs
    how = _volumes(op)
    return [b.ops.Conv3DBackpropInputV2(b.shape(x), grad, dy, **how), None, b.ops.Conv3D(x, grad, **how)]


def _volumes(op: Operation) -> dict[str, Any]:
    """How windows lie; the ops without a version know one layout only."""
    return same(op, *(name for name in WINDOWS if name in op.node.attrs))
