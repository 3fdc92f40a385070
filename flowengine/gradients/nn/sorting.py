"""Gradients of the greatest elements of rows, and regression by rows that never rise."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, integers, joined, size
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

# The greatest elements of rows: gradients go back to where the elements were.


@gradient("TopK", "TopKV2")
def top_k(b: Backward, op: Operation, values: Tensor, _: Tensor) -> Results:
    """values, indices (..., k) -> input (..., n), zero but at the indices"""
    x, places = op.inputs[0], op.outputs[1]
    if places.dtype.name != "int32":
        places = b.ops.Cast(places, DstT="int32")
    return [_spread(b, x, places, values), *[None] * (len(op.inputs) - 1)]


@gradient("ApproxTopK")
def approx_top_k(b: Backward, op: Operation, values: Tensor, _: Tensor) -> Results:
    """As of TopK, with the axis of which the elements are taken behind the others meanwhile."""
    x, axis = op.inputs[0], op.get_attr("reduction_dimension")
    if axis in (-1, (x.shape.rank or 0) - 1):
        return [_spread(b, x, op.outputs[1], values)]
    zero, one, rank = b.constant(0, "int32"), b.constant(1, "int32"), b.ops.Rank(x)
    last = b.ops.Sub(rank, one)
    at = b.constant(axis, "int32") if axis >= 0 else b.ops.AddV2(rank, b.constant(axis, "int32"))
    behind, before = b.ops.AddV2(at, one), b.ops.Range(zero, at, one)
    away = b.ops.ConcatV2([before, b.ops.Range(behind, rank, one), b.ops.ExpandDims(at, zero)], zero)
    back = b.ops.ConcatV2([before, b.ops.ExpandDims(last, zero), b.ops.Range(at, last, one)], zero)
    rows, places, found = (b.ops.Transpose(each, away) for each in (x, op.outputs[1], values))
    return [b.ops.Transpose(_spread(b, rows, places, found), back)]


def _spread(b: Backward, x: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """values (..., k), and where in the rows of x (..., n) each has its place -> (..., n), else zero"""
    flat = b.constant([-1], "int32")
    places = b.ops.Reshape(b.ops.AddV2(places, _row_starts(b, x)), flat)
    spread = b.ops.ScatterNd(
        b.ops.ExpandDims(places, b.constant(-1, "int32")),
        b.ops.Reshape(values, flat),
        b.ops.Reshape(b.ops.Size(x), flat),
    )
    result: Tensor = b.ops.Reshape(spread, b.shape(x))
    return result


def _row_starts(b: Backward, x: Tensor) -> Tensor:
    """(..., n) -> (..., 1): where in the flat tensor each row begins"""
    shape, zero, one = b.shape(x), b.constant(0, "int32"), b.constant(1, "int32")
    rank = b.ops.Rank(x)
    last = b.ops.Sub(rank, one)
    outer = b.ops.Slice(shape, b.constant([0], "int32"), b.ops.Reshape(last, b.constant([1], "int32")))
    length = b.ops.GatherV2(shape, last, zero)
    starts = b.ops.Mul(b.ops.Range(zero, b.ops.Prod(outer, zero), one), length)
    column: Tensor = b.ops.Reshape(starts, b.ops.ConcatV2([outer, b.constant([1], "int32")], zero))
    return column


@gradient("NthElement")
def nth_element(b: Backward, op: Operation, grad: Tensor) -> Results:
    """values (...) -> input (..., n): elements that equal the chosen one share its gradient"""
    last = b.constant(-1, "int32")
    chosen = b.ops.Equal(b.ops.ExpandDims(op.outputs[0], last), op.inputs[0])
    shares = b.ops.Cast(chosen, DstT=grad.dtype)
    count = b.ops.Sum(shares, last, keep_dims=True)
    return [b.ops.Mul(b.ops.RealDiv(shares, count), b.ops.ExpandDims(grad, last)), None]


# Regression by rows that never rise: each element is the mean of the block that it lies in.


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
