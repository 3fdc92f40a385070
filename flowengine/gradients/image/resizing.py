"""Gradients of images resized, and projected onto others."""

from __future__ import annotations

from typing import Final

import numpy as np

from flowengine.core import dtypes
from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, integers, same
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

# Resizing of images: linear, so each op and its gradient are each other's derivative.

#: Where the pixels of the two grids lie.
GRID: Final = ("align_corners", "half_pixel_centers")
#: How pixels are weighed.
KERNEL: Final = ("kernel_type", "antialias")


@gradient("ResizeNearestNeighbor")
def nearest(b: Backward, op: Operation, grad: Tensor) -> Results:
    size = _size(b, op.inputs[0])
    return [b.ops.ResizeNearestNeighborGrad(grad, size, **same(op, *GRID)), None]


def _size(b: Backward, images: Tensor) -> Tensor:
    """Height and width of images (N, H, W, C)."""
    dims = images.shape.dims
    if dims is not None and None not in dims[1:3]:
        return b.constant(dims[1:3], "int32")
    begin, end, step = (b.constant([i], "int32") for i in (1, 3, 1))
    size: Tensor = b.ops.StridedSlice(b.shape(images), begin, end, step)
    return size


@gradient("ResizeNearestNeighborGrad")
def nearest_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.ResizeNearestNeighbor(grad, _size(b, op.inputs[0]), **same(op, *GRID)), None]


@gradient("ResizeBilinear")
def bilinear(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Images of integers have no gradient."""
    images = op.inputs[0]
    if not images.dtype.is_floating:
        return [None, None]
    return [b.ops.ResizeBilinearGrad(grad, images, **same(op, *GRID)), None]


@gradient("ResizeBilinearGrad")
def bilinear_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The second input only says how large the result is, and of which type."""
    return [b.ops.ResizeBilinear(grad, _size(b, op.inputs[0]), **same(op, *GRID)), None]


@gradient("ResizeBicubic")
def bicubic(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Images of integers and of halves have no gradient, as in TensorFlow."""
    images = op.inputs[0]
    if images.dtype.base not in (dtypes.float32, dtypes.float64):
        return [None, None]
    return [b.ops.ResizeBicubicGrad(grad, images, **same(op, *GRID)), None]


@gradient("ResizeBicubicGrad")
def bicubic_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.ResizeBicubic(grad, _size(b, op.inputs[0]), **same(op, *GRID)), None]


@gradient("ScaleAndTranslate")
def scale_and_translate(b: Backward, op: Operation, grad: Tensor) -> Results:
    """By the images; scale and translation only choose which pixels are weighed."""
    images, _, scale, translation = op.inputs
    kind = images.dtype.base
    if not kind.is_floating:
        return [None, None, None, None]
    original = images if kind is dtypes.float32 else b.ops.Cast(images, DstT="float32")
    found = b.ops.ScaleAndTranslateGrad(grad, original, scale, translation, **same(op, *KERNEL))
    return [found if kind is dtypes.float32 else b.ops.Cast(found, DstT=kind), None, None, None]


@gradient("ScaleAndTranslateGrad")
def scale_and_translate_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    grads, _, scale, translation = op.inputs
    size = _size(b, grads)
    return [b.ops.ScaleAndTranslate(grad, size, scale, translation, **same(op, *KERNEL)), None, None, None]


# Projected images: what comes back is projected back.
#
# As in TensorFlow 2, the gradient is the image of the gradient under the inverse projection, taken as the
# op
# takes images. That is the derivative only where the projection takes pixels to pixels, as turns by right
# angles and shifts by whole pixels do.


@gradient("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def projected(b: Backward, op: Operation, grad: Tensor) -> Results:
    """images (N, H, W, C), transforms (N or 1, 8), the size of the results, and what is outside of images"""
    images, transforms, _, *fill = op.inputs
    none = [None] * (2 + len(fill))
    if not images.dtype.base.is_floating:
        return [None, *none]
    size = b.ops.StridedSlice(b.shape(images), [1], [3], [1])
    outside = [b.constant(np.float32(0), "float32")] if fill else []
    found = getattr(b.ops, op.type)(
        grad,
        _inverse(b, transforms),
        size,
        *outside,
        interpolation=op.get_attr("interpolation"),
        fill_mode=op.get_attr("fill_mode"),
    )
    return [found, *none]


def _inverse(b: Backward, transforms: Tensor) -> Tensor:
    """Projections, the ninth number of whose matrices is 1, the other way."""
    first = b.ops.StridedSlice(transforms, [0, 0], [0, 1], [1, 1], begin_mask=3, end_mask=1)
    whole = b.ops.ConcatV2([transforms, b.ops.OnesLike(first)], integer(b, 1))
    inverse = b.ops.MatrixInverse(b.ops.Reshape(whole, integers(b, -1, 3, 3)))
    flat = b.ops.Reshape(inverse, integers(b, -1, 9))
    last = b.ops.StridedSlice(flat, [0, 8], [0, 9], [1, 1], begin_mask=1, end_mask=1)
    others = b.ops.StridedSlice(flat, [0, 0], [0, 8], [1, 1], begin_mask=3, end_mask=1)
    result: Tensor = b.ops.RealDiv(others, last)
    return result
