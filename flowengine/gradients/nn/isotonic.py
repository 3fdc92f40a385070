"""Regression by rows that never rise: each element is the mean of the block that it lies in."""

from __future__ import annotations

from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, integers, joined, size
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("IsotonicRegression")
def isotonic(b: Backward, op: Operation, grad: Tensor, _: Tensor) -> Results:
    """To each element the mean of the gradients of its block, for (..., n) rows of blocks 0, 1, ..."""
    x, blocks = op.inputs[0], op.outputs[1]
    if not x.dtype.base.is_floating:
        return [None]
    flat = b.ops.Reshape(grad, integers(b, -1))
    count = size(b, x)
    # A scalar is a row of one.
    dims = joined(b, [integers(b, 1), b.shape(x)])
    width = b.ops.StridedSlice(dims, [-1], [0], [1], end_mask=1, shrink_axis_mask=1)
    number = b.ops.Range(integer(b, 0), count, integer(b, 1))
    # Rows of no elements have no row to begin in.
    start = b.ops.Sub(number, b.ops.FloorMod(number, b.ops.Maximum(width, integer(b, 1))))
    ids = b.ops.AddV2(b.ops.Reshape(blocks, integers(b, -1)), start)
    sums = b.ops.UnsortedSegmentSum(flat, ids, count)
    sizes = b.ops.UnsortedSegmentSum(b.ops.OnesLike(flat), ids, count)
    means = b.ops.RealDiv(b.ops.GatherV2(sums, ids, integer(b, 0)), b.ops.GatherV2(sizes, ids, integer(b, 0)))
    return [b.ops.Cast(b.ops.Reshape(means, b.shape(x)), DstT=x.dtype.base)]
