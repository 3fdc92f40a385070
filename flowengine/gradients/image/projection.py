"""Projected images: what comes back is projected back.

As in TensorFlow 2, the gradient is the image of the gradient under the inverse projection, taken as the op
takes images. That is the derivative only where the projection takes pixels to pixels, as turns by right
angles and shifts by whole pixels do.
"""

from __future__ import annotations

import numpy as np

from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, integers
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


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
