"""Convolutions of images that are made larger by their mirror image, on the way."""

from __future__ import annotations

from typing import Final

from flowengine.gradients.attributes import same
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor

#: How windows lie in the padded image.
WINDOWS: Final = ("strides", "padding")


@gradient("FusedPadConv2D")
def fused_pad_conv(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The gradients of a convolution behind a mirrored padding, which is done once more."""
    x, paddings, w = op.inputs
    d_x, d_w = _padded(b, op, x, paddings, w, grad)
    return [d_x, None, d_w]


def _padded(
    b: Backward, op: Operation, x: Tensor, paddings: Tensor, w: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients by the image before it was padded, and by the filter."""
    mode, how = op.get_attr("mode"), same(op, *WINDOWS)
    padded: Tensor = b.ops.MirrorPad(x, paddings, mode=mode)
    d_padded = b.ops.Conv2DBackpropInput(b.ops.Shape(padded), w, grad, **how)
    return (
        b.ops.MirrorPadGrad(d_padded, paddings, mode=mode),
        b.ops.Conv2DBackpropFilter(padded, b.shape(w), grad, **how),
    )


@gradient("FusedResizeAndPadConv2D")
def fused_resize_conv(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The same behind a bilinear resizing, whose gradient is known to single precision."""
    x, size, paddings, w = op.inputs
    align = op.get_attr("resize_align_corners")
    resized = b.ops.Cast(b.ops.ResizeBilinear(x, size, align_corners=align), DstT=x.dtype)
    d_resized, d_w = _padded(b, op, resized, paddings, w, grad)
    d_x = b.ops.ResizeBilinearGrad(b.ops.Cast(d_resized, DstT="float32"), x, align_corners=align)
    return [d_x, None, None, d_w]
