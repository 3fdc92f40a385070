"""The greatest elements of rows: gradients go back to where the elements were."""

from __future__ import annotations

from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("TopK", "TopKV2")
def top_k(b: Backward, op: Operation, values: Tensor, _: Tensor) -> Results:
    """values, indices (..., k) -> input (..., n), zero but at the indices"""
    x = op.inputs[0]
    flat = b.constant([-1], "int32")
    places = b.ops.Reshape(b.ops.AddV2(op.outputs[1], _row_starts(b, x)), flat)
    spread = b.ops.ScatterNd(
        b.ops.ExpandDims(places, b.constant(-1, "int32")),
        b.ops.Reshape(values, flat),
        b.ops.Reshape(b.ops.Size(x), flat),
    )
    return [b.ops.Reshape(spread, b.shape(x)), *[None] * (len(op.inputs) - 1)]


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
