"""Gradients of other shapes for the same elements, and of elements repeated."""

from __future__ import annotations

import math

import numpy as np

from flowengine.core.shapes import TensorShape
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import from_element, integer, integers, joined, known, rank
from flowengine.gradients.values import Backward, Gradient, IndexedSlices, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("Reshape", "ExpandDims", slices=True)
def reshape(b: Backward, op: Operation, grad: Gradient) -> Results:
    """g in the shape of the input"""
    return [_reshaped(b, op, grad), None]


@gradient("Squeeze", slices=True)
def squeeze(b: Backward, op: Operation, grad: Gradient) -> Results:
    """g in the shape of the input"""
    return [_reshaped(b, op, grad)]


def _reshaped(b: Backward, op: Operation, grad: Gradient) -> Gradient:
    """g in the shape of the input; rows stay rows where each is reshaped for itself."""
    x, y = op.inputs[0], op.outputs[0]
    if isinstance(grad, IndexedSlices) and _keeps_rows(x.shape, y.shape):
        shape = b.shape(x)
        values = b.ops.Reshape(grad.values, joined(b, [integers(b, -1), from_element(b, shape, 1)]))
        return IndexedSlices(values, grad.indices, shape)
    result: Tensor = b.ops.Reshape(b.dense(grad), b.shape(x))
    return result


def _keeps_rows(x: TensorShape, y: TensorShape) -> bool:
    """Whether row i of y is row i of x, with its elements in the same order."""
    if not x.dims or not y.dims:
        return False
    rest_x, rest_y = x.dims[1:], y.dims[1:]
    if None in rest_x or None in rest_y:
        return False
    in_x, in_y = (math.prod(d for d in rest if d is not None) for rest in (rest_x, rest_y))
    return in_x == in_y and in_x > 0


@gradient("Tile")
def tile(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The sum of the tiles: each axis becomes two, how often and what, and the first of them is summed."""
    x, multiples = op.inputs
    times, dims = known(multiples), x.shape.as_tuple()
    if times is not None and (times == 1).all():
        return [grad, None]
    if times is not None and dims is not None:
        pairs = np.stack([times.reshape(-1), np.array(dims, times.dtype)], axis=1)
        parts = b.constant(pairs.reshape(-1))
    else:
        columns = b.ops.Pack([multiples, b.shape(x, multiples.dtype.base)], axis=1)
        parts = b.ops.Reshape(columns, integers(b, -1))
    if x.shape.rank is not None:
        axes = integers(b, *range(0, 2 * x.shape.rank, 2))
    else:
        axes = b.ops.Range(integer(b, 0), b.ops.Mul(2, rank(b, x)), integer(b, 2))
    return [b.ops.Sum(b.ops.Reshape(grad, parts), axes), None]


@gradient("TileGrad")
def tile_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g, repeated"""
    return [b.ops.Tile(grad, op.inputs[1]), None]


@gradient("BroadcastTo")
def broadcast_to(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g, summed along the axes that were repeated"""
    return [b.sum_to(grad, op.inputs[0], op.outputs[0]), None]
