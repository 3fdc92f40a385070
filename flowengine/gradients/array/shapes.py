"""Gradients of other shapes for the same elements, and of elements repeated."""

from __future__ import annotations

import numpy as np

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, integers, known, rank
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("Reshape", "ExpandDims")
def reshape(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g in the shape of the input: dense, as in TensorFlow, also if g came as slices"""
    return [b.ops.Reshape(grad, b.shape(op.inputs[0])), None]


@gradient("Squeeze")
def squeeze(b: Backward, op: Operation, grad: Tensor) -> Results:
    """g in the shape of the input"""
    return [b.ops.Reshape(grad, b.shape(op.inputs[0]))]


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
