"""Gradients of reductions of gathered rows that carry the same id, and the gradients of those."""

from __future__ import annotations

from flowengine.core import dtypes
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, rows
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


def _absent(op: Operation, result: Tensor) -> Results:
    """A gradient of the first input alone."""
    return [result, *[None] * (len(op.inputs) - 1)]


@gradient("SparseSegmentSum", "SparseSegmentSumWithNumSegments")
def gathered_sum(b: Backward, op: Operation, grad: Tensor) -> Results:
    """What each sum has is added up in the rows that were gathered for it."""
    data, indices, ids = op.inputs[:3]
    picked = b.ops.GatherV2(grad, ids, integer(b, 0))
    return _absent(op, b.ops.UnsortedSegmentSum(picked, indices, rows(b, data)))


@gradient("SparseSegmentMean", "SparseSegmentMeanWithNumSegments")
def gathered_mean(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The same over the number of rows, an op of its own"""
    data, indices, ids = op.inputs[:3]
    return _absent(op, b.ops.SparseSegmentMeanGrad(grad, indices, ids, rows(b, data)))


@gradient("SparseSegmentSqrtN", "SparseSegmentSqrtNWithNumSegments")
def gathered_root_mean(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The same over the root of the number of rows, an op of its own"""
    data, indices, ids = op.inputs[:3]
    return _absent(op, b.ops.SparseSegmentSqrtNGrad(grad, indices, ids, rows(b, data)))


@gradient("SparseSegmentSumGrad")
def gathered_sum_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The sums again: the op is linear, and this is what it is the adjoint of."""
    before, indices, ids, _ = op.inputs
    narrow = ids if ids.dtype.base is dtypes.int32 else b.ops.Cast(ids, DstT=dtypes.int32)
    return _absent(op, b.ops.SparseSegmentSumWithNumSegments(grad, indices, narrow, rows(b, before)))


@gradient("SparseSegmentMeanGrad")
def gathered_mean_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The means again"""
    before, indices, ids, _ = op.inputs
    return _absent(op, b.ops.SparseSegmentMeanWithNumSegments(grad, indices, ids, rows(b, before)))


@gradient("SparseSegmentSqrtNGrad")
def gathered_root_mean_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The sums over roots again"""
    before, indices, ids, _ = op.inputs
    return _absent(op, b.ops.SparseSegmentSqrtNWithNumSegments(grad, indices, ids, rows(b, before)))
