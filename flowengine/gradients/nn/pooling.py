"""Pooling, where maxima were, and gradients of first and second order.

The gradient of a maximum goes back to the element that was the greatest, and the gradient of that gradient
comes from there again, so the two are each other's derivative. So are an average and its gradient. By the
tensors that were compared all of them are flat almost everywhere.
"""

from __future__ import annotations

from typing import Any, Final

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import same
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

#: How windows lie.
WINDOWS: Final = ("ksize", "strides", "padding", "data_format")
#: The same where their sizes and strides are inputs.
LAYOUT: Final = ("padding", "data_format")
#: The same where places of maxima are numbers.
NUMBERED: Final = ("ksize", "strides", "padding", "include_batch_in_index")


@gradient("MaxPool")
def max_pool(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.MaxPoolGrad(op.inputs[0], op.outputs[0], grad, **same(op, *WINDOWS))]


@gradient("MaxPoolGrad")
def max_pool_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, y, _ = op.inputs
    return [*_flat(b, op), b.ops.MaxPoolGradGrad(x, y, grad, **same(op, *WINDOWS))]


def _flat(b: Backward, op: Operation) -> list[Any]:
    """Zeros like the pooled tensor and like the maxima."""
    return [b.zeros_like(op.inputs[0]), b.zeros_like(op.inputs[1])]


@gradient("MaxPoolGradGrad")
def max_pool_grad_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, y, _ = op.inputs
    return [*_flat(b, op), b.ops.MaxPoolGrad(x, y, grad, **same(op, *WINDOWS))]


@gradient("MaxPoolV2")
def max_pool_v2(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, sizes, strides = op.inputs
    d_x = b.ops.MaxPoolGradV2(x, op.outputs[0], grad, sizes, strides, **same(op, *LAYOUT))
    return [d_x, None, None]


@gradient("MaxPoolGradV2")
def max_pool_grad_v2(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, y, _, sizes, strides = op.inputs
    by_grad = b.ops.MaxPoolGradGradV2(x, y, grad, sizes, strides, **same(op, *LAYOUT))
    return [*_flat(b, op), by_grad, None, None]


@gradient("MaxPoolGradGradV2")
def max_pool_grad_grad_v2(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, y, _, sizes, strides = op.inputs
    by_grad = b.ops.MaxPoolGradV2(x, y, grad, sizes, strides, **same(op, *LAYOUT))
    return [*_flat(b, op), by_grad, None, None]


@gradient("MaxPoolWithArgmax")
def max_pool_with_argmax(b: Backward, op: Operation, grad: Tensor, _: Tensor) -> Results:
    return [b.ops.MaxPoolGradWithArgmax(op.inputs[0], grad, op.outputs[1], **same(op, *NUMBERED))]


@gradient("MaxPoolGradWithArgmax")
def max_pool_grad_with_argmax(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, _, places = op.inputs
    by_grad = b.ops.MaxPoolGradGradWithArgmax(x, grad, places, **same(op, *NUMBERED))
    return [b.zeros_like(x), by_grad, None]


@gradient("MaxPoolGradGradWithArgmax")
def max_pool_grad_grad_with_argmax(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, _, places = op.inputs
    by_grad = b.ops.MaxPoolGradWithArgmax(x, grad, places, **same(op, *NUMBERED))
    return [b.zeros_like(x), by_grad, None]


@gradient("AvgPool")
def avg_pool(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.AvgPoolGrad(b.shape(op.inputs[0]), grad, **same(op, *WINDOWS))]


@gradient("AvgPoolGrad")
def avg_pool_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    pooled, given = b.ops.AvgPool(grad, **same(op, *WINDOWS)), op.inputs[1]
    if given.shape.is_fully_defined and given.shape == pooled.shape:
        return [None, pooled]
    # It may have fewer rows than what was pooled; the others count as zeros.
    begin = b.ops.ZerosLike(b.shape(given))
    return [None, b.ops.Slice(pooled, begin, b.shape(given))]


@gradient("MaxPool3D")
def max_pool_3d(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.MaxPool3DGrad(op.inputs[0], op.outputs[0], grad, **same(op, *WINDOWS))]


@gradient("MaxPool3DGrad")
def max_pool_3d_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, y, _ = op.inputs
    return [*_flat(b, op), b.ops.MaxPool3DGradGrad(x, y, grad, **same(op, *WINDOWS))]


@gradient("MaxPool3DGradGrad")
def max_pool_3d_grad_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, y, _ = op.inputs
    return [*_flat(b, op), b.ops.MaxPool3DGrad(x, y, grad, **same(op, *WINDOWS))]


@gradient("AvgPool3D")
def avg_pool_3d(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.AvgPool3DGrad(b.shape(op.inputs[0]), grad, **same(op, *WINDOWS))]


@gradient("AvgPool3DGrad")
def avg_pool_3d_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [None, b.ops.AvgPool3D(grad, **same(op, *WINDOWS))]
