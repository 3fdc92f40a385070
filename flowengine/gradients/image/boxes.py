"""Boxes in images: crops by the image and by the corners of the boxes."""

from __future__ import annotations

from flowengine.core import dtypes
from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import same
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("CropAndResize")
def crop_and_resize(b: Backward, op: Operation, grad: Tensor) -> Results:
    """By images of floating numbers, and by the boxes, for which crops are taken as bilinear ones."""
    image, boxes, which, _ = op.inputs
    by_image: Tensor | None = None
    if image.dtype.base in (dtypes.float16, dtypes.float32, dtypes.float64):
        by_image = b.ops.CropAndResizeGradImage(
            grad, boxes, which, b.shape(image), T=image.dtype.base, **same(op, "method")
        )
    return [by_image, b.ops.CropAndResizeGradBoxes(grad, image, boxes, which), None, None]


@gradient("CropAndResizeGradImage")
def crop_grad_image(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The crops of what comes back, for it is linear; by the boxes as those crops' own gradient.

    The nearest element stays the same one when a box moves a little.
    """
    grads, boxes, which, _ = op.inputs
    begin, end, step = (b.constant([i], "int32") for i in (1, 3, 1))
    size = b.ops.StridedSlice(b.shape(grads), begin, end, step)
    crops = b.ops.CropAndResize(grad, boxes, which, size, **same(op, "method"))
    by_boxes: Tensor | None = None
    if op.get_attr("method") == b"bilinear":
        by_boxes = b.ops.CropAndResizeGradBoxes(grads, grad, boxes, which)
    return [crops, by_boxes, None, None]
