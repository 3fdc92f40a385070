"""Gradients of arithmetic and reductions of sparse tensors."""

from __future__ import annotations

import numpy as np

from flowengine.gradients.backward import Backward
from flowengine.gradients.matrices import real_type
from flowengine.gradients.registry import gradient
from flowengine.gradients.sparse.layout import numbers_of
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

# Arithmetic of sparse tensors: values have gradients, indices and shapes have none.


@gradient("SparseAdd", lazy=True)
def sparse_add(b: Backward, op: Operation, of_indices: None, grad: Tensor | None, of_shape: None) -> Results:
    """An entry of an operand gets the gradient of the sum's at its place, zero where the sum dropped it."""
    if grad is None:
        return [None] * 7
    found = b.ops.SparseAddGrad(grad, op.inputs[0], op.inputs[3], op.outputs[0])
    return [None, found.a_val_grad, None, None, found.b_val_grad, None, None]


@gradient("SparseAddGrad")
def sparse_add_grad(b: Backward, op: Operation, of_a: Tensor, of_b: Tensor) -> Results:
    """An entry of the sum gets what either operand's entry at its place has: their sum, sought in turn."""
    _, a_indices, b_indices, sum_indices = op.inputs
    every = b.ops.ConcatV2([a_indices, b_indices], np.int32(0))
    # Any shape that holds them all will do.
    shape = b.ops.AddV2(b.ops.Maximum(b.ops.Max(every, np.int32(0)), np.int64(0)), np.int64(1))
    least = b.constant(0, real_type(of_a.dtype.base))
    total = b.ops.SparseAdd(a_indices, of_a, shape, b_indices, of_b, shape, least)
    return [_found(b, total.sum_values, total.sum_indices, sum_indices), None, None, None]


def _found(b: Backward, values: Tensor, indices: Tensor, wanted: Tensor) -> Tensor:
    """The values at some places of a sparse tensor, zero where it has none."""
    result: Tensor = b.ops.SparseAddGrad(values, wanted, wanted, indices).a_val_grad
    return result


class BroadcastOperand:
    """The dense operand of an op, broadcast to a sparse one: where its elements stand and what they get.

    shape    (rank,) int64: its own, with axes of length one in front
    places   (entries, rank) int64: for each entry the element of the dense operand that it meets
    """

    def __init__(self, b: Backward, op: Operation) -> None:
        indices, _, shape, self.dense = op.inputs
        self.b = b
        own = b.shape(self.dense, "int64")
        rank, own_rank = indices.shape[1], self.dense.shape.rank
        self.is_whole = rank is not None and rank == own_rank
        if self.is_whole:
            self.shape = own
        else:
            missing = b.ops.Sub(b.ops.Size(shape), b.ops.Rank(self.dense))
            ones = b.ops.Fill(b.ops.ExpandDims(missing, np.int32(0)), np.int64(1))
            self.shape = b.ops.ConcatV2([ones, own], np.int32(0))
        kept = b.ops.Cast(b.ops.NotEqual(self.shape, np.int64(1)), DstT="int64")
        self.places: Tensor = b.ops.Mul(indices, kept)

    def taken(self) -> Tensor:
        """The elements of the dense operand that the entries meet, (entries,)."""
        whole = self.dense if self.is_whole else self.b.ops.Reshape(self.dense, self.shape)
        result: Tensor = self.b.ops.GatherNd(whole, self.places)
        return result

    def spread(self, values: Tensor) -> Tensor:
        """The gradient of the dense operand from that of what was taken, added up."""
        result: Tensor = self.b.ops.ScatterNd(self.places, values, self.shape)
        if not self.is_whole:
            result = self.b.ops.Reshape(result, self.b.shape(self.dense))
        return result


@gradient("SparseDenseCwiseAdd")
def sparse_dense_add(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [None, grad, None, BroadcastOperand(b, op).spread(grad)]


@gradient("SparseDenseCwiseMul")
def sparse_dense_mul(b: Backward, op: Operation, grad: Tensor) -> Results:
    values, dense = op.inputs[1], BroadcastOperand(b, op)
    of_dense = dense.spread(b.ops.Mul(grad, b.real_or_conj(values)))
    return [None, b.ops.Mul(grad, b.real_or_conj(dense.taken())), None, of_dense]


@gradient("SparseDenseCwiseDiv")
def sparse_dense_div(b: Backward, op: Operation, grad: Tensor) -> Results:
    values, dense = op.inputs[1], BroadcastOperand(b, op)
    taken = dense.taken()
    of_values = b.ops.Div(grad, b.real_or_conj(taken))
    ratio = b.real_or_conj(b.ops.Div(values, taken))
    return [None, of_values, None, dense.spread(b.ops.Neg(b.ops.Mul(of_values, ratio)))]


@gradient("SparseSoftmax")
def sparse_softmax(b: Backward, op: Operation, grad: Tensor) -> Results:
    """(G - the sum of G P along the last axis) P, for entries in order."""
    indices, _, shape = op.inputs
    (shares,) = op.outputs
    total = b.ops.SparseReduceSum(
        indices, b.ops.Mul(grad, shares), shape, np.array([-1], np.int32), keep_dims=True
    )
    moved = b.ops.SparseDenseCwiseAdd(indices, grad, shape, b.ops.Neg(total))
    return [None, b.ops.Mul(moved, shares), None]


@gradient("SparseSparseMaximum", "SparseSparseMinimum", lazy=True)
def sparse_extreme(b: Backward, op: Operation, of_indices: None, grad: Tensor | None) -> Results:
    """The entry that was taken gets it all, that of the first operand where both are equal."""
    if grad is None:
        return [None] * 6
    a_indices, a, _, b_indices, c, _ = op.inputs
    found = b.ops.SparseAddGrad(grad, a_indices, b_indices, op.outputs[0])
    there, here = _found(b, c, b_indices, a_indices), _found(b, a, a_indices, b_indices)
    if op.type == "SparseSparseMaximum":
        first, second = b.ops.GreaterEqual(a, there), b.ops.Greater(c, here)
    else:
        first, second = b.ops.LessEqual(a, there), b.ops.Less(c, here)
    taken = [
        b.ops.Select(mask, part, b.ops.ZerosLike(part))
        for mask, part in ((first, found.a_val_grad), (second, found.b_val_grad))
    ]
    return [None, taken[0], None, None, taken[1], None]


# Reductions of sparse tensors: an entry gets the gradient of the element that it was reduced to.


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
