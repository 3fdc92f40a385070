"""Reductions of sparse tensors: an entry gets the gradient of the element that it was reduced to."""

from __future__ import annotations

import numpy as np

from flowengine.gradients.registry import gradient
from flowengine.gradients.sparse.layout import numbers_of
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


def _kept(b: Backward, op: Operation) -> Tensor:
    """(rank,) int64: 1 for an axis that is kept, 0 for one that is reduced."""
    shape, axes = op.inputs[2], b.ops.Reshape(op.inputs[3], [-1])
    rank = b.ops.Size(shape)
    marks = b.ops.OneHot(b.ops.FloorMod(axes, rank), rank, np.int64(0), np.int64(1))
    result: Tensor = b.ops.Prod(marks, np.int32(0))
    return result


def _elements(b: Backward, op: Operation, kept: Tensor, reduced: Tensor) -> Tensor:
    """The elements of a dense result that the entries were reduced to, (entries,)."""
    shape = b.ops.AddV2(b.ops.Mul(op.inputs[2], kept), b.ops.Sub(np.int64(1), kept))
    whole = b.ops.Reshape(reduced, shape)
    result: Tensor = b.ops.GatherNd(whole, b.ops.Mul(op.inputs[0], kept))
    return result


@gradient("SparseReduceSum")
def sparse_reduce_sum(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [None, _elements(b, op, _kept(b, op), grad), None, None]


@gradient("SparseReduceMax")
def sparse_reduce_max(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Entries that are equally large share the gradient."""
    kept = _kept(b, op)
    indices, values, shape, axes = op.inputs
    largest = _elements(b, op, kept, op.outputs[0])
    taken = b.ops.Cast(b.ops.Equal(values, largest), DstT=values.dtype.base)
    count = b.ops.SparseReduceSum(indices, taken, shape, axes, keep_dims=op.get_attr("keep_dims"))
    share = b.ops.Div(taken, _elements(b, op, kept, count))
    return [None, b.ops.Mul(_elements(b, op, kept, grad), share), None, None]


def _groups(b: Backward, op: Operation) -> Tensor:
    """For each entry the place of the entry of a sparse result that it was reduced to, (entries,) int64."""
    kept = _kept(b, op)
    if op.get_attr("keep_dims"):
        indices: Tensor = b.ops.Mul(op.inputs[0], kept)
    else:
        columns = b.ops.Reshape(b.ops.Where(b.ops.Cast(kept, DstT="bool")), [-1])
        indices = b.ops.GatherV2(op.inputs[0], columns, np.int32(1))
    result: Tensor = b.ops.SparseAddGrad(
        numbers_of(b, op.outputs[0]), indices, indices, op.outputs[0]
    ).a_val_grad
    return result


def _entries(b: Backward, groups: Tensor, reduced: Tensor) -> Tensor:
    """The entries of a sparse result that the entries were reduced to, (entries,)."""
    result: Tensor = b.ops.GatherV2(reduced, groups, np.int32(0))
    return result


@gradient("SparseReduceSumSparse", lazy=True)
def sparse_reduce_sum_sparse(
    b: Backward, op: Operation, of_indices: None, grad: Tensor | None, of_shape: None
) -> Results:
    if grad is None:
        return [None] * 4
    return [None, _entries(b, _groups(b, op), grad), None, None]


@gradient("SparseReduceMaxSparse", lazy=True)
def sparse_reduce_max_sparse(
    b: Backward, op: Operation, of_indices: None, grad: Tensor | None, of_shape: None
) -> Results:
    """Entries that are equally large share the gradient."""
    if grad is None:
        return [None] * 4
    groups = _groups(b, op)
    indices, values, shape, axes = op.inputs
    largest = _entries(b, groups, op.outputs[1])
    taken = b.ops.Cast(b.ops.Equal(values, largest), DstT=values.dtype.base)
    keep = op.get_attr("keep_dims")
    count = b.ops.SparseReduceSumSparse(indices, taken, shape, axes, keep_dims=keep).output_values
    share = b.ops.Div(taken, _entries(b, groups, count))
    return [None, b.ops.Mul(_entries(b, groups, grad), share), None, None]
