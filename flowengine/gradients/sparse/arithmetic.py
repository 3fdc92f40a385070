"""Arithmetic of sparse tensors: values have gradients, indices and shapes have none."""

from __future__ import annotations

import numpy as np

from flowengine.gradients.matrices import real_type
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


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
