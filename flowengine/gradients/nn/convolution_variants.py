"""Gradients of convolutions of any rank or with padding of their own, and grayscale dilation."""

from __future__ import annotations

from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import same
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

# Convolutions of images that are made larger by their mirror image, on the way.

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


# Grayscale dilation: each gradient goes where the greatest sum was, and comes from there again.

#: How windows lie.
DILATED_WINDOWS: Final = ("strides", "rates", "padding")


@gradient("Dilation2D")
def dilation(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, w = op.inputs
    how = same(op, *DILATED_WINDOWS)
    return [
        b.ops.Dilation2DBackpropInput(x, w, grad, **how),
        b.ops.Dilation2DBackpropFilter(x, w, grad, **how),
    ]


@gradient("Dilation2DBackpropInput")
def dilation_backprop_input(b: Backward, op: Operation, grad: Tensor) -> Results:
    """By out_backprop: of each window of the gradient, the element where the greatest sum was."""
    x, w, _ = op.inputs
    rows, columns, how = _windows(op)
    windows = _patches(b, grad, b.shape(x), rows * columns, how)
    chosen = b.ops.Sum(b.ops.Mul(_winners(b, op), windows), b.constant(3, "int32"))
    return [b.zeros_like(x), b.zeros_like(w), chosen]


@gradient("Dilation2DBackpropFilter")
def dilation_backprop_filter(b: Backward, op: Operation, grad: Tensor) -> Results:
    """By out_backprop: the element of the gradient where each window's greatest sum was."""
    x, w, _ = op.inputs
    elements = _flat_filter(b, op, grad)
    chosen = b.ops.Sum(b.ops.Mul(_winners(b, op), elements), b.constant(3, "int32"))
    return [b.zeros_like(x), b.zeros_like(w), chosen]


def _windows(op: Operation) -> tuple[int, int, dict[str, Any]]:
    """Rows and columns of the filter, and how patches of its size lie."""
    dims = op.inputs[1].shape.as_tuple()
    if dims is None:
        raise InvalidArgumentError(
            f"{op.type} '{op.name}': its gradient needs the size of the filter '{op.inputs[1].name}', whose "
            f"shape is {op.inputs[1].shape}; give the filter a shape"
        )
    return dims[0], dims[1], {"ksizes": [1, dims[0], dims[1], 1], **same(op, *DILATED_WINDOWS)}


def _patches(b: Backward, x: Tensor, shape: Tensor, count: int, how: dict[str, Any]) -> Tensor:
    """(N, H, W, C) -> (N, rows, columns, elements of a window, C); zeros outside; `shape` is that of x"""
    joined = b.ops.ExtractImagePatches(x, **how)
    lead = b.ops.Slice(b.ops.Shape(joined), b.constant([0], "int32"), b.constant([3], "int32"))
    depth = b.ops.Slice(shape, b.constant([3], "int32"), b.constant([1], "int32"))
    layout = b.ops.ConcatV2([lead, b.constant([count], "int32"), depth], b.constant(0, "int32"))
    apart: Tensor = b.ops.Reshape(joined, layout)
    return apart


def _flat_filter(b: Backward, op: Operation, w: Tensor) -> Tensor:
    """(h, w, C) -> (h * w, C)"""
    rows, columns, _ = _windows(op)
    depth = b.ops.Slice(b.shape(op.inputs[1]), b.constant([2], "int32"), b.constant([1], "int32"))
    layout = b.ops.ConcatV2([b.constant([rows * columns], "int32"), depth], b.constant(0, "int32"))
    flat: Tensor = b.ops.Reshape(w, layout)
    return flat


def _winners(b: Backward, op: Operation) -> Tensor:
    """(N, rows, columns, elements of a window, C): 1 where the greatest sum of a window is, else 0"""
    x, w, _ = op.inputs
    rows, columns, how = _windows(op)
    count, kind, shape = rows * columns, x.dtype.base, b.shape(x)
    sums = b.ops.AddV2(_patches(b, x, shape, count, how), _flat_filter(b, op, w))
    ones = b.ops.OnesLike(x)
    is_inside = b.ops.Greater(_patches(b, ones, shape, count, how), b.constant(0, kind))
    lowest = b.constant(kind.min, kind)
    place = b.ops.ArgMax(b.ops.SelectV2(is_inside, sums, lowest), b.constant(3, "int32"))
    one, zero = b.constant(1, kind), b.constant(0, kind)
    found: Tensor = b.ops.OneHot(place, b.constant(count, "int32"), one, zero, axis=3)
    return found
