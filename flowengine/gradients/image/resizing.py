"""Resizing of images: linear, so each op and its gradient are each other's derivative."""

from __future__ import annotations

from typing import Final

from flowengine.core import dtypes
from flowengine.gradients.attributes import same
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor

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
